"""The trace folder and the rows that name its files.  Files come first, rows second, deletions last."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Self

from harnesstrain.core.errors import HtError, StoreCorrupt
from harnesstrain.core.ids import short
from harnesstrain.core.records.rollout import Rollout, Trace
from harnesstrain.store import runs
from harnesstrain.store.compact import compacted
from harnesstrain.store.engine import Database
from harnesstrain.store.rows import trace_of
from harnesstrain.store.traces import TraceFile, TraceReader, checked, read_trace, rollout_path


def commit(database: Database, folder: Path, rollout: Rollout, trace: Trace | None) -> Rollout:
    """Write the trace file, then commit the row that names it.  Returns the committed rollout."""
    if trace is None:
        return runs.commit(database, rollout.model_copy(update={"trace": None}))
    if trace.rollout != rollout.id:
        raise HtError(f"trace of rollout '{short(trace.rollout)}' given for rollout '{short(rollout.id)}'")
    file = TraceFile(trace)
    named = rollout.model_copy(update={"trace": file.digest})
    path = rollout_path(folder, rollout.run, rollout.id, file.digest)
    file.write(path, rollout.task, rollout.seed)
    committed = runs.commit(database, named)
    if committed.trace != file.digest:
        path.unlink(missing_ok=True)
    return committed


def trace(database: Database, folder: Path, rollout: Rollout) -> Trace:
    """A rollout's trace.  Tried twice: completing a run moves it from one file to another."""
    try:
        return read_trace(folder, rollout, runs.file_of(database, rollout.run))
    except StoreCorrupt:
        return read_trace(folder, rollout, runs.file_of(database, rollout.run))


class RunTraces:
    """The traces of one run, one after the other: what they share is read once.  Close it."""

    def __init__(self, database: Database, folder: Path, run: str) -> None:
        self._database = database
        self._folder = folder
        self._reader: TraceReader | None = None
        file = runs.file_of(database, run)
        if file is not None:
            with suppress(FileNotFoundError, StoreCorrupt):  # said of each trace that it should hold
                self._reader = TraceReader(folder / file)

    def trace(self, rollout: Rollout) -> Trace:
        """A rollout's trace.  Raises NotFound (none recorded), StoreCorrupt (missing or damaged)."""
        if self._reader is None or rollout.trace is None or not self._reader.holds(rollout.id):
            return trace(self._database, self._folder, rollout)
        return trace_of(rollout.id, checked(rollout, self._reader.rows(rollout.id)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._reader is not None:
            self._reader.close()


def complete(database: Database, folder: Path, run: str) -> None:
    """Compact a run's traces, record its completion, delete the files that this replaces."""
    while True:
        state = runs.state(database, run)
        if state.complete:
            break
        try:
            done = compacted(folder, run, state.rollouts, state.file, state.head)
        except StoreCorrupt:
            if runs.state(database, run) == state:
                raise
            continue
        if runs.complete(database, done):
            _replaced(folder, state.file, done.file)
            break
    _clean(folder, runs.state(database, run))


def _replaced(folder: Path, former: str | None, now: str | None) -> None:
    if former is not None and former != now:
        (folder / former).unlink(missing_ok=True)


def _clean(folder: Path, state: runs.RunState) -> None:
    """Delete the files that the run's file holds.  A kill before this leaves them to the next completion or to `gc`."""
    if state.file is None or not state.complete:
        return
    for rollout in state.rollouts:
        if rollout.trace is not None:
            rollout_path(folder, rollout.run, rollout.id, rollout.trace).unlink(missing_ok=True)
