"""Dropping everything before anything untrusted starts: a private root, namespaces, another user, limits.

A `Confinement` says what a process may see and use; `launch_argv` turns it into the arguments of a `Popen`.  The
launcher (`launcher.py`) makes the mounts in a private mount namespace, leaves root for an unprivileged user, and
only then starts bubblewrap: bubblewrap as real root is not a sandbox.  It stays as the parent and ends the
process when the starter dies, so nothing outlives a killed driver.
"""

from __future__ import annotations

import contextlib
import functools
import marshal
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

from harnesstrain.core import cgroups, seccomp

_START = "import sys; sys.path.append(sys.argv[1]); import launcher; launcher.main(sys.argv[2])"
"""Imports the launcher alone, from its compiled form: it starts before every confined process."""

JAIL_UID = 58231
"""Host user a confined process runs as when the starter is root."""

PROGRAMS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of a confined process, and where bubblewrap is looked for."""


@dataclass(frozen=True, slots=True)
class Bind:
    """A host file or directory shown at `target`.  Owned by the confined user where the file system can map ids."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Overlay:
    """A writable root made of layers.  Nothing is copied; without `upper`, changes live in memory and vanish."""

    lowers: tuple[Path, ...]
    """Read-only layers, topmost first."""
    upper: Path | None = None
    """Directory that keeps the changes (`fs` and `work` are made in it); None: memory of `size_mb`."""
    size_mb: int = 1024
    """Bound of the changes when they live in memory."""
    start: Path | None = None
    """Packed tree (`packed.py`) that the changes start with, when they live in memory."""
    heir_of: int | None = None
    """Pid of a running launcher whose changes become the topmost read-only layer of this root."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """What one process may see and use."""

    command: tuple[str, ...]
    binds: tuple[Bind, ...] = ()
    """Shown in this order, after the system directories."""
    env: Mapping[str, str] = field(default_factory=dict)
    """The whole environment; nothing else is passed on."""
    inherit: tuple[str, ...] = ()
    """Names of variables taken from the starting process: for secrets, whose values must not be in an argument list."""
    cwd: str = "/"
    network: bool = False
    """The host's network, or none at all."""
    tmpfs: tuple[str, ...] = ("/tmp",)
    """Empty writable directories in memory, each bounded by `tmpfs_mb`."""
    tmpfs_mb: int = 256
    files: Mapping[str, str] = field(default_factory=dict)
    """Read-only text files by path."""
    hostname: str = "sandbox"
    memory_mb: int | None = None
    """Of all processes together where a control group can be made, else of each."""
    pids: int | None = 256
    cpus: float | None = None
    """Share of processor time; needs a control group."""
    cpu_list: tuple[int, ...] = ()
    """Processors it may run on; empty: all."""
    cpu_seconds: int | None = None
    """Processor time of each process."""
    file_mb: int | None = None
    """Largest file it may write."""
    open_files: int = 1024
    uid: int = JAIL_UID
    """Host user it runs as when the starter is root."""
    inner_uid: int = 1000
    """User it believes to be."""
    uids: int = 1
    """Users it may become, from `uid` on.  More than one needs a starter that is root; else it is one."""
    capabilities: tuple[str, ...] = ()
    """What its root may do among those users, e.g. CAP_CHOWN."""
    as_pid_1: bool = False
    """The command is pid 1 itself and reaps; else a small init is."""
    nested: bool = False
    """May make namespaces of its own (an agent that sandboxes its own commands); no system call is denied then."""
    system: bool = True
    """Show the host's read-only system directories (/usr, /bin, /lib…)."""
    root: Overlay | None = None
    """A writable root; None: a read-only empty one."""


def launch_argv(confinement: Confinement) -> list[str]:
    """Arguments for `subprocess.Popen`: stdin, stdout and stderr are the confined process's own.

    The process it starts is the launcher; its exit code is the command's (128+n for signal n), or 125 with one line on
    stderr when the confinement could not be made.  End it with `stop`.  No shell, no secret in the arguments.
    """
    folder = str(Path(__file__).parent)
    return [sys.executable, "-I", "-S", "-c", _START, folder, specification(confinement).hex()]


def specification(confinement: Confinement) -> bytes:
    """What the launcher is told: a dict in marshal format."""
    spec = {one.name: getattr(confinement, one.name) for one in fields(confinement)}
    if confinement.root is None:
        spec["files"] = {**_accounts(confinement.inner_uid), **confinement.files}
    spec["bwrap"] = bubblewrap() or "bwrap"
    spec["owner"] = os.getpid()
    spec["seccomp"] = b"" if confinement.nested else seccomp.program()
    return marshal.dumps(_plain(spec))


class Running(Protocol):
    """A started process: what is used of a `Popen`."""

    @property
    def pid(self) -> int:
        """Its id."""

    def poll(self) -> int | None:
        """Its exit code (-n for signal n), or None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it ended.  Raises TimeoutExpired."""

    def send_signal(self, sig: int) -> None:
        """Send a signal."""

    def kill(self) -> None:
        """Kill it."""


def _plain(value: Any) -> Any:
    if isinstance(value, Bind | Overlay):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _accounts(uid: int) -> dict[str, str]:
    name, home = ("root", "/root") if uid == 0 else ("user", "/tmp")
    nobody = 65534
    return {
        "/etc/passwd": f"{name}:x:{uid}:{uid}::{home}:/bin/sh\nnobody:x:{nobody}:{nobody}::/nonexistent:/bin/false\n",
        "/etc/group": f"{name}:x:{uid}:\nnogroup:x:{nobody}:\n",
    }


def stop(process: Running, grace: float = 5.0) -> int:
    """End a launched process and everything in it; returns its exit code.  Safe to call twice."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


def bubblewrap() -> str | None:
    """Path of bubblewrap, or None."""
    return shutil.which("bwrap", path=PROGRAMS)


@functools.cache
def unavailable() -> str | None:
    """Why a process cannot be confined on this machine, in one sentence; None when it can.  Probed once."""
    if sys.platform != "linux":
        return f"confinement needs Linux, this is {sys.platform}"
    if bubblewrap() is None:
        return "bubblewrap is not installed (`apt-get install bubblewrap`)"
    try:
        probe = subprocess.run(
            launch_argv(Confinement(command=("true",), env={"PATH": PROGRAMS})),
            capture_output=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"a confined process could not be started: {error}"
    if probe.returncode:
        lines = probe.stderr.decode(errors="replace").strip().splitlines() or [f"exit {probe.returncode}"]
        return f"a confined process could not be started: {lines[-1]}"
    return None


def maps_owners(place: Path) -> bool:
    """Whether `place` can be shown to the confined user as its own; else only what JAIL_UID owns is writable.

    Asked of a machine where a process can be confined.
    """
    if os.geteuid() != 0:
        return True
    argv = launch_argv(Confinement(command=("true",), binds=(Bind(place, "/probe", writable=True),)))
    probe = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    return probe.returncode == 0


@functools.cache
def bounds_memory() -> bool:
    """Whether `memory_mb` bounds all processes together (a control group), not each alone."""
    return sys.platform == "linux" and os.geteuid() == 0 and {"memory", "pids"} <= cgroups.controllers().keys()
