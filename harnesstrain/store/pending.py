"""What the caches have not written yet: new entries, counts, times of use.  One transaction takes all of it.

A put costs a dict entry; the file sees it a moment later, together with its neighbours.  Until then a look-up of this
process finds it here.  A kill loses what waits, and it can be made again.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import NamedTuple

import sqlalchemy as sa

from harnesstrain.core.errors import HtError
from harnesstrain.store.cachefile import NAMES, CacheFile

DELAY = 0.2
"""Seconds that a new entry waits for others, at most."""

ENTRIES = 512
"""New entries that may wait."""

BYTES = 8_000_000
"""Bytes of new entries that may wait."""

FLUSH = 2048
"""Look-ups between two writes of the statistics."""


class Slot(NamedTuple):
    """Where an entry belongs."""

    cache: str
    epoch: int
    key: bytes


class Sealed(NamedTuple):
    """An entry as it is stored."""

    seal: bytes
    value: bytes


class Pending:
    """Everything that waits to be written to one file.  Thread-safe."""

    def __init__(self, file: CacheFile) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._entries: dict[Slot, Sealed] = {}
        self._bytes = 0
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in NAMES}
        self._used: dict[str, set[int]] = {name: set() for name in NAMES}
        self._looked = 0
        self._timer: threading.Timer | None = None
        self._open = True

    def find(self, slot: Slot) -> Sealed | None:
        """A new entry that is not in the file yet."""
        return self._entries.get(slot)

    def add(self, slot: Slot, sealed: Sealed) -> None:
        """Let a new entry wait.  The first one of a slot stays."""
        with self._lock:
            if slot in self._entries or not self._open:
                return
            self._entries[slot] = sealed
            self._bytes += len(sealed.value)
            full = len(self._entries) >= ENTRIES or self._bytes >= BYTES
            if not full and self._timer is None:
                full = not self._started()
        if full:
            self.flush()

    def drop(self, slot: Slot) -> None:
        """Forget a new entry."""
        with self._lock:
            self._remove(slot)

    def count(self, cache: str, what: str, used: int | None = None) -> None:
        """Count a look-up: `hits`, `misses` or `broken`.  `used`: the entry that answered it."""
        with self._lock:
            self._counts[cache][what] += 1
            if used is not None:
                self._used[cache].add(used)
            self._looked += 1
            due = self._looked >= FLUSH
        if due:
            self.flush()

    def flush_entries(self) -> None:
        """Write what waits if there are new entries."""
        if self._entries:
            self.flush()

    def flush(self) -> None:
        """Write everything that waits.  A failure is said once; what could not be written is forgotten."""
        if self._open:
            self._write()

    def close(self) -> None:
        """Write everything, and leave no timer behind.  What is added later is forgotten."""
        with self._lock:
            self._open = False
            timer = self._timer
        self._write()
        if timer is not None and timer is not threading.current_thread():
            timer.join()

    def _write(self) -> None:
        with self._writing:
            with self._lock:
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
                entries = dict(self._entries)
                counts, self._counts = self._counts, {name: Counter() for name in NAMES}
                used, self._used = self._used, {name: set() for name in NAMES}
                self._looked = 0
            try:
                if entries or any(counts.values()):
                    with self._file.database.write() as connection:
                        _write_entries(connection, entries)
                        _write_counts(connection, counts, used)
            except HtError as error:
                self._file.warn("cannot be written", error)
            with self._lock:
                for slot, sealed in entries.items():
                    if self._entries.get(slot) is sealed:
                        self._remove(slot)

    def _started(self) -> bool:
        """Start the clock of the oldest entry; False when no thread can be had."""
        timer = threading.Timer(DELAY, self.flush)
        timer.daemon = True
        timer.name = "ht-cache-writer"
        try:
            timer.start()
        except RuntimeError:
            return False
        self._timer = timer
        return True

    def _remove(self, slot: Slot) -> None:
        sealed = self._entries.pop(slot, None)
        if sealed is not None:
            self._bytes -= len(sealed.value)


def _write_entries(connection: sa.Connection, entries: dict[Slot, Sealed]) -> None:
    rows: dict[str, list[tuple[int, bytes, bytes, bytes]]] = {}
    for slot, sealed in entries.items():
        rows.setdefault(slot.cache, []).append((slot.epoch, slot.key, sealed.seal, sealed.value))
    for cache, added in rows.items():
        statement = f"INSERT OR IGNORE INTO {cache} (epoch, key, seal, value) VALUES (?, ?, ?, ?)"
        connection.exec_driver_sql(statement, added)


def _write_counts(connection: sa.Connection, counts: dict[str, Counter[str]], used: dict[str, set[int]]) -> None:
    now = time.time()
    for cache, found in counts.items():
        if found:
            statement = "UPDATE caches SET hits = hits + ?, misses = misses + ?, broken = broken + ? WHERE name = ?"
            connection.exec_driver_sql(statement, (found["hits"], found["misses"], found["broken"], cache))
        if used[cache]:
            touched = [(now, seq) for seq in sorted(used[cache])]
            connection.exec_driver_sql(f"UPDATE {cache}_use SET used = ? WHERE seq = ?", touched)
