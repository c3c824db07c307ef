"""What the changes of an overlay make different from the layers below: one digest.

Times and inodes do not count, nor files that were copied up and are as they were.  Of git's index only what it says
counts: its notes on files (times, inodes, sizes) differ between equal states.  Links are never followed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harnesstrain.core.packed import FILE, FOLDER, WHITEOUT
from harnesstrain.sandbox.git_index import said_by_index

CHUNK = 1 << 20
DEPTH = 200
OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")
INDEX_LIMIT = 64 << 20


def difference(changes: Path, lowers: Sequence[Path], owner: int) -> str:
    """Digest (64 hex) of what `changes` makes of `lowers` (topmost first); `owner`: host id of the sandbox's root.

    Raises OSError: a file cannot be read, or the tree is nested too deeply.
    """
    found = hashlib.sha256()
    with contextlib.ExitStack() as stack:
        upper = _opened(stack, os.open(changes, FOLDER))
        below = [_opened(stack, os.open(lower, FOLDER)) for lower in lowers]
        root = _Item(b"", upper, os.fstat(upper))
        if root.facts(owner) != _Item(b"", below[0], os.fstat(below[0])).facts(owner):
            found.update(repr((b"/", root.facts(owner))).encode())
        for line in _Comparison(owner).folder(b"", upper, below, 0):
            found.update(len(line).to_bytes(8, "big"))
            found.update(line)
    return found.hexdigest()


@dataclass(frozen=True, slots=True)
class _Item:
    """One name in the open directory `folder`."""

    name: bytes
    folder: int
    seen: os.stat_result

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.seen.st_mode)

    @property
    def is_deletion(self) -> bool:
        return stat.S_ISCHR(self.seen.st_mode) and self.seen.st_rdev == WHITEOUT

    @property
    def is_opaque(self) -> bool:
        path = f"/proc/self/fd/{self.folder}/{os.fsdecode(self.name)}"
        return any(name in OPAQUE for name in os.listxattr(path, follow_symlinks=False)) if self.is_folder else False

    def facts(self, owner: int) -> tuple[int, int, int, int]:
        """Type and mode, user, group, device."""
        return self.seen.st_mode, self.seen.st_uid - owner, self.seen.st_gid - owner, self.seen.st_rdev

    def content(self, path: bytes) -> bytes:
        """What is in it: a digest of its bytes, or its target."""
        if stat.S_ISLNK(self.seen.st_mode):
            return os.readlink(self.name, dir_fd=self.folder)
        if not stat.S_ISREG(self.seen.st_mode):
            return b""
        fd = os.open(self.name, FILE, dir_fd=self.folder)
        try:
            return _digest(fd, path)
        finally:
            os.close(fd)


def _names(folder: int) -> list[bytes]:
    with os.scandir(folder) as found:
        return sorted(os.fsencode(item.name) for item in found)


def _look(name: bytes, folder: int) -> _Item | None:
    try:
        return _Item(name, folder, os.stat(name, dir_fd=folder, follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _digest(fd: int, path: bytes) -> bytes:
    """Digest of a file's size and bytes; holes cost nothing, and are equal to zeros."""
    seen = os.fstat(fd)
    if not stat.S_ISREG(seen.st_mode):
        raise OSError("a file changed its type while it was read")
    if path.endswith(b"/index") and b"/.git/" in path and seen.st_size < INDEX_LIMIT:
        said = said_by_index(os.pread(fd, seen.st_size, 0))
        if said is not None:
            return hashlib.sha256(said).digest()
    found = hashlib.sha256(b"%d" % seen.st_size)
    offset = 0
    while offset < seen.st_size:
        try:
            start = os.lseek(fd, offset, os.SEEK_DATA) // CHUNK * CHUNK
        except OSError:  # ENXIO: nothing but a hole follows
            break
        data = os.pread(fd, CHUNK, start)
        if data.strip(b"\0"):
            found.update(b"%d " % start)
            found.update(data)
        offset = start + CHUNK
    return found.digest()


class _Comparison:
    """A walk over the changes and, beside them, over the layers below."""

    def __init__(self, owner: int) -> None:
        self.owner = owner

    def folder(self, path: bytes, upper: int, below: Sequence[int], depth: int) -> Iterator[bytes]:
        """A line for everything that differs in a directory; `below`: the same one in each layer, topmost first."""
        if depth > DEPTH:
            raise OSError("the tree is nested too deeply")
        for name in _names(upper):
            item = _look(name, upper)
            if item is not None:
                yield from self.item(path + b"/" + name, item, below, depth)

    def item(self, path: bytes, item: _Item, below: Sequence[int], depth: int) -> Iterator[bytes]:
        """A line for one name, if it differs, and for what is in it."""
        with contextlib.ExitStack() as stack:
            lower, folders = _beneath(item.name, below, stack)
            if item.is_deletion:
                if lower is not None:
                    yield b"gone " + path
                return
            same = lower is not None and lower.facts(self.owner) == item.facts(self.owner)
            if item.is_folder:
                if not same:
                    yield self.line(path, item, b"")
                upper = _opened(stack, os.open(item.name, FOLDER, dir_fd=item.folder))
                yield from self.missing(path, item, upper, folders, stack)
                yield from self.folder(path, upper, folders, depth + 1)
                return
            content = item.content(path)
            if not (same and lower is not None and self.equal(path, item, lower, content)):
                yield self.line(path, item, content)

    def missing(
        self, path: bytes, item: _Item, upper: int, folders: Sequence[int], stack: contextlib.ExitStack
    ) -> Iterator[bytes]:
        """Names of the layers that a directory made afresh hides without a trace of each."""
        if not item.is_opaque:
            return
        for name in sorted({name for fd in folders for name in _names(fd)}):
            if _look(name, upper) is None and _beneath(name, folders, stack)[0] is not None:
                yield b"gone " + path + b"/" + name

    def equal(self, path: bytes, item: _Item, lower: _Item, content: bytes) -> bool:
        """Whether a file has the bytes of the one below."""
        if stat.S_ISREG(item.seen.st_mode) and item.seen.st_size != lower.seen.st_size and b"/.git/" not in path:
            return False
        return lower.content(path) == content

    def line(self, path: bytes, item: _Item, content: bytes) -> bytes:
        """Everything that counts about one name."""
        return b"%s %s " % (path, repr(item.facts(self.owner)).encode()) + content


def _beneath(name: bytes, below: Sequence[int], stack: contextlib.ExitStack) -> tuple[_Item | None, list[int]]:
    """What the layers show under `name`, and its directories, open until `stack` ends."""
    shown: _Item | None = None
    folders: list[int] = []
    for fd in below:
        item = _look(name, fd)
        if item is None:
            continue
        if item.is_deletion or (shown is not None and not item.is_folder):
            break
        shown = shown or item
        if not item.is_folder:
            break
        folders.append(_opened(stack, os.open(name, FOLDER, dir_fd=fd)))
        if item.is_opaque:
            break
    return shown, folders


def _opened(stack: contextlib.ExitStack, fd: int) -> int:
    stack.callback(os.close, fd)
    return fd
