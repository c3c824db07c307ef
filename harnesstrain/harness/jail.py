"""What a harness can see and use: its files, a python, the system's programs, a private /tmp.  Nothing of the host.

`process` mode (isolated=False) gives it the same environment variables and nothing else: it can read and write what
the user can.  It is never chosen silently.
"""

from __future__ import annotations

import functools
import logging
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harnesstrain.core import confinement
from harnesstrain.core.confinement import Bind, Confinement
from harnesstrain.core.errors import ConfigError, Prerequisite
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.harness import Manifest
from harnesstrain.harness.environment import Interpreter, interpreter

log = logging.getLogger(__name__)

HOME = "/harness"
"""Where the worktree is in a jail, whatever its name outside."""

WORK = "/check"
"""Where a check runs: a private copy of the worktree, in memory."""

PINS: Mapping[str, str] = {
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "USER": "user",
    "LOGNAME": "user",
    "SHELL": "/bin/sh",
    "TERM": "dumb",
    "COLUMNS": "80",
    "LINES": "24",
    "TZ": "UTC",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUTF8": "1",
    "NO_COLOR": "1",
}
"""Every environment variable of a harness but PATH.  None comes from the host."""


class JailLimits(Record):
    """What a harness may use."""

    memory_mb: int = 2048
    """Of all its processes together where control groups can be used, else of each."""
    pids: int = 128
    """Processes and threads."""
    cpu_seconds: int = 1800
    """Processor time of each process."""
    tmp_mb: int = 256
    """Size of its /tmp, and of a check's copy."""
    file_mb: int = 256
    """Largest file it may write."""


@dataclass(frozen=True)
class Launch:
    """How to start a program of a harness."""

    command: tuple[str, ...]
    env: Mapping[str, str] | None
    """None: the launcher's own; the confined program gets the pins alone."""
    cwd: Path | None
    confined: Confinement | None = None

    @property
    def isolated(self) -> bool:
        """Whether it runs in a jail."""
        return self.confined is not None

    @property
    def argv(self) -> tuple[str, ...]:
        """What to give to a `Popen`."""
        return self.command if self.confined is None else tuple(confinement.launch_argv(self.confined))


def require(isolated: bool) -> None:
    """Raise Prerequisite when isolation is asked for and cannot be had; say aloud when it is given up."""
    if not isolated:
        _say_aloud()
        return
    why = confinement.unavailable()
    if why is not None:
        hint = "install what is missing, or give `--allow-unisolated` if you trust the harness"
        raise Prerequisite(f"no jail for the harness: {why}", hint=hint)


@functools.cache
def _say_aloud() -> None:
    log.warning("harnesses run NOT ISOLATED: they can read and write what you can")


def launch(
    worktree: Path,
    manifest: Manifest,
    *,
    isolated: bool,
    limits: JailLimits,
    environment: Path | None = None,
    command: tuple[str, ...] | None = None,
    scratch: bool = False,
    tmp: Path | None = None,
) -> Launch:
    """How to start `command` (the manifest's own when None) for the harness in `worktree`.

    `scratch`: run in a private, writable copy of the worktree (a check) instead of the read-only worktree.
    `tmp`: without a jail, the private directory that stands in for /tmp.
    `environment`: a virtual environment instead of the manifest's.  Raises ConfigError, Prerequisite.
    """
    require(isolated)
    python = interpreter(_environment(manifest, environment))
    words = python.command(command or manifest.command)
    if not isolated:
        own = str(tmp) if tmp is not None else PINS["TMPDIR"]
        env = {**PINS, "HOME": own, "TMPDIR": own, "PATH": python.path}
        return Launch(words, env, worktree.resolve())
    if scratch:
        words = ("/bin/sh", "-c", f'cp -RP {HOME}/. {WORK}/ && exec "$@"', "check", *words)
    return Launch(words, None, None, _confine(worktree, python, words, limits, scratch))


def works(worktree: Path, manifest: Manifest, limits: JailLimits, environment: Path | None = None) -> str | None:
    """Why nothing at all can be started for this worktree (the jail's fault), or None (then it is the harness's)."""
    try:
        made = launch(worktree, manifest, isolated=True, limits=limits, environment=environment, command=("/bin/true",))
        probe = subprocess.run(made.argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if probe.returncode == 0:
        return None
    said = probe.stderr.decode("utf-8", "replace").strip().splitlines()
    return said[-1] if said else f"exit {probe.returncode}"


def _confine(
    worktree: Path, python: Interpreter, command: tuple[str, ...], limits: JailLimits, scratch: bool
) -> Confinement:
    binds = [Bind(tree, str(tree)) for tree in python.trees]
    return Confinement(
        command=command,
        binds=(*binds, Bind(worktree.resolve(), HOME)),
        env={**PINS, "PATH": python.path},
        cwd=WORK if scratch else HOME,
        tmpfs=("/tmp", WORK) if scratch else ("/tmp",),
        tmpfs_mb=limits.tmp_mb,
        hostname="harness",
        memory_mb=limits.memory_mb,
        pids=limits.pids,
        cpu_seconds=limits.cpu_seconds,
        file_mb=limits.file_mb,
    )


def _environment(manifest: Manifest, given: Path | None) -> Path | None:
    if given is not None or manifest.environment is None:
        return given
    path = Path(manifest.environment)
    if not path.is_absolute():
        hint = "read the manifest with HarnessRepo.manifest, which resolves it"
        raise ConfigError(f"environment '{path}' is relative and nothing says to what", hint=hint)
    return path
