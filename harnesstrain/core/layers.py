"""One layer of settings: values with their origins, read from a TOML file with the line of each key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harnesstrain.core.errors import ConfigError
from harnesstrain.core.records.base import Record


class Origin(Record):
    """Where a value came from."""

    layer: str
    """flag, env, project, user or default."""
    place: str = ""
    """The variable, or FILE:LINE; empty for flags and defaults."""

    def __str__(self) -> str:
        return f"{self.layer} {self.place}".rstrip()


@dataclass(frozen=True)
class Given:
    """One value as a layer gave it, not validated."""

    value: Any
    origin: Origin
    base: Path
    """What relative paths belong to."""
    text: bool = False
    """Came as text (environment, command line) and is to be parsed."""


FREE_TABLE = "estimator"
"""[estimator.NAME] tables are free-form: their values are kept whole, whatever they are."""


def flatten(table: Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables as dotted keys, down to `estimator.NAME.KEY` in the free-form ones.  Empty tables stay."""
    flat: dict[str, Any] = {}

    def walk(inner: Mapping[str, Any], prefix: str, depth: int | None) -> None:
        for name, value in inner.items():
            if isinstance(value, Mapping) and value and depth != 0:
                below = 1 if prefix + name == FREE_TABLE else depth and depth - 1
                walk(value, f"{prefix}{name}.", below)
            else:
                flat[f"{prefix}{name}"] = value

    walk(table, "", None)
    return flat


def read_file(path: Path, layer: str) -> dict[str, Given]:
    """The values of a TOML file by dotted key.  Raises ConfigError with file and line."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8", hint="save the file as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", hint="check the file's permissions") from None
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+)", str(error))
        raise ConfigError(f"{path}{':' + at[1] if at else ''}: {error}", hint="correct the TOML") from None
    lines = dict(_lines(text))
    return {
        key: Given(value, Origin(layer=layer, place=_place(path, key, lines)), path.resolve().parent)
        for key, value in flatten(table).items()
    }


def _place(path: Path, key: str, lines: Mapping[str, int]) -> str:
    while key:
        if key in lines:
            return f"{path}:{lines[key]}"
        key = key.rpartition(".")[0]
    return str(path)


def _lines(text: str) -> Iterator[tuple[str, int]]:
    """Best-effort line of each dotted key: table headers and plain assignments."""
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line):
            table = re.sub(r"[\"'\s]", "", header[1])
            yield table, number
        elif assigned := re.match(r"\s*([\w.\"'-]+(?:\s*\.\s*[\w\"'-]+)*)\s*=", line):
            name = re.sub(r"[\"'\s]", "", assigned[1])
            yield f"{table}.{name}" if table else name, number
