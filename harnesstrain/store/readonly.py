"""A SQLite file in a folder that cannot be written.  It can be read nevertheless, with all that was committed.

In write-ahead mode a reader needs the log and an index of it beside the file, and makes what is missing.  Where it
cannot, the file is read in place if nothing is in a log, and otherwise, or where somebody else may write, from a copy.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from harnesstrain.core.errors import Busy, Prerequisite

TRIES = 5
"""Copies that are made until one was not written to meanwhile."""


@dataclass(frozen=True)
class Readable:
    """How a file can be read."""

    file: Path
    mode: str
    """Parameters of SQLite's URI."""
    copy: TemporaryDirectory[str] | None = None
    """Removed by whoever opened it."""


def unwritable(path: Path) -> bool:
    """Whether nothing can be made beside the file `path`, which exists."""
    return path.is_file() and not os.access(path.parent, os.W_OK)


def readable(path: Path) -> Readable:
    """The way to read a file that is `unwritable`.  Raises Prerequisite (no room for a copy), Busy (it never rests)."""
    log, index = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    if log.exists() and index.exists():
        return Readable(path, "mode=ro")
    if not _logged(log) and os.statvfs(path.parent).f_flag & os.ST_RDONLY:
        return Readable(path, "mode=ro&immutable=1")
    return _copied(path, log)


def read_only(label: str) -> Prerequisite:
    """The one error for a write into such a file."""
    folder = Path(label).parent
    frozen = folder.is_dir() and os.statvfs(folder).f_flag & os.ST_RDONLY
    why = "read-only file system" if frozen else "no permission to write"
    return Prerequisite(f"{why}: cannot change {label}", hint="make its folder writable; reading works")


def _logged(log: Path) -> bool:
    return log.exists() and log.stat().st_size > 0


def _copied(path: Path, log: Path) -> Readable:
    folder = TemporaryDirectory(prefix="ht-store-")
    target = Path(folder.name) / path.name
    try:
        for _ in range(TRIES):
            before = _states(path, log)
            shutil.copyfile(path, target)
            if log.exists():
                shutil.copyfile(log, target.with_name(log.name))
            if _states(path, log) == before:
                return Readable(target, "mode=rwc", folder)
    except OSError as error:
        folder.cleanup()
        message = f"cannot read {path}: {error.strerror or error}"
        raise Prerequisite(message, hint="set TMPDIR to a folder with room for a copy of it") from error
    folder.cleanup()
    raise Busy(f"{path} is being written to all the time", hint="run this again")


def _states(*paths: Path) -> list[tuple[int, int] | None]:
    return [(path.stat().st_size, path.stat().st_mtime_ns) if path.exists() else None for path in paths]
