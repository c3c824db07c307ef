"""Running an agent under limits: its output is kept, what it spends is watched, everything it started ends with it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from harnesstrain.core import confinement
from harnesstrain.core.errors import Prerequisite
from harnesstrain.core.ports import StopSignal
from harnesstrain.harness.pipes import CHUNK, BoundedLog
from harnesstrain.stages.propose.estimators.meters import LINE, Meter, SessionLogs

TRANSCRIPT = 64 * 1024 * 1024
"""Bytes of stdout that are kept, head and tail."""
ERRORS = 1024 * 1024
"""Bytes of stderr that are kept, head and tail."""
SLICE = 0.25
"""Seconds between two looks at the limits."""
MARK = "HT_AGENT_RUN"
"""Variable by which the processes of an agent without a jail are known."""
LINGER = 2.0
"""Seconds that output is still read once the process ended; what holds its pipes open is no part of the answer."""
STOPPED = "it was stopped"


@dataclass(frozen=True)
class Bounds:
    """What an agent may spend; None: no limit."""

    seconds: float
    tokens: int | None = None
    cost_usd: float | None = None
    turns: int | None = None
    disk_mb: int = 2048
    """Bytes in the directories it may write, together."""


@dataclass(frozen=True)
class Start:
    """What to run."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path | None
    jailed: bool
    mark: str
    """Value of MARK, when it runs without a jail."""


@dataclass(frozen=True)
class Ended:
    """How an agent ended."""

    code: int
    """Exit code; 128+n for signal n."""
    why: str | None
    """The limit that ended it, in a sentence; None: it ended by itself."""
    stdout: str
    stderr: str
    seconds: float


def watch(
    start: Start,
    bounds: Bounds,
    meter: Meter,
    *,
    logs: Path | None,
    written: Iterable[Path],
    stop: StopSignal,
    say: Callable[[str], None],
) -> Ended:
    """Run until it ends or a limit is reached.  `logs`: where it logs its session.  `written`: what it may fill.

    Raises Prerequisite when it cannot be started.
    """
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            start.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=dict(start.env),
            cwd=start.cwd,
            start_new_session=True,
        )
    except OSError as error:
        hint = "check the program in [estimator.agent]"
        raise Prerequisite(f"cannot start the agent: {start.argv[0]}: {error.strerror}", hint=hint) from error
    output = _Output(process, meter)
    session = SessionLogs(logs) if logs is not None else None
    guard = _Guard(bounds, meter, tuple(written), stop, began)
    why, told = None, 0
    try:
        while why is None and output.pump(SLICE):
            _read(session, meter)
            if meter.turns > told:
                told = meter.turns
                say(f"reply {told}, {meter.usage.total:,} tokens")
            why = guard.why()
    finally:
        code = _end(process, start)
        output.close()
        _read(session, meter)
    why = why or guard.spent()
    ended = 128 - code if code < 0 else code
    return Ended(ended, why, output.stdout.text(), output.stderr.text(), time.monotonic() - began)


class _Output:
    """Both pipes of the process: kept, and read line by line into the meter."""

    def __init__(self, process: subprocess.Popen[bytes], meter: Meter) -> None:
        assert process.stdout is not None and process.stderr is not None
        self.stdout, self.stderr = BoundedLog(TRANSCRIPT), BoundedLog(ERRORS)
        self._process = process
        self._meter = meter
        self._pipes = {process.stdout.fileno(): process.stdout, process.stderr.fileno(): process.stderr}
        self._out = process.stdout.fileno()
        self._part = bytearray()
        self._ended: float | None = None
        self._poll = select.poll()
        for fd in self._pipes:
            os.set_blocking(fd, False)
            self._poll.register(fd, select.POLLIN)

    def pump(self, timeout: float) -> bool:
        """Take in what came within `timeout` seconds; False once the process ended and nothing more comes."""
        if not self._pipes:
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                return True
            return False
        ready = self._poll.poll(timeout * 1000)
        for fd, _ in ready:
            self._take(fd)
        if self._process.poll() is None:
            return True
        self._ended = self._ended or time.monotonic()
        return bool(ready) and time.monotonic() - self._ended < LINGER

    def close(self) -> None:
        """Take in what is left, without waiting for whoever still holds the pipes."""
        while any(self._take(fd) for fd, _ in self._poll.poll(0)):
            pass
        self._feed(bytes(self._part))
        for pipe in self._pipes.values():
            pipe.close()

    def _take(self, fd: int) -> bool:
        try:
            chunk = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            self._poll.unregister(fd)
            self._pipes.pop(fd).close()
        elif fd == self._out:
            self.stdout.feed(chunk)
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                self._feed(bytes(self._part) + line)
                del self._part[:]
            if len(self._part) <= LINE:
                self._part += rest
        else:
            self.stderr.feed(chunk)
        return bool(chunk)

    def _feed(self, line: bytes) -> None:
        self._meter.feed(line)


class _Guard:
    """The limits."""

    def __init__(self, bounds: Bounds, meter: Meter, written: tuple[Path, ...], stop: StopSignal, began: float) -> None:
        self._bounds, self._meter, self._written, self._stop, self._began = bounds, meter, written, stop, began
        self._look = began

    def why(self) -> str | None:
        """The limit that is reached, or None."""
        now = time.monotonic()
        if self._stop.is_set():
            return STOPPED
        if now - self._began >= self._bounds.seconds:
            return f"it ran longer than {self._bounds.seconds:g} seconds (time_limit)"
        if now >= self._look:
            most = self._bounds.disk_mb * 1024 * 1024
            if _size(self._written, most) > most:
                return f"it wrote more than {self._bounds.disk_mb} MB (disk_mb)"
            self._look = now + 4 * (time.monotonic() - now) + 1.0
        if self._meter.refused is not None:
            return f"its model server refuses it: {self._meter.refused}"
        return self.spent()

    def spent(self) -> str | None:
        """The limit of tokens, replies or cost that is exceeded, or None."""
        bounds, meter = self._bounds, self._meter
        if bounds.tokens is not None and meter.usage.total > bounds.tokens:
            return f"it used {meter.usage.total:,} tokens, more than {bounds.tokens:,} (max_tokens)"
        if bounds.turns is not None and meter.turns > bounds.turns:
            return f"its model replied {meter.turns} times, more than {bounds.turns} (max_turns)"
        if bounds.cost_usd is not None and (meter.cost_usd or 0.0) > bounds.cost_usd:
            return f"it cost {meter.cost_usd:.2f} dollars, more than {bounds.cost_usd:g} (max_cost_usd)"
        return None


def _read(session: SessionLogs | None, meter: Meter) -> None:
    if session is not None:
        for source, line in session.lines():
            meter.feed(line, source)


def _size(places: Iterable[Path], most: int) -> int:
    """Bytes below `places`; stops counting soon after `most`."""
    total = 0
    for place in places:
        for folder, folders, names in os.walk(place):
            for name in names:
                with contextlib.suppress(OSError):
                    total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118 (many files)
            total += 4096 * len(folders)
            if total > most:
                return total
    return total


def _end(process: subprocess.Popen[bytes], start: Start) -> int:
    if start.jailed:
        return confinement.stop(process)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    for _ in range(20):  # a process that forks faster than it is killed is met again
        left = _marked(start.mark)
        for one in left:
            with contextlib.suppress(psutil.Error):
                one.kill()
        if not left:
            break
    return code


def _marked(mark: str) -> list[psutil.Process]:
    """Processes that carry the mark in their environment."""
    found = []
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if one.environ().get(MARK) == mark and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found
