"""COPY: from a build context to what is put where."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Callable, Iterator
from pathlib import Path

from harnesstrain.core.errors import ConfigError
from harnesstrain.sandbox import tree
from harnesstrain.sandbox.dockerfile import Step
from harnesstrain.sandbox.tree import Entry


def ignored(context: Path) -> Callable[[str], bool]:
    """Whether a context-relative path is excluded by `.dockerignore`."""
    file = context / ".dockerignore"
    if not file.is_file():
        return lambda _: False
    from docker.utils.build import exclude_paths

    lines = [line.strip() for line in file.read_text().splitlines()]
    kept = set(exclude_paths(str(context), [line for line in lines if line and not line.startswith("#")]))
    return lambda path: path not in kept


def context_entries(context: Path) -> list[Entry]:
    """Everything of a build context but what `.dockerignore` names.  Raises ConfigError."""
    excluded = ignored(context)
    return [entry for entry in tree.entries(context) if not excluded(entry.path)]


def copied(context: Path, step: Step, is_directory: Callable[[str], bool]) -> Iterator[tuple[str, list[Entry]]]:
    """What a COPY puts where: target directory and its entries.  Raises ConfigError when a source matches nothing."""
    everything = {entry.path: entry for entry in context_entries(context)}
    for source in step.sources:
        pattern = posixpath.normpath(source.lstrip("/")) if source.strip("/") else "."
        matched = [path for path in everything if _matches(path, pattern)]
        if pattern == ".":
            yield step.target, list(everything.values())
            continue
        if not matched:
            raise ConfigError(f"{step.text}: {source} is not in the build context")
        for path in sorted(matched):
            entry = everything[path]
            if entry.kind == "D":
                yield step.target, [_moved(item, path) for item in everything.values() if _below(item.path, path)]
            elif step.target.endswith("/") or is_directory(step.target):
                yield step.target, [_renamed(entry, posixpath.basename(path))]
            else:
                yield posixpath.dirname(step.target), [_renamed(entry, posixpath.basename(step.target))]


def _matches(path: str, pattern: str) -> bool:
    names, wanted = path.split("/"), pattern.split("/")
    return len(names) == len(wanted) and all(fnmatch.fnmatchcase(*pair) for pair in zip(names, wanted, strict=True))


def _below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _moved(entry: Entry, folder: str) -> Entry:
    return _renamed(entry, entry.path[len(folder) + 1 :])


def _renamed(entry: Entry, path: str) -> Entry:
    return Entry(entry.kind, path, entry.mode, entry.data)
