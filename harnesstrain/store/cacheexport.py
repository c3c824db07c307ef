"""The caches as Parquet files, one a cache, with every entry's fields in columns of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from harnesstrain.core.errors import UsageError
from harnesstrain.core.records.cache import GradeEntry, StepEntry
from harnesstrain.core.records.llm import Reply
from harnesstrain.store import files
from harnesstrain.store.base import Exported
from harnesstrain.store.cachefile import CacheFile
from harnesstrain.store.caches import Cache, Caches

GROUP = 1000
"""Entries that are in memory at once."""

_PLACE = [
    ("key", pa.string()),
    ("epoch", pa.int64()),
    ("bytes", pa.int64()),
    ("used", pa.timestamp("us")),
]
"""First columns of every file: where an entry belongs, its compressed size, when it was used last (UTC)."""

_LLM = [
    ("content", pa.string()),
    ("reasoning", pa.string()),
    ("tool_calls", pa.string()),
    ("finish_reason", pa.string()),
    ("prompt_tokens", pa.int64()),
    ("cached_tokens", pa.int64()),
    ("completion_tokens", pa.int64()),
    ("reasoning_tokens", pa.int64()),
    ("token_ids", pa.list_(pa.int64())),
    ("logprobs", pa.list_(pa.float64())),
    ("duration", pa.float64()),
]

_STEP = [
    ("exit_code", pa.int64()),
    ("stdout", pa.binary()),
    ("stderr", pa.binary()),
    ("timed_out", pa.bool_()),
    ("truncated", pa.bool_()),
    ("duration", pa.float64()),
    ("left", pa.int64()),
    ("held_open", pa.bool_()),
    ("scrubbed", pa.string()),
    ("raw", pa.string()),
    ("rules", pa.string()),
    ("errno", pa.string()),
    ("message", pa.string()),
]

_VERIFY = [
    ("reward", pa.float64()),
    ("rewards", pa.string()),
    ("output", pa.string()),
    ("duration", pa.float64()),
    ("ungradable", pa.string()),
]


class _Stored(NamedTuple):
    """A row.  A damaged one may hold any type but for `seq`."""

    seq: int
    epoch: Any
    key: Any
    seal: Any
    value: Any
    used: Any


def export(caches: Caches, folder: Path) -> list[Exported]:
    """Write `llm.parquet`, `step.parquet` and `verify.parquet` into `folder`; files of these names are replaced.

    Entries of older epochs are included, broken ones are left out and counted.  Raises UsageError (not a folder),
    Prerequisite, StoreCorrupt.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hint="name a folder to write into")
    caches.pending.flush()
    return [
        _write(caches.file, caches.llm, _LLM, _reply_fields, folder),
        _write(caches.file, caches.step, _STEP, _step_fields, folder),
        _write(caches.file, caches.verify, _VERIFY, _grade_fields, folder),
    ]


def _write(
    file: CacheFile,
    cache: Cache[Any],
    columns: list[tuple[str, pa.DataType]],
    fields: Callable[[Any], dict[str, Any]],
    folder: Path,
) -> Exported:
    schema = pa.schema([*_PLACE, *columns])
    path = folder / f"{cache.name}.parquet"
    written = broken = 0
    with files.draft(path) as draft, pq.ParquetWriter(draft.file, schema, compression="zstd") as writer:
        for group in _groups(file, cache.name):
            rows = []
            for stored in group:
                entry = cache.opened(stored.epoch, stored.key, stored.seal, stored.value)
                if entry is None:
                    broken += 1
                else:
                    rows.append({**_place(stored), **fields(entry)})
            written += len(rows)
            if rows:
                writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    return Exported(name=cache.name, file=path, entries=written, broken=broken, bytes=path.stat().st_size)


def _groups(file: CacheFile, name: str) -> Iterator[list[_Stored]]:
    """All entries in the order of recording.  Each group is a read of its own: an export holds nobody up."""
    query = (
        f"SELECT e.seq, e.epoch, e.key, e.seal, e.value, u.used FROM {name} e LEFT JOIN {name}_use u USING (seq) "
        "WHERE e.seq > ? ORDER BY e.seq LIMIT ?"
    )
    last = -1
    while True:
        with file.database.read() as connection:
            group = [_Stored(*row) for row in connection.exec_driver_sql(query, (last, GROUP))]
        if not group:
            return
        yield group
        last = group[-1].seq


def _place(stored: _Stored) -> dict[str, Any]:
    try:
        used = datetime.fromtimestamp(stored.used, UTC).replace(tzinfo=None)
    except (TypeError, ValueError, OverflowError):
        used = None
    return {"key": stored.key.hex(), "epoch": stored.epoch, "bytes": len(stored.value), "used": used}


def _reply_fields(reply: Reply) -> dict[str, Any]:
    usage = reply.usage
    return {
        **reply.model_dump(exclude={"usage", "tool_calls"}),
        "tool_calls": json.dumps([call.model_dump() for call in reply.tool_calls], ensure_ascii=False),
        "prompt_tokens": usage.prompt,
        "cached_tokens": usage.cached,
        "completion_tokens": usage.completion,
        "reasoning_tokens": usage.reasoning,
    }


def _step_fields(entry: StepEntry) -> dict[str, Any]:
    return {**entry.model_dump(exclude={"result"}), **entry.result.model_dump()}


def _grade_fields(entry: GradeEntry) -> dict[str, Any]:
    grade = entry.grade
    if grade is None:
        return {"ungradable": entry.ungradable}
    return {
        **grade.model_dump(exclude={"rewards"}),
        "rewards": json.dumps(grade.rewards, sort_keys=True),
        "ungradable": entry.ungradable,
    }
