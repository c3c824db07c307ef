"""Exported versions: plain directories without `.git`, exact bytes, unique names, swept after a crash.

Each directory has a lock file beside it, locked by the process that made it for as long as it lives.  A lock that can
be taken belongs to nobody: the sweep removes its directory.  No pid, no clock: nothing to be mistaken about.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import py_compile
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harnesstrain.core.errors import HtError, Prerequisite
from harnesstrain.harness import globs
from harnesstrain.harness.git import Entry, Git

LOCK = ".lock"
"""Suffix of lock files."""


@contextmanager
def exported(git: Git, commit: str, place: Path, visible: Sequence[str] | None = None) -> Iterator[Path]:
    """A directory below `place` with the files of `commit` (of those, the ones `visible` names); removed at the end.

    Raises Prerequisite when the disk is full or not writable.
    """
    with scratch(place, commit[:12]) as directory:
        export(git, commit, directory, visible)
        yield directory


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


def export(git: Git, commit: str, directory: Path, visible: Sequence[str] | None = None) -> None:
    """Write the files of `commit` into an empty `directory`: exact bytes, modes 0644/0755, symlinks as they are.

    Tasks are left out.  No attribute, filter or ignore rule applies.  Submodules become empty directories.
    """
    tree = git.tree(commit)
    names = globs.shown(tree, visible)
    entries = [entry for entry in tree.values() if entry.path in names]
    files = [entry for entry in entries if entry.mode != "160000"]
    directory.chmod(0o755)
    made = {directory}
    links: list[tuple[Path, bytes]] = []
    try:
        for entry, data in git.blobs(files):
            target = directory / _safe(entry)
            _directories(target.parent, made)
            if entry.mode == "120000":
                links.append((target, data))
                continue
            mode = 0o755 if entry.mode == "100755" else 0o644
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            target.chmod(mode)
        for target, data in links:  # last, so that nothing is ever written through one
            target.symlink_to(os.fsdecode(data))
        for entry in entries:
            if entry.mode == "160000":
                _directories(directory / _safe(entry), made)
    except OSError as error:
        message = f"cannot write {commit[:12]} to {directory}: {error.strerror}"
        raise Prerequisite(message, hint="check the disk, then rerun") from error


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


def _safe(entry: Entry) -> str:
    parts = entry.path.split("/")
    if any(part in ("", ".", "..") or part.lower() == ".git" for part in parts):
        raise HtError(f"the commit holds an unusable path '{ascii(entry.path)[1:-1]}'", hint="`git fsck` says more")
    return entry.path


def _directories(path: Path, made: set[Path]) -> None:
    if path not in made:
        _directories(path.parent, made)
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
        made.add(path)


def copy(source: Path, target: Path) -> None:
    """Copy a worktree; symlinks stay symlinks."""
    shutil.copytree(source, target, symlinks=True)


def compile_ahead(module: Path) -> None:
    """Bytecode for a frozen module, so that a read-only worktree does not compile it at every start.

    Only for files that no candidate can change.  What does not compile is left for the harness to fail on.
    """
    if module.is_file() and not module.is_symlink():
        with contextlib.suppress(py_compile.PyCompileError, OSError, ValueError, RecursionError, MemoryError):
            mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
            py_compile.compile(str(module), dfile=f"{module.name}", doraise=True, invalidation_mode=mode)
