"""A tree of a sandbox, written to a directory of this machine.  Nothing that is sent is trusted."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterable
from functools import partial
from io import FileIO
from pathlib import Path

from harnesstrain.core.errors import SandboxFailure
from harnesstrain.core.records.sandbox import Fetched

NAMED = 100
UNWRITABLE = (errno.ENAMETOOLONG, errno.EEXIST, errno.EINVAL, errno.EILSEQ)
"""A name that this machine's file system cannot hold."""


class Landing:
    """Takes entries in the order they are sent.  The first problem is kept; what follows it is read and dropped."""

    def __init__(self, target: Path) -> None:
        """`target`: made by this, file or directory.  Raises SandboxFailure when something is there."""
        if os.path.lexists(target):
            raise SandboxFailure(f"{target} is there already: nothing is written over")
        self._target = target
        self._folders: set[str] = set()
        self._absent: set[str] = set()
        self._files: dict[str, int] = {}
        self._links: dict[str, str] = {}
        self._left_out: list[str] = []
        self._problem: Exception | None = None

    def folder(self, name: str) -> None:
        """A directory."""
        if self._admits(name):
            made = self._succeeds(name, lambda: self._path(name).mkdir(0o755))
            (self._folders if made else self._absent).add(name)

    def file(self, name: str, mode: int, data: Iterable[bytes]) -> None:
        """A file; `data` is used up whatever happens.  It may be executed if its owner could; no more is kept."""
        opened = self._opened(name, 0o755 if mode & 0o100 else 0o644) if self._admits(name) else None
        size = 0
        for piece in data:
            if opened is not None and self._problem is None:
                self._succeeds(name, partial(opened.write, piece))
                size += len(piece)
        if opened is not None:
            opened.close()
            self._files[name] = size

    def link(self, name: str, to: str) -> None:
        """A link; whether it stays is known at the end."""
        if self._admits(name) and self._succeeds(name, lambda: self._path(name).symlink_to(to)):
            self._links[name] = to

    def lacking(self, name: str) -> None:
        """Something that could not be sent, or not to its end."""
        if self._files.pop(name, None) is not None:
            with contextlib.suppress(OSError):
                self._path(name).unlink()
        self._leave_out(name)

    def finish(self) -> Fetched:
        """Drop the links that lead out; say what came.  Raises the first problem, and nothing is left then."""
        if self._problem is not None:
            self.abandon()
            raise self._problem
        root = os.path.realpath(self._target)
        for name in [name for name in self._links if not self._stays(name, root)]:
            self._path(name).unlink()
            self._leave_out(name)
        left_out = tuple(sorted(self._left_out))
        return Fetched(files=len(self._files), size=sum(self._files.values()), left_out=left_out)

    def abandon(self) -> None:
        """Remove what came."""
        if self._folders:
            shutil.rmtree(self._target)
        elif self._files:
            self._target.unlink()

    def _stays(self, name: str, root: str) -> bool:
        try:
            end = os.path.realpath(self._path(name), strict=True)
        except (OSError, ValueError):  # dangling, or in a circle
            return False
        inside = end == root or end.startswith(root + os.sep)
        return inside and not self._links[name].startswith(os.sep)

    def _admits(self, name: str) -> bool:
        """Whether `name` lies where directories were made before.  Whoever sends another one is not to be trusted."""
        if self._problem is not None:
            return False
        parent, _, last = name.rpartition("/")
        if parent in self._absent:
            self._absent.add(name)
            return False
        root = not name and not self._folders and not self._files
        plain = last not in ("", ".", "..") and "\0" not in name and not name.startswith("/")
        inside = plain and parent in self._folders
        if not (root or inside):
            self._problem = SandboxFailure(f"the sandbox sent {name!r}, which lies in no directory that it sent")
        return root or inside

    def _opened(self, name: str, mode: int) -> FileIO | None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        opened: list[FileIO] = []
        self._succeeds(name, lambda: opened.append(FileIO(os.open(self._path(name), flags, mode), "w")))
        return opened[0] if opened else None

    def _succeeds(self, name: str, what: Callable[[], object]) -> bool:
        try:
            what()
        except (OSError, ValueError) as error:  # ValueError: a NUL in a link's target
            if name and (isinstance(error, ValueError) or error.errno in UNWRITABLE):
                self._leave_out(name)
            else:
                self._problem = SandboxFailure(f"{self._target} cannot be written: {error}")
            return False
        return True

    def _leave_out(self, name: str) -> None:
        if len(self._left_out) < NAMED:
            self._left_out.append(name or ".")

    def _path(self, name: str) -> Path:
        return self._target / name
