"""A directory tree as one file, exact enough to go on from: what a kept state of a sandbox consists of.

Kept are types, modes, owners, times, extended attributes (an overlay's own among them), hard links, holes, and the
order in which the names of a directory were made.  The file holds the bytes of all files, then the index and the facts
of whoever packed it, then a trailer with lengths and checksums.  The launcher unpacks: this imports as little as it.
"""

from __future__ import annotations

import marshal
import os
import stat
import struct
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedWriter
    from typing import Any

    Entry = tuple[int, bytes, int, int, int, int, int, tuple[tuple[str, bytes], ...], Any]
    """Number of the directory it is in, name, mode, owner, group, time of access and of change in ns, attributes, rest.

    Rest: of a file its size and extents, of a link its target, of a whiteout 0.  Mode 0: the same file as entry `rest`.
    """

FORMAT = b"packed 1"
TRAILER = struct.Struct(">8sQQQIII")
"""Format, lengths and checksums of bytes, index and facts."""
MARSHAL = 4
DAMAGED = "the kept state is damaged"
CHUNK = 1 << 20
DEPTH, LONGEST = 100, 3000
"""Nested directories, and bytes of a path, beyond which a tree is not packed."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
WHITEOUT = 0
"""Device number of what an overlay puts in place of a deleted name."""


class Unfit(Exception):
    """The tree cannot be packed: too large, too deep, or with sockets or devices in it."""


class Damaged(OSError):
    """The file is no whole packed tree."""


class _Packing:
    """One tree on its way into a file."""

    def __init__(self, out: BufferedWriter, newest_first: bool, max_bytes: int, max_entries: int) -> None:
        self.out, self.newest_first, self.max_bytes, self.max_entries = out, newest_first, max_bytes, max_entries
        self.entries: list[Entry] = []
        self.items = 0
        """Entries and extents: what the index grows with."""
        self.size = 0
        self.sum = 0
        self.folders = 1
        self.linked: dict[int, int] = {}
        """Entry of each file with more than one name, by inode."""

    def add(self, parent: int, name: bytes, seen: os.stat_result, path: str, rest: Any) -> None:
        """Note one entry; `path`: where its attributes are read."""
        xattrs = tuple((key, os.getxattr(path, key, follow_symlinks=False)) for key in _attributes(path))
        times = (seen.st_atime_ns, seen.st_mtime_ns)
        self.entries.append((parent, name, seen.st_mode, seen.st_uid, seen.st_gid, *times, xattrs, rest))
        self.count(1)

    def count(self, items: int) -> None:
        self.items += items
        if self.items > self.max_entries:
            raise Unfit(f"more than {self.max_entries} entries")

    def folder(self, fd: int, number: int, depth: int, length: int) -> None:
        """Everything below the directory `fd`, whose number is `number`.  Raises Unfit."""
        if depth > DEPTH or length > LONGEST:
            raise Unfit("nested too deeply")
        names = []
        with os.scandir(fd) as listed:
            for item in listed:
                names.append(item.name)
                if len(names) > self.max_entries:
                    raise Unfit(f"more than {self.max_entries} entries")
        deeper = []
        for text in reversed(names) if self.newest_first else names:
            name = os.fsencode(text)
            seen = os.stat(name, dir_fd=fd, follow_symlinks=False)
            path = f"/proc/self/fd/{fd}/{text}"
            if stat.S_ISDIR(seen.st_mode):
                self.add(number, name, seen, path, None)
                deeper.append((name, self.folders))
                self.folders += 1
                continue
            first = self.linked.setdefault(seen.st_ino, len(self.entries)) if seen.st_nlink > 1 else None
            if first is not None and first != len(self.entries):
                self.entries.append((number, name, 0, 0, 0, 0, 0, (), first))
                self.count(1)
            elif stat.S_ISREG(seen.st_mode):
                self.add(number, name, seen, path, self.file(name, fd))
            elif stat.S_ISLNK(seen.st_mode):
                self.add(number, name, seen, path, os.readlink(name, dir_fd=fd))
            elif stat.S_ISFIFO(seen.st_mode):
                self.add(number, name, seen, path, None)
            elif stat.S_ISCHR(seen.st_mode) and seen.st_rdev == WHITEOUT:
                self.add(number, name, seen, path, WHITEOUT)
            else:
                raise Unfit("a socket or a device")
        for name, below in deeper:
            inner = os.open(name, FOLDER, dir_fd=fd)
            try:
                self.folder(inner, below, depth + 1, length + len(name) + 1)
            finally:
                os.close(inner)

    def file(self, name: bytes, folder: int) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Copy the bytes of a regular file; returns its size and extents."""
        fd = os.open(name, FILE, dir_fd=folder)
        try:
            seen = os.fstat(fd)
            if not stat.S_ISREG(seen.st_mode):
                raise Unfit("a file changed its type")
            found = []
            for offset, length in extents(fd, seen):
                found.append((offset, length))
                self.size += length
                if self.size > self.max_bytes:
                    raise Unfit(f"more than {self.max_bytes} bytes")
                self.bytes(fd, offset, length)
            self.count(len(found))
            return seen.st_size, tuple(found)
        finally:
            os.close(fd)

    def bytes(self, fd: int, offset: int, length: int) -> None:
        end = offset + length
        while offset < end:
            data = os.pread(fd, min(CHUNK, end - offset), offset)
            if not data:
                raise Unfit("a file shrank while it was read")
            self.sum = zlib.crc32(data, self.sum)
            self.out.write(data)
            offset += len(data)


def _attributes(path: str) -> list[str]:
    """What belongs to the tree; labels of the host's security modules do not."""
    found = os.listxattr(path, follow_symlinks=False)
    return [key for key in found if not key.startswith("security.") or key == "security.capability"]


def extents(fd: int, seen: os.stat_result) -> Iterator[tuple[int, int]]:
    """Offset and length of each part of a file that is no hole."""
    if seen.st_size == 0 or seen.st_blocks * 512 >= seen.st_size:
        if seen.st_size:
            yield 0, seen.st_size
        return
    end = 0
    while end < seen.st_size:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
        except OSError:  # ENXIO: nothing but a hole follows
            return
        end = min(os.lseek(fd, start, os.SEEK_HOLE), seen.st_size)
        yield start, end - start


def pack(
    folder: int,
    out: BufferedWriter,
    facts: dict[str, Any],
    *,
    newest_first: bool,
    max_bytes: int,
    max_entries: int,
) -> None:
    """Write the tree at the open directory `folder` to `out`, and `facts`, to be read back by `read_facts`.

    `newest_first`: how the file system lists names; see there.  No link is followed.  Raises Unfit, OSError.
    """
    packing = _Packing(out, newest_first, max_bytes, max_entries)
    packing.add(-1, b"", os.fstat(folder), f"/proc/self/fd/{folder}/.", None)
    packing.folder(folder, 0, 0, 0)
    facts = {**facts, "bytes": packing.size, "entries": len(packing.entries)}
    index, noted = marshal.dumps(packing.entries, MARSHAL), marshal.dumps(facts, MARSHAL)
    sums = packing.sum, zlib.crc32(index), zlib.crc32(noted)
    out.write(index + noted + TRAILER.pack(FORMAT, packing.size, len(index), len(noted), *sums))


class _Tail:
    """What follows the bytes."""

    def __init__(self, file: int) -> None:
        """Raises Damaged."""
        size = os.fstat(file).st_size - TRAILER.size
        found = os.pread(file, TRAILER.size, max(size, 0))
        if len(found) != TRAILER.size:
            raise Damaged(DAMAGED)
        self.file = file
        form, self.bytes, self.index, self.facts, self.sum, self._index_sum, self._facts_sum = TRAILER.unpack(found)
        if form != FORMAT or self.bytes + self.index + self.facts != size:
            raise Damaged(DAMAGED)

    def read_index(self) -> list[Entry]:
        entries: list[Entry] = self._part(self.bytes, self.index, self._index_sum)
        return entries

    def read_facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = self._part(self.bytes + self.index, self.facts, self._facts_sum)
        return facts

    def _part(self, offset: int, length: int, wanted: int) -> Any:
        data = os.pread(self.file, length, offset)
        if zlib.crc32(data) != wanted:
            raise Damaged(DAMAGED)
        return marshal.loads(data)


def read_facts(source: str) -> dict[str, Any]:
    """What was noted when `source` was packed.  Raises OSError (Damaged)."""
    file = os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        return _Tail(file).read_facts()
    finally:
        os.close(file)


def unpack(source: int, target: str, owners: bool) -> None:
    """Make the tree of the open file `source` in the empty directory `target`, which nobody else sees yet.

    `owners`: whether to give files away (a starter that is root).  Raises OSError (Damaged).
    """
    tail = _Tail(source)
    entries = tail.read_index()
    os.lseek(source, 0, os.SEEK_SET)
    folders = [os.fsencode(target)]
    made = [0]
    paths: list[bytes] = [folders[0]]
    found = read = 0
    for number, (parent, name, mode, *_, rest) in enumerate(entries[1:], start=1):
        if name in (b"", b".", b"..") or b"/" in name:
            raise Damaged(DAMAGED)
        path = folders[parent] + b"/" + name
        paths.append(path)
        if mode == 0:
            os.link(paths[rest], path, follow_symlinks=False)
        elif stat.S_ISDIR(mode):
            os.mkdir(path, 0o700)
            folders.append(path)
            made.append(number)
        elif stat.S_ISLNK(mode):
            os.symlink(rest, path)
            _dress(path, entries[number], owners)
        elif stat.S_ISREG(mode):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            try:
                end = 0
                for offset, length in rest[1]:
                    end = offset + length
                    read += length
                    while offset < end:
                        data = os.read(source, min(CHUNK, end - offset))
                        if not data:
                            raise Damaged(DAMAGED)
                        found = zlib.crc32(data, found)
                        offset += os.pwrite(fd, data, offset)
                if end < rest[0]:
                    os.ftruncate(fd, rest[0])
            finally:
                os.close(fd)
            _dress(path, entries[number], owners)
        else:
            os.mknod(path, mode, rest or 0)
            _dress(path, entries[number], owners)
    if read != tail.bytes or found != tail.sum:
        raise Damaged(DAMAGED)
    for path, number in reversed(list(zip(folders, made, strict=True))):
        _dress(path, entries[number], owners)


def _dress(path: bytes, entry: Entry, owners: bool) -> None:
    """Owner, mode, attributes and times, in the order in which none undoes another."""
    _, _, mode, uid, gid, accessed, changed, xattrs, _ = entry
    if owners:
        os.chown(path, uid, gid, follow_symlinks=False)
    if not stat.S_ISLNK(mode):
        os.chmod(path, stat.S_IMODE(mode))
    for key, value in xattrs:
        os.setxattr(path, key, value, follow_symlinks=False)
    os.utime(path, ns=(accessed, changed), follow_symlinks=False)


def newest_first(scratch: str) -> bool:
    """Whether the file system of the directory `scratch` lists the name that was made last first."""
    for name in ("first", "second"):
        os.mkdir(f"{scratch}/{name}")
    listed = os.listdir(scratch)
    for name in ("first", "second"):
        os.rmdir(f"{scratch}/{name}")
    return listed == ["second", "first"]
