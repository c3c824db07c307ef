"""Directories that are gone when whoever made them is: unique names, removed at the end, swept after a crash.

Each directory has a lock file beside it, locked by the process that made it for as long as it lives.  A lock that can
be taken belongs to nobody: the sweep removes its directory.  No pid, no clock: nothing to be mistaken about.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harnesstrain.core.errors import Prerequisite

LOCK = ".lock"
"""Suffix of lock files."""


@contextmanager
def temporary(label: str) -> Iterator[Path]:
    """An empty directory among this user's temporary ones; removed at the end, or by the sweep after a crash."""
    with scratch(_temporary(), label) as directory:
        yield directory


def sweep_temporary() -> int:
    """Remove the temporary directories that crashed processes left.  Returns how many went."""
    place = _temporary()
    gone = sweep(place)
    with contextlib.suppress(OSError):
        place.rmdir()
    return gone


def _temporary() -> Path:
    """Where they are: a directory of this user's own, which nobody else can have made."""
    place = Path(tempfile.gettempdir()) / f"harnesstrain-{os.getuid()}"
    with contextlib.suppress(OSError):
        place.mkdir(mode=0o700)
    try:
        found = place.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022:
            return place
    except OSError:
        pass
    raise Prerequisite(f"{place} is not a directory of your own", hint="remove it, or set TMPDIR")


@contextmanager
def scratch(place: Path, label: str) -> Iterator[Path]:
    """An empty directory with a unique name below `place`; removed at the end, or by the sweep after a crash."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        lock, directory = _claim(place, label)
    except OSError as error:
        raise Prerequisite(f"cannot write in {place}: {error.strerror}", hint="check the disk and its owner") from error
    try:
        yield directory
    finally:
        remove(directory)
        Path(f"{directory}{LOCK}").unlink(missing_ok=True)
        os.close(lock)


def sweep(place: Path) -> int:
    """Remove what crashed processes left below `place`.  Returns how many directories went."""
    gone = 0
    for path in sorted(place.iterdir()) if place.is_dir() else ():
        if path.suffix == LOCK:
            gone += _reap(path)
        elif not Path(f"{path}{LOCK}").exists():
            remove(path)
            gone += 1
    return gone


def remove(directory: Path) -> None:
    """Remove a tree, whatever modes were left in it.  What is not there is removed already."""

    def again(function: Callable[..., Any], path: str, info: Any) -> None:
        if isinstance(info[1], FileNotFoundError):
            return
        with contextlib.suppress(OSError):
            Path(path).parent.chmod(stat.S_IRWXU)
            if not Path(path).is_symlink():
                Path(path).chmod(stat.S_IRWXU)
            if Path(path).is_dir() and not Path(path).is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                Path(path).unlink()

    if directory.is_symlink() or directory.is_file():
        directory.unlink(missing_ok=True)
    else:
        shutil.rmtree(directory, onerror=again)


def _claim(place: Path, label: str) -> tuple[int, Path]:
    while True:
        directory = place / f"{label}-{secrets.token_hex(6)}"
        path = Path(f"{directory}{LOCK}")
        place.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        if path.exists() and path.stat().st_ino == os.fstat(fd).st_ino:
            directory.mkdir()
            return fd, directory
        os.close(fd)  # a sweep was faster


def _reap(lock: Path) -> int:
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return 0
    else:
        remove(lock.with_suffix(""))
        lock.unlink(missing_ok=True)
        return 1
    finally:
        os.close(fd)
