"""Exported versions: plain directories without `.git`, exact bytes, unique names, swept after a crash.

core/scratch.py makes the directories and sweeps them.
"""

from __future__ import annotations

import contextlib
import os
import py_compile
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harnesstrain.core.errors import HtError, Prerequisite
from harnesstrain.core.scratch import scratch
from harnesstrain.harness import globs
from harnesstrain.harness.git import Entry, Git


@contextmanager
def exported(git: Git, commit: str, place: Path, visible: Sequence[str] | None = None) -> Iterator[Path]:
    """A directory below `place` with the files of `commit` (of those, the ones `visible` names); removed at the end.

    Raises Prerequisite when the disk is full or not writable.
    """
    with scratch(place, commit[:12]) as directory:
        export(git, commit, directory, visible)
        yield directory


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
