"""Many trace files into one.  Rollouts stay whole; a message that several of them share is stored once.

Two passes, one rollout in memory at a time: the first counts message digests, the second writes.  Whole rollouts are
gathered into row groups of a few megabytes, so that a reader of one rollout reads one group.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harnesstrain.core.records.rollout import Rollout
from harnesstrain.store import files
from harnesstrain.store.base import CompletedRun
from harnesstrain.store.rows import Row
from harnesstrain.store.traces import SCHEMA, WRITING, described, opened, run_path, table_of

GROUP_BYTES = 2 << 20
"""Bytes (uncompressed) of the rollouts gathered into one row group, at least; the last group may be smaller."""


def compacted(folder: Path, run: str, rollouts: list[Rollout], run_file: str | None, head: str) -> CompletedRun:
    """Write the run's trace file from its rollouts' files (and its former run file).  Nothing is deleted.

    Raises StoreCorrupt (a trace is missing or damaged) or Prerequisite (disk full).
    """
    traced = [rollout for rollout in rollouts if rollout.trace is not None]
    done = CompletedRun(run=run, rollouts=len(rollouts), head=head)
    if not traced:
        return done
    with files.draft(folder / run / "run.parquet") as draft:
        _write(draft.file, folder, traced, run_file)
        digest = draft.digest()
        size = draft.path.stat().st_size
        draft.target = run_path(folder, run, digest)
    name = draft.target.relative_to(folder).as_posix()
    return done.model_copy(update={"file": name, "file_digest": digest, "bytes": size})


def _write(file: BinaryIO, folder: Path, rollouts: list[Rollout], run_file: str | None) -> None:
    messages = _Shared(_repeated(folder, rollouts, run_file))
    places: dict[str, tuple[int, int, int]] = {}
    gathered: list[pa.Table] = []
    shared = None
    with pq.ParquetWriter(file, SCHEMA, **WRITING) as writer:
        count = 0
        for rollout in rollouts:
            with opened(folder, rollout, run_file) as reader:
                table = reader.table(rollout.id, rollout.task, rollout.seed)
            own = messages.taken_from(table)
            places[rollout.id] = (count, sum(before.num_rows for before in gathered), own.num_rows)
            gathered.append(own)
            if sum(before.nbytes for before in gathered) >= GROUP_BYTES:
                _flush(writer, gathered)
                count += 1
        if gathered:
            _flush(writer, gathered)
            count += 1
        if messages.rows:
            _flush(writer, [table_of(list(messages.rows.values()), None, None, None)])
            shared = count
        writer.add_key_value_metadata(described(places, shared))


def _flush(writer: pq.ParquetWriter, gathered: list[pa.Table]) -> None:
    table = pa.concat_tables(gathered)
    writer.write_table(table, row_group_size=max(table.num_rows, 1))
    gathered.clear()


def _repeated(folder: Path, rollouts: list[Rollout], run_file: str | None) -> set[str]:
    """Digests of messages that more than one rollout holds."""
    once: set[str] = set()
    repeated: set[str] = set()
    for rollout in rollouts:
        with opened(folder, rollout, run_file) as reader:
            digests = reader.message_digests(rollout.id)
        repeated |= digests & once
        once |= digests
    return repeated


class _Shared:
    """The messages that several rollouts hold, gathered while their tables pass by."""

    def __init__(self, repeated: set[str]) -> None:
        self.rows: dict[str, Row] = {}
        self._repeated = pa.array(sorted(repeated), pa.string())

    def taken_from(self, table: pa.Table) -> pa.Table:
        """The table without its shared messages.  One that no step names (its `step` is null) stays where it is."""
        named = pc.and_(pc.equal(table["row"], "message"), pc.is_valid(table["step"]))
        mask = pc.and_(named, pc.is_in(table["digest"], value_set=self._repeated))
        for row in table.filter(mask).select(["digest", "text"]).to_pylist():
            kept = self.rows.setdefault(row["digest"], {"row": "message", **row})
            if kept["text"] != row["text"]:  # equal digests, other spelling: both are kept as they were
                other = pc.and_(pc.equal(table["digest"], row["digest"]), named)
                mask = pc.and_(mask, pc.invert(pc.fill_null(other, False)))
        return table.filter(pc.invert(mask))
