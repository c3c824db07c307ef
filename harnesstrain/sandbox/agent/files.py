"""Files of the sandbox: regular ones only, and no tree is put through a link."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from harnesstrain.sandbox.agent.processes import Account
from harnesstrain.sandbox.agent.stream import CHUNK, Fault, write_whole

FIXED_TIME = 946684800
"""2000-01-01: modification time of what PUT makes."""
DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY


def read(path: bytes, user: str, limit: int) -> bytes:
    """A regular file's bytes, read with the rights of `user`.  Raises Fault, OSError."""
    with acting_as(user):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        only_regular(fd)
        data = bytearray()
        while True:
            chunk = os.read(fd, 16 * CHUNK)
            if not chunk:
                return bytes(data)
            data += chunk
            if len(data) > limit:
                raise Fault(errno.EFBIG, f"larger than {limit} bytes")
    finally:
        os.close(fd)


def write(path: bytes, user: str, mode: int, data: bytes) -> None:
    """Write a regular file and its missing parents with the rights of `user`.  Raises Fault, OSError."""
    with acting_as(user):
        os.makedirs(os.path.dirname(path) or b"/", exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY, 0o644)
        try:
            only_regular(fd)
            os.ftruncate(fd, 0)
            write_whole(fd, data)
            if mode >= 0:
                os.fchmod(fd, mode)
        finally:
            os.close(fd)


def only_regular(fd: int) -> None:
    """Devices, pipes and sockets are neither read nor written; a directory says what it is."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISDIR(mode):
        raise Fault(errno.EISDIR, "Is a directory")
    if not stat.S_ISREG(mode):
        raise Fault(errno.EINVAL, "not a regular file")


@contextlib.contextmanager
def acting_as(user: str) -> Iterator[None]:
    """File access with the rights of `user`, where the agent is root."""
    if not user or os.geteuid() != 0:
        yield
        return
    try:
        account = Account(user)
    except LookupError as error:
        raise Fault(errno.EINVAL, str(error)) from None
    if account.uid == 0:
        yield
        return
    gid, groups = os.getegid(), os.getgroups()
    os.setgroups(account.groups)
    os.setegid(account.gid)
    os.seteuid(account.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(gid)
        os.setgroups(groups)


class Tree:
    """A tree being put.  The first problem is kept and raised by `close`; what follows it is ignored."""

    def __init__(self, path: bytes, replace: bool) -> None:
        self.problem: OSError | None = None
        self.root = -1
        try:
            self.root = _fresh(path) if replace else _merged(path)
        except OSError as error:
            self.problem = error

    def add(self, kind: bytes, mode: int, name: bytes, data: bytes = b"") -> None:
        """A directory (D), a file (F, with its bytes) or a link (L, with its target)."""
        if self.problem is None:
            try:
                self._make(kind, mode, name, data)
            except OSError as error:
                self.problem = error

    def close(self) -> None:
        """Raises the first OSError there was."""
        if self.root >= 0:
            os.close(self.root)
        if self.problem is not None:
            raise self.problem

    def _make(self, kind: bytes, mode: int, name: bytes, data: bytes) -> None:
        *parents, last = _components(name)
        fd = _descend(os.dup(self.root), parents, create=False)
        try:
            if kind == b"D":
                _directory(last, mode, fd)
                return
            with contextlib.suppress(FileNotFoundError):
                os.unlink(last, dir_fd=fd)
            if kind == b"L":
                os.symlink(data, last, dir_fd=fd)
                return
            file = os.open(last, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=fd)
            try:
                write_whole(file, data)
                os.fchmod(file, mode)
                os.utime(file, (FIXED_TIME, FIXED_TIME))
            finally:
                os.close(file)
        finally:
            os.close(fd)


def _components(path: bytes) -> list[bytes]:
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if b".." in parts or not parts:
        raise OSError(errno.EINVAL, "not a path below the target")
    return parts


def _directory(name: bytes, mode: int, parent: int) -> None:
    try:
        os.mkdir(name, mode, dir_fd=parent)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise


def _descend(fd: int, parts: list[bytes], create: bool) -> int:
    """The directory `parts` below `fd`, which is closed; no component may be a link."""
    for part in parts:
        try:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=fd)
            deeper = os.open(part, DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
        finally:
            os.close(fd)
        fd = deeper
    return fd


def _fresh(path: bytes) -> int:
    """An empty directory at `path`, whatever was there."""
    *parents, name = _components(path)
    parent = _descend(os.open("/", DIRECTORY), parents, create=True)
    try:
        with contextlib.suppress(FileNotFoundError):
            import shutil  # slow to import, seldom needed

            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                shutil.rmtree(b"%s/%s" % (_path_of(parent), name))
            else:
                os.unlink(name, dir_fd=parent)
        os.mkdir(name, 0o755, dir_fd=parent)
        return os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    finally:
        os.close(parent)


def _path_of(fd: int) -> bytes:
    return b"/proc/self/fd/%d" % fd if os.path.exists("/proc/self/fd") else b"/dev/fd/%d" % fd


def _merged(path: bytes) -> int:
    """The directory at `path`, made if missing; links on the way are followed as a shell would."""
    os.makedirs(path, 0o755, exist_ok=True)
    return os.open(path, DIRECTORY)
