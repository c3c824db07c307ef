"""The caches: typed entries by key.  A cache may forget, it never answers wrongly.

Every entry carries a seal over its place and value.  An entry that does not fit it, or that this version cannot read,
is a miss and is removed.  Nothing raised by the file reaches who asks: the work goes on without the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from harnesstrain.core.errors import HtError, UsageError
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.cache import GradeEntry, StepEntry
from harnesstrain.core.records.llm import Reply
from harnesstrain.store import entries
from harnesstrain.store.ahead import Ahead
from harnesstrain.store.base import Bumped, CacheStats, Shrunk
from harnesstrain.store.cachefile import NAMES, CacheFile
from harnesstrain.store.pending import Pending, Sealed, Slot

E = TypeVar("E", bound=Record)


class Cache(Generic[E]):
    """One cache: entries by key (64 hex).  Thread-safe.  Implements the cache protocols of `core.ports`."""

    def __init__(
        self,
        name: str,
        file: CacheFile,
        pending: Pending,
        encode: Callable[[E], bytes],
        decode: Callable[[bytes], E],
    ) -> None:
        self.name = name
        self._file = file
        self._pending = pending
        self._encode = encode
        self._decode = decode
        self._ahead = Ahead(name, file)
        self._select = f"SELECT seq, seal, value FROM {name} WHERE epoch = ? AND key = ?"

    def get(self, key: str) -> E | None:
        """What is recorded for `key`, or None.  Never raises for a damaged entry or file."""
        slot = Slot(self.name, self._file.epochs[self.name], bytes.fromhex(key))
        waiting = self._pending.find(slot)  # asked first: it may reach the file at any moment
        row = self._ahead.take(slot[1:])
        if row is None:
            row = self._looked_up(slot)
        if row is not None:
            seq, seal, value = row
        elif waiting is not None:
            seq, seal, value = None, waiting.seal, waiting.value
        else:
            self._pending.count(self.name, "misses")
            return None
        found = self.opened(*slot[1:], seal, value)
        if found is None:
            self._forget(slot)
            return None
        self._pending.count(self.name, "hits", seq)
        return found

    def _looked_up(self, slot: Slot) -> Any:
        row = None
        try:
            row = self._file.look_up(self._select, slot[1:])
            if row is not None:
                self._ahead.found(slot.epoch, row[0])
        except HtError as error:
            self._file.warn("cannot be read", error)
        return row

    def put(self, key: str, entry: E) -> None:
        """Record an entry.  The first one of a key stays."""
        slot = Slot(self.name, self._file.epochs[self.name], bytes.fromhex(key))
        value = entries.packed(self._encode(entry))
        self._pending.add(slot, Sealed(entries.seal(*slot, value), value))

    def opened(self, epoch: int, key: bytes, seal: bytes, value: bytes) -> E | None:
        """The entry in a row; None when it is damaged or foreign.  A damaged row may hold any type."""
        try:
            if seal != entries.seal(self.name, epoch, key, value):
                return None
            return self._decode(entries.unpacked(value))
        except (TypeError, ValueError):
            return None

    def forget_ahead(self) -> None:
        """Drop what was read before it was asked for: entries were removed."""
        self._ahead.forget()

    def _forget(self, slot: Slot) -> None:
        self._pending.count(self.name, "broken")
        self._pending.count(self.name, "misses")
        self._pending.drop(slot)
        try:
            with self._file.database.write() as connection:
                connection.exec_driver_sql(f"DELETE FROM {self.name} WHERE epoch = ? AND key = ?", slot[1:])
        except HtError as error:
            self._file.warn("cannot be written", error)


class Caches:
    """The caches of one cache.db and their upkeep."""

    def __init__(self, path: Path) -> None:
        """Raises StoreCorrupt or Prerequisite when the file cannot be opened."""
        self.file = CacheFile(path)
        self.pending = Pending(self.file)
        shared = (self.file, self.pending)
        self.llm: Cache[Reply] = Cache("llm", *shared, entries.reply_bytes, entries.reply_from)
        self.step: Cache[StepEntry] = Cache("step", *shared, entries.step_bytes, entries.step_from)
        self.verify: Cache[GradeEntry] = Cache("verify", *shared, entries.grade_bytes, entries.grade_from)

    def close(self) -> None:
        """Write what waits and let go of the file."""
        self.pending.close()
        self.file.close()

    def stats(self) -> list[CacheStats]:
        """What each holds and how it did, other processes included.  Raises StoreCorrupt."""
        self.pending.flush()
        found = []
        with self.file.database.read() as connection:
            for name in NAMES:
                row = connection.exec_driver_sql("SELECT * FROM caches WHERE name = ?", (name,)).one()
                held = "SELECT count(*), coalesce(sum(size), 0), coalesce(sum(epoch <> ?), 0)"
                count, size, old = connection.exec_driver_sql(f"{held} FROM {name}_use", (row.epoch,)).one()
                found.append(
                    CacheStats(
                        name=name,
                        entries=count,
                        bytes=size,
                        hits=row.hits,
                        misses=row.misses,
                        broken=row.broken,
                        epoch=row.epoch,
                        outdated=old,
                    )
                )
        return found

    def shrink(self, max_bytes: int, *, dry_run: bool = False) -> list[Shrunk]:
        """Remove entries of older epochs, then the least recently used until each cache fits `max_bytes`."""
        self.pending.flush()
        transaction = self.file.database.read if dry_run else self.file.database.write
        found = []
        with transaction() as connection:
            for name in NAMES:
                (epoch,) = connection.exec_driver_sql("SELECT epoch FROM caches WHERE name = ?", (name,)).one()
                gone = (
                    f"SELECT seq FROM {name}_use WHERE epoch <> ? UNION ALL SELECT seq FROM ("
                    f"SELECT seq, sum(size) OVER (ORDER BY used DESC, seq DESC) AS newer FROM {name}_use "
                    "WHERE epoch = ?) WHERE newer > ?"
                )
                chosen = (epoch, epoch, max_bytes)
                counted = "SELECT count(*), coalesce(sum(size), 0), coalesce(sum(epoch <> ?), 0)"
                count, size, old = connection.exec_driver_sql(
                    f"{counted} FROM {name}_use WHERE seq IN ({gone})", (epoch, *chosen)
                ).one()
                if count and not dry_run:
                    connection.exec_driver_sql(f"DELETE FROM {name} WHERE seq IN ({gone})", chosen)
                found.append(Shrunk(name=name, entries=count, bytes=size, outdated=old))
        if not dry_run:
            for cache in (self.llm, self.step, self.verify):
                cache.forget_ahead()
            self.file.run_alone("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)")
        return found

    def bump(self, names: Sequence[str], *, dry_run: bool = False) -> list[Bumped]:
        """Raise the epoch of the named caches.  Raises UsageError for a name that is none."""
        unknown = [name for name in names if name not in NAMES]
        if unknown:
            raise UsageError(f"there is no cache '{unknown[0]}'", hint=f"caches: {', '.join(NAMES)}")
        self.pending.flush()
        transaction = self.file.database.read if dry_run else self.file.database.write
        found = []
        with transaction() as connection:
            for name in names:
                (epoch,) = connection.exec_driver_sql("SELECT epoch FROM caches WHERE name = ?", (name,)).one()
                (count,) = connection.exec_driver_sql(
                    f"SELECT count(*) FROM {name}_use WHERE epoch = ?", (epoch,)
                ).one()
                if not dry_run:
                    raised = "UPDATE caches SET epoch = ? WHERE name = ?"
                    connection.exec_driver_sql(raised, (epoch + 1, name))
                found.append(Bumped(name=name, epoch=epoch + 1, outdated=count))
        if not dry_run:
            self.file.epochs |= {one.name: one.epoch for one in found}
        return found
