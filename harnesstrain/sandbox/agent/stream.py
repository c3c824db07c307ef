"""The driver's side of the agent: exact reads, whole writes, bounded outputs."""

from __future__ import annotations

import os

CHUNK = 65536


class Fault(Exception):
    """Answered as ERR: an errno and a sentence."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class End(Exception):
    """The driver is gone."""


class Stream:
    """Takes over stdin and stdout, so that no command can reach them.  Its end is the end of the sandbox."""

    def __init__(self) -> None:
        self.fd_in, self.fd_out = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nothing, fd)
        os.close(nothing)
        self.buffer = bytearray()

    def more(self) -> None:
        """Read what there is, at least one byte.  Raises End."""
        data = os.read(self.fd_in, CHUNK)
        if not data:
            raise End
        self.buffer += data

    def line(self) -> bytes:
        """The next line, without its end."""
        while b"\n" not in self.buffer:
            self.more()
        end = self.buffer.index(b"\n")
        return self.take(end + 1)[:end]

    def take(self, count: int) -> bytes:
        """Exactly `count` bytes."""
        while len(self.buffer) < count:
            self.more()
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def send(self, *parts: bytes) -> None:
        """Write everything.  Raises End."""
        try:
            write_whole(self.fd_out, b"".join(parts))
        except OSError:
            raise End from None


class Kept:
    """Head and tail of an output, about `cap` bytes together, and how long it was."""

    def __init__(self, cap: int) -> None:
        self.half = max(cap // 2, 1)
        self.head, self.tail, self.total = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        """Take the next bytes; what falls out of the middle is only counted."""
        self.total += len(data)
        room = self.half - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        if data:
            self.tail += data[-self.half :]
            if len(self.tail) > 4 * self.half + CHUNK:
                del self.tail[: -self.half]

    @property
    def truncated(self) -> bool:
        """Whether anything was dropped."""
        return self.total > 2 * self.half

    def result(self) -> bytes:
        """The head, a line that says how much is missing, the tail."""
        tail = bytes(self.tail[-self.half :])
        dropped = self.total - len(self.head) - len(tail)
        missing = b"\n[... %d bytes dropped ...]\n" % dropped if dropped else b""
        return bytes(self.head) + missing + tail


def write_whole(fd: int, data: bytes) -> None:
    """Write every byte."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
