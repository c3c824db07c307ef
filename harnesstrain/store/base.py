"""Named results of the store that are not records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harnesstrain.core.records.base import Record


class Found(Record):
    """What an id prefix stands for."""

    kind: str
    """run, rollout, candidate, verdict, promotion, memo, certificate, regime, panel, task, endpoint."""
    id: str
    """The whole id, 64 hex."""


class Entry(Record):
    """One committed row."""

    kind: str
    id: str
    seq: int
    """Order of commits within the kind."""
    at: float
    """Wall clock at the commit, seconds since 1970.  For display only."""
    record: dict[str, Any]
    """The record's fields."""


class RunSummary(Record):
    """One run in numbers, read without opening a trace."""

    run: str
    commit: str
    panel: str
    panel_name: str
    regime: str
    split: str | None
    seeds: tuple[int, ...]
    at: float
    """When the run was first recorded, seconds since 1970."""
    cells: int
    """Cells with at least one committed attempt; the newest attempt of each is counted below."""
    solved: int
    scorable: int
    attempts: int
    """Committed rollouts, retries included."""
    complete: bool
    llm_calls: int
    actions: int
    tokens: int
    """Prompt and completion tokens."""
    recorded_time: float
    """Seconds, summed over cells."""
    not_needed: int = 0
    """Cells that an early decision left unmeasured."""


class Finding(Record):
    """One thing that does not add up."""

    kind: str
    """orphan, missing, dangling, chain, corrupt."""
    subject: str
    """A file relative to the store's folder, or `table/id`."""
    problem: str
    """One sentence."""
    run: str | None = None
    """The run whose trace is lost."""


class Collected(Record):
    """What `gc` removed."""

    files: int
    bytes: int
    leases: int


class Holder(Record):
    """Who holds a lease."""

    name: str
    pid: int
    host: str
    purpose: str
    detail: str = ""
    """What the holder says it is at, as data."""
    taken: float
    """Seconds since 1970."""
    age: float
    """Seconds since it was taken."""
    silent: float
    """Seconds since the last heartbeat."""
    stale: bool
    """Its process is gone, or its heartbeat stopped."""


class News(Record):
    """What one look at a store found new."""

    now: float
    """Seconds since 1970 by the clock of the store's writers."""
    entries: tuple[Entry, ...]
    """New rows, by kind, oldest first."""
    completed: dict[str, int]
    """Runs that were completed, with their number of rollouts then."""
    holders: tuple[Holder, ...]
    """Every lease there is, new or not."""


class CacheStats(Record):
    """What a cache holds and how it did."""

    name: str
    entries: int
    bytes: int
    """Compressed values."""
    hits: int = 0
    """Since the cache was made."""
    misses: int = 0
    broken: int = 0
    """Entries that could not be read back: each was a miss."""
    epoch: int = 1
    """Entries of older epochs are out of reach."""
    outdated: int = 0
    """Of `entries`, those of older epochs."""

    @property
    def rate(self) -> float | None:
        """Hits per look-up; None before the first one."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else None


class Shrunk(Record):
    """What was removed from a cache."""

    name: str
    entries: int
    bytes: int
    """Compressed values."""
    outdated: int
    """Of `entries`, those of older epochs."""


class Bumped(Record):
    """A cache whose epoch was raised."""

    name: str
    epoch: int
    """The new one."""
    outdated: int
    """Entries that this put out of reach."""


class Exported(Record):
    """A cache as a Parquet file."""

    name: str
    file: Path
    entries: int
    broken: int = 0
    """Entries that could not be read back and were left out."""
    bytes: int
    """Size of the file."""


class SchemaState(Record):
    """How a store's schema relates to this code."""

    found: str | None
    """The schema's revision; None: no schema yet."""
    head: str
    """The revision this code speaks."""

    @property
    def status(self) -> str:
        """missing, current, older or newer."""
        if self.found is None:
            return "missing"
        if self.found == self.head:
            return "current"
        return "older" if self.found < self.head else "newer"


class Upgraded(Record):
    """What an upgrade did."""

    before: str | None
    after: str
    backup: Path | None = None
    """The copy made first; None when nothing had to change, or for a server database."""


class CompletedRun(Record):
    """A run's completion, as committed."""

    run: str
    rollouts: int
    head: str
    """Last link of the run's hash chain."""
    file: str | None = None
    """The run's trace file, relative to the trace folder."""
    file_digest: str | None = None
    """sha256 of that file."""
    bytes: int = 0
