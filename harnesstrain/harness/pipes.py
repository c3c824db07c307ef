"""The pipes of a harness process: whole lines in, bounded; messages out, never a deadlock; its log, bounded."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from subprocess import Popen

from harnesstrain.core.errors import PolicyFailure
from harnesstrain.core.starter import Started
from harnesstrain.harness.wire import quote

Child = Started | Popen[bytes]
"""A process whose stdin, stdout and stderr are pipes."""

CHUNK = 65_536
SLICE = 0.25
"""Seconds between looks at whether the process still lives, while its pipes are silent."""


class BoundedLog:
    """The head and the tail of a stream; the middle is dropped and counted."""

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.dropped = 0
        """Bytes of the middle that are gone."""

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_size += len(data)
            while self._tail_size - len(self._tail[0]) >= self._half:
                gone = self._tail.popleft()
                self._tail_size -= len(gone)
                self.dropped += len(gone)

    def text(self) -> str:
        """What was kept, as text; invalid UTF-8 is replaced."""
        tail = b"".join(self._tail)
        cut = max(0, len(tail) - self._half)
        dropped = self.dropped + cut
        middle = f"\n[… {dropped} bytes dropped …]\n".encode() if dropped else b""
        return (bytes(self._head) + middle + tail[cut:]).decode("utf-8", "replace")


class Silent(PolicyFailure):
    """Nothing came within the time allowed."""


class Pipes:
    """Lines from a process's stdout, messages to its stdin, its stderr as a log.

    One thread may read while others write.  A writer whose process does not read keeps draining its output, so that
    neither side waits for the other for ever.
    """

    def __init__(self, process: Child, *, max_line: int, log_bytes: int) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._alive: Callable[[], bool] = lambda: process.poll() is None
        self._in, self._streams = process.stdin, (process.stdout, process.stderr)
        self._out, self._err = process.stdout.fileno(), process.stderr.fileno()
        for fd in (self._in.fileno(), self._out, self._err):
            os.set_blocking(fd, False)
        self.log = BoundedLog(log_bytes)
        self._max_line = max_line
        self._reading = threading.RLock()
        self._writing = threading.Lock()
        self._part = bytearray()
        self._seen = 0
        self._lines: deque[bytes] = deque()
        self._queued = 0
        self._open = {self._out, self._err}
        """Descriptors that may still give something; all uses are under `_reading`."""

        self._poll = select.poll()
        self._polled: tuple[set[int], int | None] = (set(), None)
        """What `_poll` looks at; likewise."""

    def line(self, timeout: float) -> bytes | None:
        """The next line without its end; None when the process closed its stdout or ended.

        Raises Silent after `timeout` seconds, PolicyFailure on a line that is too long.
        """
        deadline = time.monotonic() + timeout
        with self._reading:
            while not self._lines:
                if self._out not in self._open:
                    return self._rest()
                if len(self._part) > self._max_line:
                    message = f"a line of more than {self._max_line} bytes: {quote(bytes(self._part[:1000]))}"
                    raise PolicyFailure(message, hint="send messages, one per line, and nothing else to stdout")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Silent(f"no message for {timeout:g} seconds", hint="the harness hangs or is too slow")
                if not self._pump(min(left, SLICE)) and not self._alive():
                    while self._pump(0):
                        pass
                    self._open.discard(self._out)
            line = self._lines.popleft()
            self._queued -= len(line)
            return line

    def write(self, data: bytes, timeout: float) -> None:
        """Write all of `data`.  A process that closed its stdin or ended gets nothing, silently.

        Raises Silent when it does not read for `timeout` seconds.
        """
        view = memoryview(data)
        with self._writing:
            deadline = time.monotonic() + timeout
            while view and not self._in.closed:
                try:
                    view = view[os.write(self._in.fileno(), view) :]
                    deadline = time.monotonic() + timeout
                    continue
                except BlockingIOError:
                    pass
                except BrokenPipeError:
                    return
                if time.monotonic() >= deadline:
                    raise Silent(f"the harness reads no answer for {timeout:g} seconds", hint="read stdin")
                self._drain_while_writing()

    def close_input(self) -> None:
        """End of file on the process's stdin."""
        with self._writing, contextlib.suppress(OSError):
            self._in.close()

    def drain(self, timeout: float) -> None:
        """Read and drop stdout, keep the log, until both are closed, the process ends or the time is over."""
        deadline = time.monotonic() + timeout
        with self._reading:
            while self._open and (left := deadline - time.monotonic()) > 0:
                self._lines.clear()
                self._queued = 0
                del self._part[:]
                self._seen = 0
                if not self._pump(min(left, SLICE)) and not self._alive():
                    return

    def close(self) -> None:
        """Close every pipe."""
        self.close_input()
        with self._reading:
            self._open.clear()
            for stream in self._streams:
                stream.close()

    def _drain_while_writing(self) -> None:
        if self._queued <= 4 * self._max_line and self._reading.acquire(blocking=False):
            try:
                self._pump(SLICE, self._in.fileno())
            finally:
                self._reading.release()
        else:
            writable = select.poll()
            writable.register(self._in.fileno(), select.POLLOUT)
            writable.poll(SLICE * 1000)

    def _pump(self, timeout: float, writer: int | None = None) -> bool:
        """Wait for output (or for `writer` to take input) and take in what is there.  False: nothing happened."""
        if self._polled != (self._open, writer):
            self._poll = select.poll()
            for fd in self._open:
                self._poll.register(fd, select.POLLIN)
            if writer is not None:
                self._poll.register(writer, select.POLLOUT)
            self._polled = (set(self._open), writer)
        ready = self._poll.poll(max(0.0, timeout) * 1000)
        for fd, _ in ready:
            if fd == writer:
                continue
            try:
                chunk = os.read(fd, CHUNK)
            except BlockingIOError:
                continue
            if not chunk:
                self._open.discard(fd)
            elif fd == self._err:
                self.log.feed(chunk)
            else:
                self._split(chunk)
        return bool(ready)

    def _split(self, chunk: bytes) -> None:
        if not self._part and chunk.find(b"\n") == len(chunk) - 1:  # one whole line: what a harness writes mostly
            self._lines.append(chunk[:-1])
            self._queued += len(chunk) - 1
            return
        self._part += chunk
        while (end := self._part.find(b"\n", self._seen)) >= 0:
            line = bytes(self._part[:end])
            del self._part[: end + 1]
            self._seen = 0
            self._lines.append(line)
            self._queued += len(line)
        self._seen = len(self._part)

    def _rest(self) -> bytes | None:
        """A last line without an end, once."""
        rest = bytes(self._part)
        del self._part[:]
        return rest or None
