"""SWE-bench rows as a data set: one directory an instance, with its row.json.

Rows come from JSON lines, from tables that were read already (Parquet), or from a directory of
`<instance_id>/tests/config.json` or `<instance_id>/row.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harnesstrain.core.errors import ConfigError
from harnesstrain.taskset.document import read_text
from harnesstrain.taskset.pull.finding import CONFIG, Found
from harnesstrain.taskset.pull.laying import inside
from harnesstrain.taskset.swebench.rows import Row, row_bytes, rows_of
from harnesstrain.taskset.swebench.spec import task_spec

ROW = "row.json"
"""The row of an instance, in its directory."""
PLACES = (ROW, CONFIG)
TASK_FILES = ("task.toml", "task.yaml")
MAX_BYTES = 64 << 20


def rows_in(root: Path, path: str = "", *, only: bool = False) -> dict[str, Row]:
    """The rows of the first directory that has any, by instance id: `path` below `root`, `root`, one below it.

    `only`: of `path` and nowhere else.
    Raises ConfigError.
    """
    places = [root / path] if only else [root / path, root, *sorted(one for one in root.iterdir() if one.is_dir())]
    for folder in places:
        if folder.is_dir() and (tables := list(_tables(folder))):
            return rows_of(tables, str(folder))
    raise ConfigError(
        f"there are no rows in {root / path if only else root}", hint="a row is ID/row.json or ID/tests/config.json"
    )


def all_rows(folder: Path) -> bool:
    """Whether every directory here has a row in one of the PLACES, and no file that makes it another task."""

    def has(path: Path, names: Sequence[str]) -> bool:
        return any((path / name).is_file() for name in names)

    found = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
    return bool(found) and all(has(path, PLACES) and not has(path, TASK_FILES) for path in found)


def lay_rows(rows: Mapping[str, Row], wanted: Sequence[str], folder: Path, origin: str) -> Found:
    """Write rows into `folder`, one directory each; `wanted`: their ids, all that can be tasks when empty.

    Raises ConfigError: a wanted row is not there or can be no task, or none can.
    """
    names = tuple(wanted) or tuple(rows)
    missing = [name for name in names if name not in rows]
    if missing:
        shown = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")
        msg = f"{len(missing)} of {len(names)} rows are not in {origin}: {shown}"
        raise ConfigError(msg, hint="take the rows of the published data set")
    bad = unusable({name: rows[name] for name in names})
    if bad and (wanted or len(bad) == len(names)):
        msg = f"{len(bad)} of {len(names)} rows of {origin} can be no task: {next(iter(bad.values()))}"
        raise ConfigError(msg, hint="take the rows of the published data set")
    names = tuple(name for name in names if name not in bad)
    for name in names:
        write_row(folder, rows[name])
    return Found(folder, names, unusable=tuple(bad.values()))


def unusable(rows: Mapping[str, Row]) -> dict[str, str]:
    """Why rows can be no tasks, by id: a column is missing, or nothing is known of their repository."""
    found = {}
    for name, row in rows.items():
        try:
            task_spec(row)
        except ConfigError as error:
            found[name] = error.message if name in error.message else f"{name}: {error.message}"
    return found


def write_row(folder: Path, row: Row) -> int:
    """Write a row as `<folder>/<instance_id>/row.json`; returns bytes.

    Raises ConfigError for an id that is no name.
    """
    if inside(row.instance_id) != row.instance_id or "/" in row.instance_id:
        raise ConfigError(f"'{row.instance_id}' is no name of a directory", hint="take the published rows")
    data = row_bytes(row)
    directory = folder / row.instance_id
    directory.mkdir(parents=True)
    (directory / ROW).write_bytes(data)
    return len(data)


def _tables(folder: Path) -> Iterator[Any]:
    for path in sorted(folder.iterdir()):
        place = next((path / name for name in PLACES if (path / name).is_file()), None)
        if place is not None:
            yield _table(place)


def _table(path: Path) -> Any:
    try:
        return json.loads(read_text(path, MAX_BYTES))
    except (ValueError, RecursionError):
        raise ConfigError(f"{path}: not JSON", hint="take the published rows") from None
