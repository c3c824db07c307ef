"""The digest under which Harbor's registries and lock files name a task: is a copy the published one?

It covers `task.toml`, the instruction, README.md, trajectory.json, `environment/`, `tests/`, `solution/` and `steps/`:
names and bytes, no modes.  A link to a file counts as the file, a link to a directory not at all.  What the task's
.gitignore names is left out; without one, byte code and editors' leftovers.  The digest of a `Task` is another one: it
covers what can change a measurement, modes included, and no solution (content.py).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from harnesstrain.core.errors import ConfigError

FILES = ("task.toml", "instruction.md", "README.md", "trajectory.json")
FOLDERS = ("environment", "tests", "solution", "steps")
LEFT_OUT = ("__pycache__/", "*.pyc", ".DS_Store", "*.swp", "*.swo", "*~")
"""Patterns where the task has no .gitignore."""
_CHUNK = 1 << 20


def published_digest(directory: Path) -> str:
    """`sha256:` and 64 hex.  Raises ConfigError when a file cannot be read."""
    found = hashlib.sha256()
    try:
        left_out = _patterns(directory)
        lines = sorted((name, _hash(directory / name)) for name in _names(directory) if not left_out(name))
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename}: {error.strerror}", hint="check the file") from None
    for name, content in lines:
        found.update(f"{name}\0{content}\n".encode("utf-8", "surrogateescape"))
    return f"sha256:{found.hexdigest()}"


def _patterns(directory: Path) -> Callable[[str], bool]:
    from pathspec import GitIgnoreSpec

    own = directory / ".gitignore"
    lines = own.read_text(encoding="utf-8", errors="replace").splitlines() if own.is_file() else LEFT_OUT
    return GitIgnoreSpec.from_lines(lines).match_file


def _names(directory: Path) -> Iterator[str]:
    yield from (name for name in FILES if (directory / name).is_file())
    for folder in FOLDERS:
        for place, _, names in os.walk(directory / folder):
            for name in names:
                path = Path(place, name)
                if path.is_file():
                    yield path.relative_to(directory).as_posix()


def _hash(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()
