"""Durable files: written under a temporary name, fsynced, renamed, the folder fsynced.

A kill at any instant leaves the old file, the new file, or a `.tmp` file that `gc` removes; never half a file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from harnesstrain.core.errors import HtError, Prerequisite
from harnesstrain.store.engine import disk_full

TEMPORARY = ".tmp"
"""Suffix of files that are still being written."""

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Draft:
    """A file that is being written, and the name it will have.  The name may be chosen late: it may be a digest."""

    def __init__(self, path: Path, file: BinaryIO, target: Path) -> None:
        self.path = path
        self.file = file
        self.target = target

    def digest(self) -> str:
        """sha256 of what has been written so far."""
        self.file.flush()
        return file_digest(self.path)


@contextmanager
def draft(target: Path) -> Iterator[Draft]:
    """A file to write; it appears as `draft.target` when the block ends without an error.  Raises Prerequisite."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{TEMPORARY}")
    try:
        make_folder(target.parent)
        with _created(temporary) as file:
            found = Draft(temporary, file, target)
            yield found
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(found.target)
        sync_folder(target.parent)
    except OSError as error:
        raise io_error(error, target) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _created(path: Path) -> BinaryIO:
    """A new file.  Its folder may just have been removed by `gc`, which takes emptied ones."""
    try:
        return path.open("xb")
    except FileNotFoundError:
        make_folder(path.parent)
        return path.open("xb")


def write(target: Path, data: bytes | memoryview) -> None:
    """Write `data` as `target`.  Raises Prerequisite."""
    with draft(target) as found:
        found.file.write(data)


def make_folder(folder: Path) -> None:
    """Create a folder whose name survives a power cut."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_digest(path: Path) -> str:
    """sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def io_error(error: OSError, target: Path) -> HtError:
    """The project's error for a file that could not be written."""
    if error.errno in _NO_SPACE:
        return disk_full(str(target))
    said = os.strerror(error.errno) if error.errno else str(error)
    return Prerequisite(f"cannot write {target}: {said}", hint="check that the folder exists and is writable")
