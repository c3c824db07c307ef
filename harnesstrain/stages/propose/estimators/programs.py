"""Finding an agent's program, and what of its own installation a jail has to show for it to run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harnesstrain.core.errors import Prerequisite

SYSTEM = tuple(Path(name) for name in ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"))
"""Shown in every jail."""
PACKAGES = "node_modules"


@dataclass(frozen=True)
class Program:
    """A program and its installation."""

    argv: tuple[str, ...]
    """How it is started: its real path."""
    trees: tuple[Path, ...]
    """Files and directories outside the system's that it needs, shown read-only under their own names."""
    folders: tuple[str, ...]
    """What has to stand on PATH: where its interpreter lies."""


def find(word: str, path: str, resolve: Callable[[str], Path]) -> Program:
    """The program that `word` names: a name on `path`, or a file (relative to the project's root).

    Raises Prerequisite when there is none.
    """
    place = str(resolve(word)) if "/" in word else word
    found = shutil.which(place, path=path)
    if found is None:
        hint = "install it, or name it by its path"
        raise Prerequisite(f"the agent's program '{word}' is not there", hint=hint)
    real = Path(found).resolve()
    trees = [_installation(real)]
    folders = []
    interpreter = _interpreter(real)
    if interpreter is not None:
        by_path = shutil.which(interpreter, path=path)
        if by_path is None:
            raise Prerequisite(f"'{word}' needs '{interpreter}', which is not there", hint=f"install {interpreter}")
        trees += _interpreter_trees(Path(by_path))
        folders.append(str(Path(by_path).parent))
    return Program((str(real),), tuple(tree for tree in trees if not in_system(tree)), tuple(folders))


def in_system(path: Path) -> bool:
    """Whether every jail shows `path` anyway."""
    return any(path.is_relative_to(place) for place in SYSTEM)


def _installation(program: Path) -> Path:
    """The npm package (with its scope's others: platform binaries come as packages), else the file alone."""
    for parent in program.parents:
        if parent.parent.name == PACKAGES:
            return parent
    return program


def _interpreter(program: Path) -> str | None:
    """What a script's first line names; None for a binary."""
    with program.open("rb") as file:
        line = file.readline(256)
    if not line.startswith(b"#!"):
        return None
    words = line[2:].decode("utf-8", "replace").split()
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words else None


def _interpreter_trees(found: Path) -> list[Path]:
    """A virtual environment and the Python below it; else the interpreter's real file and the link to it."""
    environment = found.parent.parent
    real = found.resolve()
    if (environment / "pyvenv.cfg").is_file():
        return [environment, real.parent.parent]
    return [found, real] if found != real else [real]
