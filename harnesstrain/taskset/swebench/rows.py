"""The rows of a SWE-bench data set, as published: JSON lines, one instance each.

The two lists of tests are JSON text inside a string in most sets and plain lists in some.  Columns that are not named
here are left alone; texts are kept exactly as they are (carriage returns, characters outside ASCII, ids cut short).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harnesstrain.core.errors import ConfigError
from harnesstrain.core.records.base import Record

FAIL_TO_PASS = "FAIL_TO_PASS"
PASS_TO_PASS = "PASS_TO_PASS"

_NEEDED = ("repo", "instance_id")
_TEXTS = (
    "version",
    "base_commit",
    "patch",
    "test_patch",
    "problem_statement",
    "hints_text",
    "created_at",
    "environment_setup_commit",
    "difficulty",
    "image",
)
_HINT = "rows are JSON objects with repo, instance_id, FAIL_TO_PASS and PASS_TO_PASS, one a line"
_SURROGATE = re.compile("[\ud800-\udfff]")
_BOM = b"\xef\xbb\xbf"


class Row(Record):
    """One instance."""

    repo: str
    """owner/name."""
    instance_id: str
    """owner__name-number."""
    version: str = ""
    """Of the repository, as far as its environment is concerned: `3.0`."""
    base_commit: str = ""
    patch: str = ""
    """The reference solution, a git diff."""
    test_patch: str = ""
    """What the tests need, a git diff."""
    problem_statement: str = ""
    hints_text: str = ""
    created_at: str = ""
    environment_setup_commit: str = ""
    difficulty: str = ""
    image: str = ""
    """Name of the image to work in; empty: the published one of the instance."""
    fail_to_pass: tuple[str, ...]
    """Tests that the change must make pass."""
    pass_to_pass: tuple[str, ...]
    """Tests that must go on passing.  May be empty."""

    @property
    def instruction(self) -> str:
        """The problem statement with one kind of line end."""
        return self.problem_statement.replace("\r\n", "\n").replace("\r", "\n")


def read_rows(path: Path) -> dict[str, Row]:
    """The rows of a JSON lines file by instance id, in file order.  Raises ConfigError with file and line."""
    found: dict[str, Row] = {}
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                text = line.removeprefix(_BOM) if number == 1 else line
                if text.strip():
                    _add(found, _decoded(text, f"{path}:{number}"), f"{path}:{number}")
    except FileNotFoundError:
        raise ConfigError(f"no such file: {path}", hint="name the file with the rows") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint="check the file") from None
    if not found:
        raise ConfigError(f"{path} has no rows", hint=_HINT)
    return found


def rows_of(tables: Iterable[Mapping[str, Any]], origin: str) -> dict[str, Row]:
    """Rows that are read already, by instance id.  `origin` is named in errors.  Raises ConfigError."""
    found: dict[str, Row] = {}
    for number, table in enumerate(tables, start=1):
        _add(found, table, f"{origin}, row {number}")
    if not found:
        raise ConfigError(f"{origin} has no rows", hint=_HINT)
    return found


def read_row(path: Path) -> Row:
    """The one row of a JSON file.  Raises ConfigError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint="check the file") from None
    return row_of(_decoded(data.removeprefix(_BOM), str(path)), str(path))


def row_bytes(row: Row) -> bytes:
    """A row as `read_row` reads it: JSON, the lists of tests as lists; no image is named where there is none."""
    left_out = {"fail_to_pass", "pass_to_pass"} | (set() if row.image else {"image"})
    found = row.model_dump(mode="json", exclude=left_out)
    found |= {FAIL_TO_PASS: list(row.fail_to_pass), PASS_TO_PASS: list(row.pass_to_pass)}
    return json.dumps(found, ensure_ascii=False, sort_keys=True, indent=1).encode() + b"\n"


def row_of(table: Any, place: str) -> Row:
    """One row.  `place` is named in errors.  Raises ConfigError."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"{place}: not a JSON object", hint=_HINT)
    values: dict[str, Any] = {}
    for name in _NEEDED:
        value = table.get(name)
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{place}: no {name}", hint=_HINT)
        values[name] = value
    for name in _TEXTS:
        value = table.get(name)
        if not isinstance(value, str | None):
            raise ConfigError(f"{place}: {name} is no text", hint=_HINT)
        values[name] = value or ""
    values["fail_to_pass"] = _tests(table, FAIL_TO_PASS, place)
    values["pass_to_pass"] = _tests(table, PASS_TO_PASS, place)
    row = Row(**values)
    for text in (*row.fail_to_pass, *row.pass_to_pass, *(getattr(row, name) for name in (*_NEEDED, *_TEXTS))):
        if not text.isascii() and _SURROGATE.search(text):
            raise ConfigError(f"{place}: half a surrogate pair, which is no text", hint="write the row again as UTF-8")
    return row


def _add(found: dict[str, Row], table: Any, place: str) -> None:
    row = row_of(table, place)
    if row.instance_id in found:
        raise ConfigError(f"{place}: {row.instance_id} is there already", hint="keep one of the two rows")
    found[row.instance_id] = row


def _decoded(line: bytes, place: str) -> Any:
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise ConfigError(f"{place}: not UTF-8", hint="save the file as UTF-8") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{place}: not JSON", hint=_HINT) from None


def _tests(table: Mapping[str, Any], name: str, place: str) -> tuple[str, ...]:
    value = table.get(name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise ConfigError(f"{place}: the text of {name} is not JSON", hint=_HINT) from None
    if not isinstance(value, list | tuple) or not all(isinstance(test, str) for test in value):
        raise ConfigError(f"{place}: {name} is no list of tests", hint=_HINT)
    return tuple(value)
