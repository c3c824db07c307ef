"""What every sandbox offers.  A task's commands never run anywhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from harnesstrain.core.errors import HtError, Owner
from harnesstrain.core.records.sandbox import Capabilities, Fetched, Limits, RunResult, SandboxIdentity
from harnesstrain.core.records.task import Environment

GET_LIMIT = 256 << 20
"""Bytes that `Session.get` takes unless told otherwise."""


class FileFault(HtError):
    """A file of the sandbox could not be read, written or put: the harness's own affair, answered to it.

    `errno` is the name: ENOENT, EISDIR, EACCES, EFBIG, ENOSPC, EINVAL (not a regular file, a bad path)…
    """

    kind: ClassVar[str] = "file_fault"
    owner: ClassVar[Owner] = Owner.POLICY

    def __init__(self, errno: str, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}", errno=errno, path=path)
        self.errno = errno
        self.path = path


@runtime_checkable
class Session(Protocol):
    """One running environment.  One request at a time; a second thread waits.

    Every method raises SandboxFailure when the sandbox itself is gone.
    """

    workdir: str
    """Where commands start."""

    def run(
        self,
        command: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        stdin: bytes | None = None,
        user: str | None = None,
    ) -> RunResult:
        """Run a shell command to its end; `timeout` in seconds.  Whatever the command does is in the result."""

    def read(self, path: str) -> bytes:
        """A regular file.  Raises FileFault."""

    def write(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Write a regular file and its missing parents; `mode` None keeps it, or 0644.  Raises FileFault."""

    def put(self, source: Path, target: str) -> None:
        """Upload the directory `source` as `target`, discarding what was there.  Raises FileFault, ConfigError."""

    def lay(self, source: Path, target: str) -> None:
        """Upload what the directory `source` holds into `target`, over what is there.

        Raises FileFault, ConfigError.
        """

    def get(self, source: str, target: Path, *, limit: int = GET_LIMIT) -> Fetched:
        """Download the directory or file `source`, read as root, as `target` of this machine, which must not exist.

        Below `source` nothing is followed.  Links stay links when they end inside it; others, devices, pipes, sockets
        are left out and named.  Modes become 0755 or 0644.  `limit`: bytes of files and names together.
        Raises FileFault (ENOENT, EINVAL, EFBIG…: nothing is left at `target`), SandboxFailure.
        """

    def end_processes(self) -> None:
        """Kill every process that commands left running, so that nothing moves any more.  Raises SandboxFailure."""

    def fork(self) -> Session:
        """A copy of this state to grade in; this one is sealed.  Raises Unsupported where it cannot be had."""

    def seal(self, key: str) -> bool:
        """Keep this state under `key` (64 hex) for `Sandbox.open(at=key)`; the session goes on.

        False where it cannot be had, or would not be sound: a process still lives, or state lies outside the files.
        """

    def state(self) -> str | None:
        """Digest (64 hex) of every file that differs from the environment's own: path, type, mode, owner, bytes.

        None where it cannot be had.
        """

    def changed(self) -> tuple[str, ...] | None:
        """Absolute paths of what is new, changed or gone, against the environment's own; directories may be among them.

        Seen from outside: nothing in the sandbox is asked.  None where it cannot be had.
        """

    def close(self) -> None:
        """End everything in it and leave nothing behind.  Safe to call twice."""


@runtime_checkable
class Sandbox(Protocol):
    """A kind of sandbox on this machine.  Thread-safe."""

    def capabilities(self) -> Capabilities:
        """What it isolates here."""

    def identity(self) -> SandboxIdentity:
        """The part of it that determines results."""

    def check(self, environment: Environment) -> None:
        """Raises Unsupported, naming what this kind cannot do for `environment`.  Starts nothing."""

    def prepare(self, environment: Environment) -> None:
        """Build what `open` needs, once; concurrent calls wait for one build.  Raises SandboxFailure."""

    def open(self, environment: Environment, *, limits: Limits | None = None, at: str | None = None) -> Session:
        """Start an environment.  `limits` apply where the environment names none; `at`: a key that `sealed` returned.

        Raises SandboxFailure, also when the state `at` is gone by now.
        """

    def sealed(self, keys: Sequence[str]) -> str | None:
        """The first of `keys` whose state was kept by `Session.seal`, or None."""

    def sweep(self) -> int:
        """Remove what dead drivers left; returns how many things."""

    def close(self) -> None:
        """End every open session."""


@runtime_checkable
class KeepsBuilds(Protocol):
    """A sandbox that keeps what `prepare` made, and can say so."""

    def built(self, environment: Environment) -> int | None:
        """Bytes on the disk of what `open` needs; None: `prepare` has work to do.  Builds nothing."""

    def room(self) -> int | None:
        """Bytes free where builds are kept; None: that cannot be seen from here."""
