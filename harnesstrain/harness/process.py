"""A running harness: started in its jail, spoken to line by line, ended with everything it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

from harnesstrain.core import confinement, starter
from harnesstrain.core.errors import ConfigError, PolicyFailure, SandboxFailure
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.harness import Manifest
from harnesstrain.harness import jail, wire
from harnesstrain.harness.jail import JailLimits, Launch
from harnesstrain.harness.pipes import Child, Pipes


class HarnessLimits(JailLimits):
    """What a harness process may use, and how much it may say."""

    line_bytes: int = wire.MAX_LINE
    """Longest message."""
    messages: int = 50_000
    """Messages of one episode."""
    total_bytes: int = 256 * 1024 * 1024
    """Of all messages of one episode: they are kept until it is recorded."""
    log_bytes: int = 262_144
    """Of stderr: head and tail are kept."""
    write_seconds: float = 60.0
    """A harness that does not read its answers for so long is broken."""


class Exit(Record):
    """How a harness process ended."""

    code: int
    """Exit code; 128+n for signal n."""
    log: str
    """Its stderr, bounded."""
    killed: bool = False
    """It did not end by itself within the grace it was given."""


class HarnessProcess:
    """One harness process.  `receive` from one thread at a time; `send` from any."""

    def __init__(self, process: Child, limits: HarnessLimits, *, isolated: bool) -> None:
        self.isolated = isolated
        """Whether it runs in a jail."""
        self._process = process
        self._limits = limits
        self._pipes = Pipes(process, max_line=limits.line_bytes, log_bytes=limits.log_bytes)
        self._received = 0
        self._bytes = 0
        self._exit: Exit | None = None
        self._killed = False
        self._ending = threading.RLock()
        self._probe: tuple[Path, Manifest, Path | None] | None = None
        self._tmp: TemporaryDirectory[str] | None = None

    @classmethod
    def start(
        cls,
        worktree: Path,
        manifest: Manifest,
        *,
        isolated: bool = True,
        limits: HarnessLimits | None = None,
        environment: Path | None = None,
    ) -> HarnessProcess:
        """Start the manifest's command in `worktree`.  Returns at once; the harness speaks first.

        `environment`: a virtual environment instead of the manifest's (which `HarnessRepo.manifest` makes absolute).
        Raises Prerequisite when no jail can be had, ConfigError when the command cannot be started.
        """
        limits = limits or HarnessLimits()
        tmp = None if isolated else TemporaryDirectory(prefix="ht-harness-", ignore_cleanup_errors=True)
        own = Path(tmp.name) if tmp is not None else None
        try:
            how = jail.launch(worktree, manifest, isolated=isolated, limits=limits, environment=environment, tmp=own)
            process = _spawn(how)
        except BaseException:
            if tmp is not None:
                tmp.cleanup()
            raise
        started = cls(process, limits, isolated=isolated)
        started._tmp = tmp
        started._probe = (worktree, manifest, environment) if isolated else None
        return started

    def receive(self, timeout: float) -> dict[str, Any] | None:
        """The next message; None when the harness closed its stdout or ended.

        Raises PolicyFailure on a malformed or over-long line (quoted), on too many messages, or when nothing came for
        `timeout` seconds.
        """
        line = self._pipes.line(timeout)
        if line is None:
            return None
        self._received += 1
        self._bytes += len(line)
        if self._received > self._limits.messages:
            message = f"more than {self._limits.messages} messages in one episode"
            raise PolicyFailure(message, hint="the harness floods the driver")
        if self._bytes > self._limits.total_bytes:
            message = f"more than {self._limits.total_bytes} bytes of messages in one episode"
            raise PolicyFailure(message, hint="the harness floods the driver")
        return wire.decode(line)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message.  A harness that ended gets nothing.  Raises PolicyFailure when it does not read."""
        self._pipes.write(wire.encode(message), self._limits.write_seconds)

    def log(self) -> str:
        """What it wrote to stderr so far, bounded."""
        return self._exit.log if self._exit is not None else self._pipes.log.text()

    def finish(self, grace: float) -> Exit:
        """Close its stdin, give it `grace` seconds to end, then end it and all it started.

        Raises SandboxFailure when it was the jail that could not start.
        """
        with self._ending:
            if self._exit is None:
                deadline = time.monotonic() + grace
                self._pipes.close_input()
                self._pipes.drain(grace)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(max(0.0, deadline - time.monotonic()))
            return self._end()

    def kill(self) -> Exit:
        """End it and all it started, now.  From any thread: a `receive` that waits returns None."""
        if self._exit is None and self._process.poll() is None:
            self._killed = True
            self._stop()
        with self._ending:
            return self._end()

    def __enter__(self) -> HarnessProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _end(self) -> Exit:
        if self._exit is None:
            killed = self._killed or self._process.poll() is None
            code = self._stop()
            self._pipes.drain(0.2)
            self._exit = Exit(code=128 - code if code < 0 else code, log=self._pipes.log.text(), killed=killed)
            self._pipes.close()
            if self._tmp is not None:
                self._tmp.cleanup()
            self._blame_the_jail(self._exit)
        return self._exit

    def _stop(self) -> int:
        if self.isolated:
            return confinement.stop(self._process)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait()

    def _blame_the_jail(self, ended: Exit) -> None:
        """A harness that never spoke may never have been started: try the jail with something harmless."""
        if self._received or ended.killed or self._probe is None:
            return
        if not ended.log.startswith(("confinement:", "bwrap:")):
            return
        worktree, manifest, environment = self._probe
        why = jail.works(worktree, manifest, self._limits, environment)
        if why is not None:
            raise SandboxFailure(f"the jail of the harness could not start: {why}", hint="`ht doctor` says more")


def _spawn(how: Launch) -> Child:
    try:
        if how.confined is not None:
            return starter.start(how.confined)
        return subprocess.Popen(
            how.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=dict(how.env) if how.env is not None else None,
            cwd=how.cwd,
            start_new_session=True,
        )
    except OSError as error:
        message = f"cannot start the harness: {how.command[0]}: {error.strerror}"
        raise ConfigError(message, hint="correct `command` in harness.toml") from error
