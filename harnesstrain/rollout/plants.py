"""What in a submitted state can bend the verifier that runs in it: named, and where it must be, refused.

Only paths are looked at, as the sandbox lists them from outside; nothing in the state is asked.  A plant that is named
changes no grade: an honest solution may install a tool, too.  One that is refused leaves nothing to trust.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from harnesstrain.core.digests import digest

SHOWN = 3
"""Paths that are named of each kind."""
NEVER, FORKED, ELSEWHERE, ALWAYS = "never", "forked", "elsewhere", "always"


@dataclass(frozen=True, slots=True)
class Plant:
    """One kind of file."""

    name: str
    """What the user sees: one word."""
    pattern: str
    """Regular expression over the absolute path of a file that is new, changed or gone."""
    refused: str
    """`never`: only named.  `forked`: no grade where grading starts new processes of its own in a copy of the state, on
    a base that no task changes.  `elsewhere`: no grade unless the task's working directory is the root itself.
    `always`: no grade."""
    reason: str
    matches: tuple[str, ...]
    ignores: tuple[str, ...]


_PROGRAMS = (
    r"(?:ba|da)?sh|env|python\d?(?:\.\d+)?|py\.?test|uvx?|pip\d?|curl|wget|apt(?:-get)?|sudo|timeout|tee|cat|echo|test"
    r"|grep|sed|awk|find|rm|mkdir|cp|mv|chmod|diff|cmp|date|node|npm|npx|cargo|go|java|mvn|make|cmake|gcc|g\+\+|git"
)

PLANTS: tuple[Plant, ...] = (
    Plant(
        name="forged_result",
        pattern=r"^/(?:logs/verifier|tests)/.+$",
        refused=NEVER,
        reason="discarded before the verifier's own files come",
        matches=("/logs/verifier/reward.txt", "/tests/test.sh"),
        ignores=("/app/tests/test_x.py", "/logs/agent/x"),
    ),
    Plant(
        name="preload",
        pattern=r"^/etc/ld\.so\.preload$",
        refused=ALWAYS,
        reason="every program that starts, the verifier's too, runs what it names",
        matches=("/etc/ld.so.preload",),
        ignores=("/etc/ld.so.cache", "/app/etc/ld.so.preload"),
    ),
    Plant(
        name="system_folder",
        pattern=r"^/(?:s?bin|lib(?:32|64|x32)?)(?:/|$)",
        refused=FORKED,
        reason="the shell, the loader and the C library of every program",
        matches=("/bin", "/bin/bash", "/lib64/ld-linux-x86-64.so.2"),
        ignores=("/usr/bin/x", "/app/bin/x", "/library"),
    ),
    Plant(
        name="shim",
        pattern=rf"^(?:/usr(?:/local)?/s?bin|/root/(?:\.local/)?bin|/root/\.cargo/bin)/(?:{_PROGRAMS})$",
        refused=NEVER,
        reason="runs where the verifier means a program of that name",
        matches=("/usr/local/bin/pytest", "/usr/bin/bash", "/root/.local/bin/uvx", "/usr/local/bin/python3.13"),
        ignores=("/usr/local/bin/solver", "/app/bin/pytest", "/usr/local/bin/pytest-cov"),
    ),
    Plant(
        name="loader",
        pattern=r"^/(?:usr/)?lib\S*/(?:ld-(?:linux|musl)\S*|libc\.so\.6|libc-\d\S*)$|^/etc/ld\.so\.conf",
        refused=NEVER,
        reason="every program that starts, the verifier's too, loads it",
        matches=("/usr/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2", "/etc/ld.so.conf.d/x.conf"),
        ignores=("/usr/lib/x86_64-linux-gnu/libcurl.so.4",),
    ),
    Plant(
        name="python_start",
        pattern=(
            r"/(?:site|user)customize\.py$|/(?:site|dist)-packages/"
            r"(?!distutils-precedence\.|__editable__|easy-install\.|_virtualenv\.|a1_coverage\.)[^/]+\.pth$"
        ),
        refused=NEVER,
        reason="every Python that starts runs it",
        matches=("/usr/lib/python3/dist-packages/x.pth", "/usr/lib/python3.11/sitecustomize.py"),
        ignores=("/app/model.pth", "/usr/lib/python3/dist-packages/distutils-precedence.pth"),
    ),
    Plant(
        name="python_library",
        pattern=r"^/usr/(?:local/)?lib/python3\.\d+/(?!(?:site|dist)-packages/|.*__pycache__)(?:.*\.(?:py|so))$",
        refused=NEVER,
        reason="the modules of Python itself",
        matches=("/usr/lib/python3.11/json/__init__.py",),
        ignores=("/usr/lib/python3.11/site-packages/x.py", "/usr/lib/python3.11/__pycache__/os.cpython-311.pyc"),
    ),
    Plant(
        name="root_settings",
        pattern=r"^/(?:conftest\.py|\.?pytest\.ini|tox\.ini|setup\.cfg|pyproject\.toml)$",
        refused=ELSEWHERE,
        reason="pytest obeys it for tests anywhere",
        matches=("/pytest.ini", "/conftest.py", "/pyproject.toml"),
        ignores=("/app/pyproject.toml", "/app/setup.cfg"),
    ),
    Plant(
        name="pytest_settings",
        pattern=r"^(?!.*/site-packages/)/.+/(?:conftest\.py|\.?pytest\.ini)$",
        refused=NEVER,
        reason="pytest obeys it for tests beside it, or started there",
        matches=("/app/conftest.py", "/app/pytest.ini"),
        ignores=("/usr/lib/python3/site-packages/x/conftest.py", "/app/test_x.py"),
    ),
    Plant(
        name="shell_start",
        pattern=r"^/etc/(?:environment|profile|bash\.bashrc)$|^/root/\.(?:bashrc|profile|bash_profile|bash_login|zshenv)$",
        refused=NEVER,
        reason="read by shells that a person starts; by a verifier only if it asks for it",
        matches=("/etc/environment", "/root/.bashrc"),
        ignores=("/etc/profile.d/vte.sh", "/app/.bashrc"),
    ),
    Plant(
        name="download_settings",
        pattern=(
            r"^/etc/(?:resolv\.conf|hosts|nsswitch\.conf|pip\.conf|apt/\S+|uv/\S+|ssl/certs/\S+)$"
            r"|^/root/\.(?:curlrc|wgetrc|netrc|npmrc|pip/\S+|config/(?:uv|pip)/\S+)$"
        ),
        refused=NEVER,
        reason="what the verifier downloads can come from elsewhere, or not at all",
        matches=("/etc/hosts", "/root/.curlrc", "/root/.config/uv/uv.toml", "/etc/apt/sources.list"),
        ignores=("/etc/hostname", "/app/uv.toml", "/var/lib/apt/lists/x"),
    ),
    Plant(
        name="scheduled",
        pattern=r"^/(?:etc/cron|var/spool/cron|etc/systemd/system)\S*/.+$|^/etc/crontab$",
        refused=NEVER,
        reason="nothing runs it here",
        matches=("/etc/cron.d/job", "/var/spool/cron/crontabs/root", "/etc/crontab"),
        ignores=("/app/cron.d/job",),
    ),
)
"""In the order in which they are told."""


@dataclass(frozen=True, slots=True)
class Found:
    """Plants of one kind."""

    name: str
    paths: tuple[str, ...]
    refused: str

    def refuses(self, *, forks: bool, workdir: str) -> bool:
        """Whether there is no grade.  `forks`: grading happens in a fork; `workdir`: the task's working directory."""
        return {FORKED: forks, ELSEWHERE: workdir != "/", ALWAYS: True}.get(self.refused, False)

    def __str__(self) -> str:
        more = f", {len(self.paths) - SHOWN} more" if len(self.paths) > SHOWN else ""
        return f"{self.name} ({', '.join(self.paths[:SHOWN])}{more})"


def version() -> str:
    """Digest of the rules."""
    return digest([[plant.name, plant.pattern, plant.refused] for plant in PLANTS])


def find(paths: Iterable[str]) -> tuple[Found, ...]:
    """The plants among changed `paths`, each path under the first kind that it matches."""
    kinds = [(plant, re.compile(plant.pattern)) for plant in PLANTS]
    found: dict[str, list[str]] = {}
    for path in paths:
        name = next((plant.name for plant, pattern in kinds if pattern.search(path)), None)
        if name is not None:
            found.setdefault(name, []).append(_printable(path))
    return tuple(Found(p.name, tuple(sorted(found[p.name])), p.refused) for p in PLANTS if p.name in found)


def _printable(path: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in path)[:200]
