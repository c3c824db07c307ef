"""Panel files: `tasksets/NAME.toml`, read strictly.

[panel]
name = "mine"                      # the file's name when left out
source = "quick"                   # directory of tasks, relative to this file, or a shipped set
train = ["write-greeting", "fix-*"]  # names in order; a glob stands for the names it matches, sorted
holdout = ["write-shopping-list"]
sealed = []
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from harnesstrain.core.records.base import Record
from harnesstrain.taskset.base import SPLITS
from harnesstrain.taskset.document import Document, read

KEYS = ("name", "source", "description", *SPLITS)
"""What [panel] may hold."""


class PanelFile(Record):
    """A panel file as written."""

    path: Path
    name: str
    source: str
    description: str = ""
    splits: dict[str, tuple[str, ...]]
    """Names and globs by split, as written."""


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
    _known(document, document.table, ("panel",), ())
    table = document.table.get("panel")
    if not isinstance(table, Mapping):
        document.wrong("there is no [panel] table", hint='write [panel] with source = "…" and train = [ … ]')
    _known(document, table, KEYS, ("panel",))
    panel = PanelFile(
        path=document.path,
        name=_text(document, table, "name", document.path.stem),
        source=_text(document, table, "source", None),
        description=_text(document, table, "description", ""),
        splits={split: tuple(_patterns(document, table, split)) for split in SPLITS},
    )
    if not any(panel.splits.values()):
        document.wrong("the panel is empty", ("panel",), "name tasks in train, holdout or sealed")
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


def _text(document: Document, table: Mapping[str, Any], key: str, default: str | None) -> str:
    value = table.get(key, default)
    if value is None:
        document.wrong(f"[panel] has no {key}", ("panel",), f'write {key} = "…"')
    if not isinstance(value, str) or not value.isprintable() or (key in table and not value.strip()):
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
