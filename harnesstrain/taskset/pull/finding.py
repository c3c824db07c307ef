"""Where in a tree of files the tasks are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harnesstrain.core.errors import ConfigError
from harnesstrain.taskset.base import recognise

CONFIG = "tests/config.json"
"""A row of SWE-bench where a task's tests would be."""


@dataclass(frozen=True)
class Found:
    """Tasks of a tree."""

    folder: Path
    names: tuple[str, ...]
    """Directories directly below `folder`."""
    left_out: tuple[str, ...] = ()
    """Tasks elsewhere in the tree, by path in it: only those of one folder are one data set."""
    unusable: tuple[str, ...] = ()
    """Rows that are no tasks, each with what it lacks."""

    @property
    def bytes(self) -> int:
        """What they take."""
        return sum(size_of(self.folder / name) for name in self.names)


def find_tasks(root: Path, path: str = "", wanted: Sequence[str] = (), *, only: bool = False) -> Found:
    """The tasks below `root`: those of the nearest folder that has any.

    `path`: where they are published; used where it is there; `only`: there and nowhere else.  `wanted`: their names;
    all must be there, and no others are taken.  Raises ConfigError.
    """
    below = _below(root)
    for folder in _places(root, path, below, only=only):
        if folder.is_symlink() or not folder.is_dir():
            continue
        names = tuple(wanted) if wanted else _tasks(folder)
        if names and any((folder / name).is_dir() for name in names):
            missing = [name for name in names if not _is_task(folder / name)]
            if missing:
                shown = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")
                msg = f"{len(missing)} of {len(names)} tasks are not in {folder}: {shown}"
                raise ConfigError(msg, hint="take another version of the data set, or a panel file of your own")
            return Found(folder, names, () if wanted else _elsewhere(root, folder, below, only=only))
    if wanted:
        none = f"none of the {len(wanted)} tasks" if wanted[1:] else "the task"
        msg = f"{none} is {'' if wanted[1:] else 'not '}in {root / path if only else root}"
        raise ConfigError(msg, hint=f"they are {', '.join(wanted[:3])}{' …' if len(wanted) > 3 else ''}")
    hint = "a task is a directory with a task.toml or a task.yaml; name the folder that holds them"
    raise ConfigError(f"there are no tasks in {root / path if only else root}", hint=hint)


def size_of(directory: Path) -> int:
    """Bytes of the files below a directory."""
    total = 0
    for folder, _, files in os.walk(directory):
        total += sum(Path(folder, name).lstat().st_size for name in files)
    return total


def _below(root: Path) -> list[Path]:
    """Directories below `root`, nearest first, none in a task and none hidden.  Raises ConfigError."""
    found, level = [], [root]
    try:
        while level:
            level = [
                path
                for folder in level
                if folder.is_dir() and recognise(folder) is None
                for path in sorted(folder.iterdir())
                if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
            ]
            found += level
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename}: {error.strerror}", hint="check its permissions") from None
    return found


def _places(root: Path, path: str, below: Sequence[Path], *, only: bool) -> list[Path]:
    """Folders that may hold the tasks, the likeliest first."""
    if not only:
        return [root / path, root, *below] if path else [root, *below]
    tops = [one for one in below if one.parent == root]
    return [root / path, *(tops[0] / path for _ in range(len(tops) == 1))]


def _elsewhere(root: Path, folder: Path, below: Sequence[Path], *, only: bool) -> tuple[str, ...]:
    """What looks like a task and is none of those in `folder`; `only`: below it."""
    seen = [one for one in below if not only or one.is_relative_to(folder)]
    tasks = [one for one in seen if one.parent != folder and _is_task(one)]
    rows = [one for one in seen if not _is_task(one) and (one / CONFIG).is_file()]
    return tuple(str(one.relative_to(root)) for one in (*tasks, *rows))


def _tasks(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in folder.iterdir() if _is_task(path)))


def _is_task(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and recognise(path) is not None
