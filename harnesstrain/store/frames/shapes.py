"""What a table is: its name, its columns, their types and units."""

from __future__ import annotations

from typing import Any, Literal, get_args

from harnesstrain.core.records.base import Record

Type = Literal["text", "int", "float", "bool", "time", "texts", "ints"]
"""`time`: UTC, without a zone.  `texts`, `ints`: lists; JSON text in CSV."""

Row = dict[str, Any]
"""Column name to value; absent means null."""


class Column(Record):
    """One column."""

    name: str
    type: Type
    meaning: str
    """With its unit."""


class Shape(Record):
    """One table without its rows."""

    name: str
    meaning: str
    """What a row is."""
    columns: tuple[Column, ...]


def shape(name: str, meaning: str, columns: str) -> Shape:
    """A shape from text: a line per column, `name type meaning`."""
    made = []
    for line in columns.strip().splitlines():
        if not line.strip():
            continue
        column, kind, says = line.split(maxsplit=2)
        assert kind in get_args(Type), f"{name}.{column}: no type '{kind}'"
        made.append(Column(name=column, type=kind, meaning=says))
    return Shape(name=name, meaning=meaning, columns=tuple(made))
