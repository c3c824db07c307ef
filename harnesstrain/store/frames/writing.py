"""A table as a file: Parquet, or CSV for spreadsheets.

A file is written beside its place under a temporary name and then renamed: a kill leaves the old file or the new one.
What a kill left under a temporary name goes with a later export to that place.  A pipe or a device is written to.

In CSV a text that begins like a formula (`= + - @`, their wide forms, tab, carriage return), or with an apostrophe, has
an apostrophe put in front: text of models and tasks is foreign, and a spreadsheet would compute it.  Taking one leading
apostrophe away gives the text back.
"""

from __future__ import annotations

import fcntl
import glob
import io
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from harnesstrain.core.errors import UsageError
from harnesstrain.core.records.base import Record
from harnesstrain.store import files
from harnesstrain.store.frames import arrow
from harnesstrain.store.frames.catalogue import Table
from harnesstrain.store.frames.shapes import Row, Shape
from harnesstrain.store.outlets import Outlet, outlet

FORMAT = "1"
"""Raised when a column changes its meaning.  In a Parquet file's metadata, as `harnesstrain.format`."""

JUST_MADE = 60.0
"""Seconds in which a file under a temporary name may not have been locked yet."""

FORMULA = "^[=+\\-@\\t\\r'＝＋－＠]"
"""How a text begins that a spreadsheet would compute, or that has been marked as none."""


Out = BinaryIO | io.RawIOBase
"""Where bytes go."""


class Form(StrEnum):
    """What sort of file."""

    PARQUET = "parquet"
    CSV = "csv"


class Written(Record):
    """One table as a file."""

    table: str
    file: Path
    rows: int
    bytes: int
    """Written."""
    lost: tuple[str, ...] = ()
    """What is said of traces that could not be read: their steps are left out."""


class _Sink(Protocol):
    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


def write(table: Table, rows: Iterable[Row], target: Path, form: Form) -> Written:
    """Write a table's rows as `target`; a file of that name is replaced.

    Raises UsageError (no place for such a file), Prerequisite (disk full, no permission), StoreCorrupt (a damaged
    record).
    """
    place = place_of(target, form)
    with _pipe(place) if place.direct else _file(place) as file:
        counted = _Counted(file)
        count = _write(table, rows, counted, form)
    return Written(table=table.shape.name, file=target, rows=count, bytes=counted.bytes)


def place_of(target: Path, form: Form) -> Outlet:
    """Where and how `target` is written.  Raises UsageError (a folder; Parquet into a pipe), Prerequisite."""
    place = outlet(target)
    if place.direct and form is Form.PARQUET:
        raise UsageError(f"{target} is no plain file, which Parquet needs", hint="name a new file, or use --csv")
    return place


@contextmanager
def _file(place: Outlet) -> Iterator[BinaryIO]:
    _sweep(place.path)
    with files.draft(place.path) as draft:
        place.keep(draft.file.fileno())
        fcntl.flock(draft.file, fcntl.LOCK_EX)
        yield draft.file


@contextmanager
def _pipe(place: Outlet) -> Iterator[BinaryIO]:
    try:
        with place.path.open("ab") as file:
            yield file
    except OSError as error:
        raise files.io_error(error, place.path) from error


class _Counted(io.RawIOBase):
    """A file, and how much was written to it.  Whoever opened the file closes it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.bytes = 0

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:
        """All of it."""
        self.bytes += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        """What waits."""
        if not self._file.closed:
            self._file.flush()


def stream(table: Table, rows: Iterable[Row], out: Out) -> int:
    """Write a table's rows as CSV to an open file; how many.  Raises BrokenPipeError, Prerequisite, StoreCorrupt."""
    try:
        return _write(table, rows, out, Form.CSV)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise files.io_error(error, Path("the output")) from error


def _write(table: Table, rows: Iterable[Row], file: Out, form: Form) -> int:
    count = 0
    with _sink(table.shape, file, form) as sink:
        for batch in arrow.batches(table.shape, rows):
            sink.write(batch)
            count += batch.num_rows
    return count


@contextmanager
def _sink(shape: Shape, file: Out, form: Form) -> Iterator[_Sink]:
    sink = _ParquetSink(shape, file) if form is Form.PARQUET else _CsvSink(shape, file)
    try:
        yield sink
    finally:
        sink.close()


class _ParquetSink:
    def __init__(self, shape: Shape, file: Out) -> None:
        described = {"harnesstrain.table": shape.name, "harnesstrain.format": FORMAT}
        schema = arrow.schema(shape).with_metadata(described)
        self._writer = pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True)

    def write(self, batch: pa.RecordBatch) -> None:
        """A row group a batch."""
        self._writer.write_batch(batch, row_group_size=batch.num_rows)

    def close(self) -> None:
        """Write the footer."""
        self._writer.close()


class _CsvSink:
    def __init__(self, shape: Shape, file: Out) -> None:
        self._schema = pa.schema([(one.name, _flat(one.type)) for one in arrow.schema(shape)])
        self._writer = pyarrow.csv.CSVWriter(file, self._schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Lines."""
        columns = [_cells(column) for column in batch.columns]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        """Write what waits."""
        self._writer.close()


def _flat(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_list(kind) else kind


def _cells(column: pa.Array) -> pa.Array:
    """A column as CSV has it: lists as JSON, text that is no formula and holds no NUL, at which readers stop."""
    if pa.types.is_list(column.type):
        found = [None if value is None else json.dumps(value, ensure_ascii=False) for value in column.to_pylist()]
        return pa.array(found, pa.string())
    if not pa.types.is_string(column.type):
        return column
    column = pc.replace_substring(column, "\x00", "\ufffd")
    marked = pc.binary_join_element_wise(pa.scalar("'"), column, pa.scalar(""))
    return pc.if_else(pc.match_substring_regex(column, FORMULA), marked, column)


def _sweep(target: Path) -> None:
    """Remove what killed exports left beside `target`.  What one that is at work holds, or has just made, stays."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*{files.TEMPORARY}"):
        with suppress(OSError), left.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - left.stat().st_mtime > JUST_MADE:
                left.unlink()
