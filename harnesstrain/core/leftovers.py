"""Files that are no part of a directory's content: byte code that Python put beside its source.

Installing a package or importing a module leaves such folders.  They are neither digested nor given to a sandbox, so
that an installed task is the task that was shipped.
"""

from __future__ import annotations

from pathlib import Path


def is_leftover(path: Path) -> bool:
    """Whether `path` is a `__pycache__` folder with nothing in it but byte code of the sources beside it.

    Byte code without its source is content: a task may be about it.
    """
    if path.name != "__pycache__" or path.is_symlink() or not path.is_dir():
        return False
    return all(
        item.suffix == ".pyc" and item.is_file() and (path.parent / f"{item.name.partition('.')[0]}.py").is_file()
        for item in path.iterdir()
    )
