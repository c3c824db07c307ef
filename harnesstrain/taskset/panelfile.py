"""Panel files: `tasksets/NAME.toml`, read strictly.

[panel]
name = "mine"                      # the file's name when left out
source = "quick"                   # directory of tasks, relative to this file, or a shipped set
train = ["write-greeting", "fix-*"]  # names in order; a glob stands for the names it matches, sorted
holdout = ["write-shopping-list"]
sealed = []

[panel.subsets]                    # a part by name: `--panel mine:short`; places and splits stay
short = ["fix-*"]
rest = { exclude = ["fix-*"] }

A [source] table instead of `source` says where the tasks are published: `ht tasks pull` brings them (source.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from harnesstrain.core.errors import NotFound
from harnesstrain.core.records.base import Record
from harnesstrain.taskset.base import SPLITS
from harnesstrain.taskset.document import Document, read
from harnesstrain.taskset.source import Source, parse_source

KEYS = ("name", "source", "description", *SPLITS, "subsets")
"""What [panel] may hold."""


class Subset(Record):
    """A part of a panel."""

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()


class PanelFile(Record):
    """A panel file as written."""

    path: Path
    name: str
    source: str
    """Directory of the tasks; empty when they are published elsewhere."""
    published: Source | None = None
    """Where."""
    description: str = ""
    splits: dict[str, tuple[str, ...]]
    """Names and globs by split, as written."""
    subsets: dict[str, Subset] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names in its splits, in order."""
        return tuple(name for names in self.splits.values() for name in names)


class Place(Record):
    """One task's place in a panel."""

    task: str
    """Name of the task's directory in the source."""
    split: str


def read_panel_file(path: Path) -> PanelFile:
    """Read a panel file.  Raises ConfigError with file and line."""
    return parse(read(path))


def parse(document: Document) -> PanelFile:
    """The panel in a document.  Raises ConfigError with file and line."""
    _known(document, document.table, ("panel", "source"), ())
    table = document.table.get("panel")
    if not isinstance(table, Mapping):
        document.wrong("there is no [panel] table", hint='write [panel] with source = "…" and train = [ … ]')
    _known(document, table, KEYS, ("panel",))
    published = parse_source(document)
    if published is not None and "source" in table:
        document.wrong("the panel has a source and a [source] table", ("panel", "source"), "keep one of them")
    panel = PanelFile(
        path=document.path,
        name=_text(document, table, "name", document.path.stem),
        source=_text(document, table, "source", None if published is None else ""),
        published=published,
        description=_text(document, table, "description", ""),
        splits={split: tuple(_patterns(document, table, split)) for split in SPLITS},
        subsets=dict(_subsets(document, table)),
    )
    if not any(panel.splits.values()):
        document.wrong("the panel is empty", ("panel",), "name tasks in train, holdout or sealed")
    if published is not None and (glob := next((name for name in panel.names if is_glob(name)), None)):
        hint = "a panel with a [source] names every task, so that what is pulled can be checked"
        document.wrong(f"'{glob}' is no name", ("panel",), hint)
    return panel


def places(document: Document, panel: PanelFile, names: Sequence[str]) -> tuple[Place, ...]:
    """The places of a panel, in order, given the names of the tasks in its source.

    Raises ConfigError: a name that is not there, a glob that matches nothing, a task named twice.
    """
    found: dict[str, Place] = {}
    for split, patterns in panel.splits.items():
        for pattern in patterns:
            for name in _expand(document, split, pattern, names):
                if name in found:
                    hint = "a task has one place in a panel"
                    document.wrong(
                        f"task '{name}' is named twice: {found[name].split}, {split}", ("panel", split), hint
                    )
                found[name] = Place(task=name, split=split)
    return tuple(found.values())


def narrowed(document: Document, panel: PanelFile, found: tuple[Place, ...], subset: str) -> tuple[Place, ...]:
    """The places in a subset.  Raises ConfigError: no such subset, a pattern in it that matches nothing."""
    if subset not in panel.subsets:
        close = get_close_matches(subset, panel.subsets, n=1)
        known = f"known: {', '.join(panel.subsets)}" if panel.subsets else "the panel has no subsets"
        hint = f"did you mean '{panel.name}:{close[0]}'?" if close else known
        raise NotFound(f"panel '{panel.name}' has no subset '{subset}'", hint=hint)
    names = [one.task for one in found]
    part = panel.subsets[subset]
    for pattern in (*part.include, *part.exclude):
        if not match([pattern], names):
            document.wrong(f"'{pattern}' matches no task of the panel", ("panel", "subsets", subset))
    kept = match(part.include, names) - match(part.exclude, names)
    if not kept:
        document.wrong(f"subset '{subset}' is empty", ("panel", "subsets", subset))
    return tuple(one for one in found if one.task in kept)


def is_glob(pattern: str) -> bool:
    """Whether `pattern` stands for several names."""
    return any(mark in pattern for mark in "*?[")


def match(patterns: Iterable[str], names: Sequence[str]) -> set[str]:
    """The names that any pattern matches, case-sensitive on every machine."""
    return {name for name in names for pattern in patterns if fnmatchcase(name, pattern)}


def _expand(document: Document, split: str, pattern: str, names: Sequence[str]) -> Iterator[str]:
    if is_glob(pattern):
        matched = sorted(match([pattern], names))
        if not matched:
            document.wrong(f"'{pattern}' matches no task", ("panel", split), "`ht tasks list` shows the tasks")
        yield from matched
    elif pattern in names:
        yield pattern
    else:
        close = get_close_matches(pattern, names, n=1)
        hint = f"did you mean '{close[0]}'?" if close else "`ht tasks list` shows the tasks"
        document.wrong(f"there is no task '{pattern}'", ("panel", split), hint)


def _known(document: Document, table: Mapping[str, Any], known: Sequence[str], path: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            close = get_close_matches(key, known, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known)}"
            document.wrong(f"unknown key '{'.'.join((*path, key))}'", (*path, key), hint)


def _subsets(document: Document, table: Mapping[str, Any]) -> Iterator[tuple[str, Subset]]:
    value = table.get("subsets", {})
    if not isinstance(value, Mapping):
        document.wrong("subsets is no table", ("panel", "subsets"), 'write [panel.subsets] with NAME = ["…"]')
    for name, part in value.items():
        path = ("panel", "subsets", name)
        if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
            document.wrong(f"'{name}' is no name of a subset", path)
        given = {"include": part} if isinstance(part, list) else part
        if not isinstance(given, Mapping) or not set(given) <= {"include", "exclude"} or not given:
            document.wrong(f"subset '{name}' is neither a list nor {{include, exclude}}", path)
        yield name, Subset(**{key: tuple(_patterns(document, given, key)) for key in given})


def _text(document: Document, table: Mapping[str, Any], key: str, default: str | None) -> str:
    value = table.get(key, default)
    if value is None:
        document.wrong(f"[panel] has no {key}", ("panel",), f'write {key} = "…"')
    if isinstance(value, str) and value.strip() and not value.isprintable():
        document.wrong(f"{key} must be text that can be printed, not {ascii(value)}", ("panel", key))
    if not isinstance(value, str) or (key in table and not value.strip()):
        document.wrong(f"{key} must be a non-empty string", ("panel", key))
    return value


def _patterns(document: Document, table: Mapping[str, Any], split: str) -> Iterator[str]:
    value = table.get(split, [])
    if not isinstance(value, list):
        document.wrong(f"{split} must be a list of task names", ("panel", split), f'write {split} = ["…"]')
    for item in value:
        if not isinstance(item, str) or not item.strip() or not item.isprintable():
            document.wrong(f"{split} must be a list of task names", ("panel", split), f'write {split} = ["…"]')
        if "/" in item or item in (".", ".."):
            document.wrong(f"'{item}' is no task name", ("panel", split), "name directories directly below the source")
        yield item
