"""The interpreter of a harness: the one that runs `ht`, or a virtual environment that the manifest names."""

from __future__ import annotations

import functools
import os
import pwd
import sys
from dataclasses import dataclass
from pathlib import Path

from harnesstrain.core.digests import digest, digest_bytes
from harnesstrain.core.errors import ConfigError, Prerequisite

SYSTEM = (Path("/usr"), Path("/bin"), Path("/lib"), Path("/lib64"))
"""Shown in every jail anyway."""

PROGRAMS = "/usr/local/bin:/usr/bin:/bin"
"""The end of every harness's PATH."""


@dataclass(frozen=True)
class Interpreter:
    """A python and what it needs to run."""

    python: Path
    """The program, e.g. `.venv/bin/python`."""
    trees: tuple[Path, ...]
    """Directories it lives in, to be shown read-only under their own names."""

    @property
    def path(self) -> str:
        """PATH with the interpreter's own programs first."""
        return f"{self.python.parent}:{PROGRAMS}"

    def command(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """`command` with `python` or `python3` as its first word replaced by this interpreter."""
        return (str(self.python), *command[1:]) if command[0] in ("python", "python3") else command


def interpreter(environment: Path | None = None) -> Interpreter:
    """The interpreter for a harness.

    Raises ConfigError when `environment` is no virtual environment, Prerequisite when it cannot be shown alone.
    """
    if environment is None:
        return _own(Path(sys.executable), (Path(sys.prefix), Path(sys.base_prefix)), _home())
    python = environment / "bin" / "python"
    if not (environment / "pyvenv.cfg").is_file() or not python.exists():
        hint = f"`python -m venv {environment}`, then install what the harness needs"
        raise ConfigError(f"environment {environment} is not a virtual environment", hint=hint)
    return Interpreter(python, _trees(python, _home(), environment))


@functools.cache
def _own(python: Path, prefixes: tuple[Path, ...], home: Path) -> Interpreter:
    """The interpreter that runs this; asked for at every start of a harness."""
    return Interpreter(python, _trees(python, home, *prefixes))


def lock_digest(environment: Path | None) -> str | None:
    """Digest of what is installed in a virtual environment (64 hex); None without one.

    Covers the python version, and name, version and file hashes of every distribution; not where it lies.
    Raises ConfigError when it is no virtual environment.
    """
    if environment is None:
        return None
    interpreter(environment)
    installed = []
    for record in sorted(environment.glob("lib/python*/site-packages/*.dist-info/RECORD")):
        lines = sorted(line for line in record.read_bytes().splitlines() if _portable(line))
        installed.append([record.parent.name, digest_bytes(b"\n".join(lines))])
    settings = dict(_setting(line) for line in (environment / "pyvenv.cfg").read_text().splitlines() if "=" in line)
    return digest({"python": settings.get("version", ""), "installed": installed})


def _portable(line: bytes) -> bool:
    """Whether a RECORD line is the same on every machine: scripts hold paths, installers leave notes."""
    name = line.split(b",")[0].rsplit(b"/", 1)[-1]
    return not line.startswith(b"..") and name not in (b"INSTALLER", b"REQUESTED", b"direct_url.json", b"RECORD")


def _setting(line: str) -> tuple[str, str]:
    key, _, value = line.partition("=")
    return key.strip(), value.strip()


def _home() -> Path:
    return Path(pwd.getpwuid(os.getuid()).pw_dir)


def _trees(python: Path, home: Path, *prefixes: Path) -> tuple[Path, ...]:
    """What has to be shown for a python to run.  Raises Prerequisite when that would show somebody's home."""
    found: list[Path] = []
    for tree in (*prefixes, python.resolve().parent.parent):
        if any(tree == other or other in tree.parents for other in (*SYSTEM, *found)):
            continue
        if tree in (home, *home.parents):
            hint = "run ht from a virtual environment made by a python of its own directory"
            raise Prerequisite(f"python {python} cannot be shown to a harness without showing {tree}", hint=hint)
        found.append(tree)
    return tuple(found)
