"""Where in a tree of files the tasks are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harnesstrain.core.errors import ConfigError
from harnesstrain.taskset.base import recognise

_DEPTH = 4
"""Levels below the root where tasks are looked for when nothing says where they are."""


@dataclass(frozen=True)
class Found:
    """Tasks of a tree."""

    folder: Path
    names: tuple[str, ...]
    """Directories directly below `folder`."""

    @property
    def bytes(self) -> int:
        """What they take."""
        return sum(size_of(self.folder / name) for name in self.names)


def find_tasks(root: Path, path: str = "", wanted: Sequence[str] = ()) -> Found:
    """The tasks below `root`.

    `path`: where they are published; used where it is there.  `wanted`: their names; all must be there, and no others
    are taken.  Raises ConfigError.
    """
    places = [root / path, root, *_below(root)] if path else [root, *_below(root)]
    for folder in places:
        if folder.is_symlink() or not folder.is_dir():
            continue
        names = tuple(wanted) if wanted else _tasks(folder)
        if names and any((folder / name).is_dir() for name in names):
            missing = [name for name in names if not _is_task(folder / name)]
            if missing:
                shown = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")
                msg = f"{len(missing)} of {len(names)} tasks are not in {folder}: {shown}"
                raise ConfigError(msg, hint="take another version of the data set, or a panel file of your own")
            return Found(folder, names)
    hint = "a task is a directory with a task.toml or a task.yaml; name the folder that holds them"
    raise ConfigError(f"there are no tasks in {root}", hint=hint)


def size_of(directory: Path) -> int:
    """Bytes of the files below a directory."""
    total = 0
    for folder, _, files in os.walk(directory):
        total += sum(Path(folder, name).lstat().st_size for name in files)
    return total


def _below(root: Path) -> list[Path]:
    """Directories below `root`, nearest first, none in a task and none hidden."""
    found, level = [], [root]
    for _ in range(_DEPTH):
        below = [
            path
            for folder in level
            if folder.is_dir() and recognise(folder) is None
            for path in sorted(folder.iterdir())
            if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
        ]
        found += below
        level = below
    return found


def _tasks(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in folder.iterdir() if _is_task(path)))


def _is_task(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and recognise(path) is not None
