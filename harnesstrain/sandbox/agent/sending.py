"""Sending a tree out of the sandbox: files, directories, links as they are.  Nothing below the root is followed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator

from harnesstrain.sandbox.agent.stream import CHUNK, Fault, Stream

OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW
ENTRY = 64
"""Bytes that a name counts beside its own."""


class Sending:
    """One tree on its way.  `limit`: bytes of files and names together."""

    def __init__(self, stream: Stream, root: bytes, limit: int) -> None:
        self.stream, self.root, self.limit, self.left = stream, root, limit, limit

    def send(self) -> None:
        """Everything, parents first, in a fixed order.  Raises OSError (nothing is there), Fault (it is too much)."""
        waiting = [b""]
        kind = os.stat(self.root).st_mode
        if not (stat.S_ISDIR(kind) or stat.S_ISREG(kind)):
            raise Fault(errno.EINVAL, "neither a file nor a directory")
        if stat.S_ISREG(kind):
            self.root = os.path.realpath(self.root)
        while waiting:
            name = waiting.pop()
            waiting += sorted(self.below(name), reverse=True)
        self.stream.send(b".\n")

    def below(self, name: bytes) -> Iterator[bytes]:
        """Send one thing; what lies in it, when it is a directory."""
        path = b"%s/%s" % (self.root, name) if name else self.root
        try:
            seen = os.lstat(path) if name else os.stat(path)
            if stat.S_ISDIR(seen.st_mode):
                with os.scandir(path) as found:
                    self.stream.send(b"D %d\n" % len(name), name)
                    for entry in found:
                        inner = b"%s/%s" % (name, entry.name) if name else entry.name
                        self.charge(ENTRY + len(inner))
                        yield inner
            elif stat.S_ISLNK(seen.st_mode):
                target = os.readlink(path)
                self.stream.send(b"L %d %d\n" % (len(name), len(target)), name, target)
            elif stat.S_ISREG(seen.st_mode):
                self.file(name, path)
            else:
                self.lacking(name)
        except OSError:
            self.lacking(name)

    def file(self, name: bytes, path: bytes) -> None:
        """One file's bytes, as many as it had when it was opened."""
        fd = os.open(path, OPEN)
        whole = True
        try:
            seen = os.fstat(fd)
            if not stat.S_ISREG(seen.st_mode):
                self.lacking(name)
                return
            self.charge(seen.st_size)
            self.stream.send(b"F %d %d %d\n" % (stat.S_IMODE(seen.st_mode), len(name), seen.st_size), name)
            left = seen.st_size
            while left:
                try:
                    data = os.read(fd, min(left, 16 * CHUNK)) if whole else b""
                except OSError:
                    data = b""
                if not data:  # it shrank, or its disk fails: what was promised is sent, and taken back
                    whole, data = False, bytes(min(left, 16 * CHUNK))
                self.stream.send(data)
                left -= len(data)
        finally:
            os.close(fd)
        if not whole:
            self.lacking(name)

    def lacking(self, name: bytes) -> None:
        """Something that cannot be had: a device, a pipe, a socket, what cannot be read."""
        self.stream.send(b"S %d\n" % len(name), name)

    def charge(self, size: int) -> None:
        """Raises Fault when the tree is too large."""
        self.left -= size
        if self.left < 0:
            raise Fault(errno.EFBIG, f"larger than {self.limit} bytes")
