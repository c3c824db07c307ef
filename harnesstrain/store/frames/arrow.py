"""Rows as Arrow.  The rows of a batch are in memory at once, no more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from harnesstrain.core.texts import whole
from harnesstrain.store.frames.shapes import Column, Row, Shape

BATCH_ROWS = 16_384
BATCH_BYTES = 8 << 20
"""A batch ends at whichever comes first: rows, or bytes of text."""

TYPES: dict[str, pa.DataType] = {
    "text": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us"),
    "texts": pa.list_(pa.string()),
    "ints": pa.list_(pa.int64()),
}
LOWEST, HIGHEST = -(2**63), 2**63 - 1
"""Of a whole number in a column.  One beyond is shown as the nearest."""


def schema(shape: Shape) -> pa.Schema:
    """The Arrow schema of a table."""
    return pa.schema([(column.name, TYPES[column.type]) for column in shape.columns])


def batches(shape: Shape, rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """The rows in batches.  Where one ends depends on the rows alone."""
    gathered: list[Row] = []
    held = 0
    for row in rows:
        gathered.append(row)
        held += sum(len(value) for value in row.values() if isinstance(value, str | bytes))
        if len(gathered) >= BATCH_ROWS or held >= BATCH_BYTES:
            yield _batch(shape, gathered)
            gathered, held = [], 0
    if gathered:
        yield _batch(shape, gathered)


def _batch(shape: Shape, rows: list[Row]) -> pa.RecordBatch:
    unknown = rows[0].keys() - {column.name for column in shape.columns}
    assert not unknown, f"{shape.name} has no column {unknown}"
    arrays = [_array(column, [row.get(column.name) for row in rows]) for column in shape.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema(shape))


def _array(column: Column, values: list[Any]) -> pa.Array:
    kind = TYPES[column.type]
    if column.type in ("text", "texts"):
        values = [_text(value) for value in values]
    try:
        return pa.array(values, kind)
    except OverflowError:
        return pa.array([_within(value) for value in values], kind)


def _within(value: Any) -> Any:
    """A whole number that 64 bits hold."""
    if isinstance(value, int) and not isinstance(value, bool):
        return min(max(value, LOWEST), HIGHEST)
    if isinstance(value, list | tuple):
        return [_within(one) for one in value]
    return value


def _text(value: Any) -> Any:
    """Text as UTF-8 can hold it: what it cannot becomes U+FFFD."""
    if isinstance(value, str):
        return whole(str(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list | tuple):
        return [_text(one) for one in value]
    return value
