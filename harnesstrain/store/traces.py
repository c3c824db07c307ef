"""Trace files: Parquet, one per rollout (lz4), later one per run (zstd).

`traces/<run>/<rollout>-<trace>.parquet` is written before the row that names it, and never changed.  `compact.py`
replaces a run's files by `traces/<run>/run-<digest>.parquet`.  A trace read back from either is checked against the
digest in its rollout's row: a damaged file is an error, never another trace.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from harnesstrain.core.errors import NotFound, StoreCorrupt
from harnesstrain.core.ids import short
from harnesstrain.core.records.rollout import Rollout, Trace
from harnesstrain.store import files
from harnesstrain.store.rows import Row, digest_of_rows, referenced, rows_of, trace_of

FORMAT = 1
"""Raised when the columns change their meaning."""

SCHEMA = pa.schema(
    [
        ("rollout", pa.string()),
        ("task", pa.string()),
        ("seed", pa.int64()),
        ("row", pa.string()),
        ("step", pa.int64()),
        ("kind", pa.string()),
        ("source", pa.string()),
        ("duration", pa.float64()),
        ("request_digest", pa.string()),
        ("messages_from", pa.int64()),
        ("messages_kept", pa.int64()),
        ("messages", pa.list_(pa.string())),
        ("tools", pa.string()),
        ("digest", pa.string()),
        ("text", pa.string()),
        ("stderr", pa.string()),
        ("encoding", pa.string()),
        ("reasoning", pa.string()),
        ("tool_calls", pa.string()),
        ("finish_reason", pa.string()),
        ("prompt_tokens", pa.int64()),
        ("cached_tokens", pa.int64()),
        ("completion_tokens", pa.int64()),
        ("reasoning_tokens", pa.int64()),
        ("action", pa.string()),
        ("exit_code", pa.int64()),
        ("scrubbed_digest", pa.string()),
        ("raw_digest", pa.string()),
        ("timed_out", pa.bool_()),
        ("truncated", pa.bool_()),
        ("live_only", pa.bool_()),
        ("note", pa.string()),
        ("error", pa.string()),
        ("exact", pa.string()),
        ("ran", pa.list_(pa.string())),
    ]
)
"""Columns of a trace file; docs/ explains them.  A file written before a column was added lacks it: all null."""

REPEATING = ["rollout", "task", "seed", "row", "kind", "source", "tools", "encoding", "finish_reason", "exit_code"]
"""Columns with few distinct values."""

WRITING: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 3,
    "use_dictionary": REPEATING,
    "write_statistics": ["rollout", "task"],
    "data_page_size": 4 << 20,
    "write_page_checksum": True,
    "store_schema": False,
}

PASSING = {**WRITING, "compression": "lz4", "compression_level": None}
"""How a file is written that lasts until its run is complete: quickly."""

_OWNERS = ("rollout", "task", "seed")

T = TypeVar("T")


class TraceFile:
    """A trace in memory, ready to be written: its digest is known before its rollout is committed."""

    def __init__(self, trace: Trace) -> None:
        self.rollout = trace.rollout
        self.rows = rows_of(trace)
        self.digest = digest_of_rows(trace.rollout, self.rows)

    def write(self, path: Path, task: str, seed: int) -> None:
        """Write the file durably.  Raises Prerequisite (disk full, no permission)."""
        buffer = io.BytesIO()
        table = table_of(self.rows, self.rollout, task, seed)
        with pq.ParquetWriter(buffer, SCHEMA, **PASSING) as writer:
            writer.write_table(table, row_group_size=max(len(self.rows), 1))
            writer.add_key_value_metadata(described({self.rollout: (0, 0, len(self.rows))}))
        files.write(path, buffer.getbuffer())


def rollout_path(folder: Path, run: str, rollout: str, digest: str) -> Path:
    """Where a rollout's own trace file lies."""
    return folder / run / f"{rollout[:16]}-{digest[:16]}.parquet"


def run_path(folder: Path, run: str, digest: str) -> Path:
    """Where a run's trace file lies."""
    return folder / run / f"run-{digest[:16]}.parquet"


def table_of(rows: list[Row], rollout: str | None, task: str | None, seed: int | None) -> pa.Table:
    """Rows as a table; the rollout they belong to in every row."""
    owned = [{"rollout": rollout, "task": task, "seed": seed, **row} for row in rows]
    return pa.Table.from_pylist(owned, schema=SCHEMA)


def described(rollouts: dict[str, tuple[int, int, int]], shared: int | None = None) -> dict[str, str]:
    """Key-value metadata of a file: each rollout's place (row group, first row, rows), the group of shared messages."""
    return {"harnesstrain": json.dumps({"format": FORMAT, "rollouts": rollouts, "shared": shared})}


class TraceReader:
    """An open trace file of either sort."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = self._guard(lambda: pq.ParquetFile(path, page_checksum_verification=True))
        self._index = self._guard(self._read_index)
        self._shared: dict[str, Row] | None = None
        self._group: tuple[int, pa.Table] | None = None
        """The row group that was read last: the next rollout often lies in it too."""

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def holds(self, rollout: str) -> bool:
        """Whether the file has a trace of `rollout`."""
        return rollout in self._index["rollouts"]

    def rollouts(self) -> list[str]:
        """The rollouts it holds, in order."""
        return list(self._index["rollouts"])

    def rows(self, rollout: str) -> list[Row]:
        """The rows of one rollout, shared messages included.  Raises StoreCorrupt."""
        return self._guard(lambda: self._rows(rollout))

    def table(self, rollout: str, task: str, seed: int) -> pa.Table:
        """The rows of one rollout as a table, shared messages included.  Raises StoreCorrupt."""
        if len(self._index["rollouts"]) == 1 and self._index["shared"] is None:
            return self._guard(lambda: _completed(self._file.read()))
        return table_of(self.rows(rollout), rollout, task, seed)

    def message_digests(self, rollout: str) -> set[str]:
        """Digests of one rollout's messages.  Raises StoreCorrupt."""
        if len(self._index["rollouts"]) == 1 and self._index["shared"] is None:
            return self._guard(lambda: set(self._file.read(columns=["digest"])["digest"].drop_null().to_pylist()))
        return {row["digest"] for row in self.rows(rollout) if row["row"] == "message"}

    def _rows(self, rollout: str) -> list[Row]:
        group, start, count = self._index["rollouts"][rollout]
        if self._group is None or self._group[0] != group:
            self._group = (group, self._file.read_row_group(group))
        rows = _plain(self._group[1].slice(start, count))
        if self._index["shared"] is None:
            return rows
        if self._shared is None:
            shared = _plain(self._file.read_row_group(self._index["shared"]))
            self._shared = {row["digest"]: {**row, "step": 0} for row in shared}
        own = {row["digest"] for row in rows if row["row"] == "message"}
        names = sorted(referenced(rows) - own)
        return [*(self._shared[name] for name in names if name in self._shared), *rows]

    def _read_index(self) -> dict[str, Any]:
        index: dict[str, Any] = json.loads((self._file.metadata.metadata or {})[b"harnesstrain"])
        if index["format"] != FORMAT:
            raise ValueError(f"trace format {index['format']}, this version reads {FORMAT}")
        return index

    def _guard(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, IndexError, MemoryError) as error:
            said = (str(error).splitlines() or [type(error).__name__])[0]
            message = f"trace file {self.path.name} cannot be read: {said}"
            raise StoreCorrupt(message[:300], hint="`ht fsck` lists damaged traces") from error


def _completed(table: pa.Table) -> pa.Table:
    """The table with every column there is."""
    if table.num_columns == len(SCHEMA):
        return table
    known = set(table.column_names)
    columns = [table[one.name] if one.name in known else pa.nulls(table.num_rows, one.type) for one in SCHEMA]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _plain(table: pa.Table) -> list[Row]:
    """A table's rows without nulls and without the columns that say whose they are."""
    rows: list[Row] = [{} for _ in range(table.num_rows)]
    for name in table.column_names:
        if name in _OWNERS or table[name].null_count == table.num_rows:
            continue
        for row, value in zip(rows, table[name].to_pylist(), strict=True):
            if value is not None:
                row[name] = value
    return rows


@contextmanager
def opened(folder: Path, rollout: Rollout, run_file: str | None) -> Iterator[TraceReader]:
    """The file that holds a rollout's trace: its own or its run's.  Raises NotFound or StoreCorrupt."""
    if rollout.trace is None:
        raise NotFound(f"rollout '{short(rollout.id)}' has no trace", hint="it was recorded without one")
    places = [rollout_path(folder, rollout.run, rollout.id, rollout.trace)]
    places += [folder / run_file] if run_file else []
    for place in places:
        try:
            reader = TraceReader(place)
        except FileNotFoundError:
            continue
        try:
            if reader.holds(rollout.id):
                yield reader
                return
        finally:
            reader.close()
    raise StoreCorrupt(
        f"trace of rollout '{short(rollout.id)}' is missing", hint="`ht fsck` lists what is lost", run=rollout.run
    )


def checked(rollout: Rollout, rows: list[Row]) -> list[Row]:
    """The rows, if they are those that were committed.  Raises StoreCorrupt."""
    try:
        digest = digest_of_rows(rollout.id, rows)
    except (KeyError, TypeError, ValueError):  # rows that nothing was taken apart into
        digest = None
    if digest != rollout.trace:
        message = f"trace of rollout '{short(rollout.id)}' is not the one that was committed"
        raise StoreCorrupt(message, hint="`ht fsck` lists damaged traces")
    return rows


def read_trace(folder: Path, rollout: Rollout, run_file: str | None) -> Trace:
    """A rollout's trace, checked against the committed digest.  Raises NotFound or StoreCorrupt."""
    with opened(folder, rollout, run_file) as reader:
        return trace_of(rollout.id, checked(rollout, reader.rows(rollout.id)))
