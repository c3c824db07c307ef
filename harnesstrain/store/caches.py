"""cache.db: recordings that can be made again.  Deleting the file loses time, never a record.

Every entry carries a digest over its key and value.  An entry that fails it is a miss and is removed: a cache may
forget, it never answers wrongly.  One table per cache, all of one shape.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import zstandard
from pydantic import ValidationError
from sqlalchemy.dialects.sqlite import insert

from harnesstrain.core.errors import HtError, StoreCorrupt
from harnesstrain.core.records.llm import Reply
from harnesstrain.store.base import CacheStats
from harnesstrain.store.engine import Database, sqlite_database, translated, use_wal

log = logging.getLogger(__name__)

LAYOUT = 1
"""`PRAGMA user_version` of cache.db.  A file of another layout is emptied: its content can be made again."""

FLUSH = 256
"""Look-ups between two writes of the statistics."""

metadata = sa.MetaData()


def _cache_table(name: str) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("key", sa.String(64), nullable=False, unique=True),
        sa.Column("used", sa.Double, nullable=False, index=True),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("seal", sa.LargeBinary(16), nullable=False),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )


LLM = _cache_table("llm")

COUNTS = sa.Table(
    "counts",
    metadata,
    sa.Column("cache", sa.String(16), primary_key=True),
    sa.Column("hits", sa.Integer, nullable=False),
    sa.Column("misses", sa.Integer, nullable=False),
    sa.Column("broken", sa.Integer, nullable=False),
)


def open_cache(path: Path) -> Database:
    """Open or create cache.db.  Raises StoreCorrupt (not a database) or Prerequisite (no permission, disk full)."""
    database = sqlite_database(path, synchronous="NORMAL")
    try:
        if not path.exists():
            _run_alone(database, "PRAGMA auto_vacuum=INCREMENTAL")
        use_wal(database)
        with database.read() as connection:
            current = _layout(connection) == LAYOUT
        if not current:
            with database.write() as connection:
                if _layout(connection) != LAYOUT:
                    _rebuild(connection)
    except StoreCorrupt as error:
        database.close()
        raise StoreCorrupt(error.message, hint=f"delete {path}: what it holds can be made again") from error
    except HtError:
        database.close()
        raise
    return database


class Cache:
    """One cache: bytes by key.  Thread-safe.  Look-ups fail open; a write that fails is said once, then forgotten."""

    def __init__(self, database: Database, table: sa.Table) -> None:
        self._database = database
        self._table = table
        self._select = sa.select(table.c.seal, table.c.value).where(table.c.key == sa.bindparam("wanted"))
        self._insert = insert(table).on_conflict_do_nothing(index_elements=["key"])
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._used: set[str] = set()
        self._said = False

    def get(self, key: str) -> bytes | None:
        """The value recorded for `key`, or None."""
        try:
            with self._database.read() as connection:
                row = connection.execute(self._select, {"wanted": key}).one_or_none()
        except HtError as error:
            self._warn("cannot be read", error)
            row = None
        if row is None:
            self._count("misses", key)
            return None
        if row.seal != _seal(key, row.value):
            self.forget(key)
            return None
        try:
            value: bytes = zstandard.ZstdDecompressor().decompress(row.value)
        except zstandard.ZstdError:
            self.forget(key)
            return None
        self._count("hits", key)
        return value

    def put(self, key: str, value: bytes) -> None:
        """Record a value.  The first one of a key stays."""
        packed = zstandard.ZstdCompressor(level=3).compress(value)
        row = {"key": key, "used": time.time(), "size": len(packed), "seal": _seal(key, packed), "value": packed}
        try:
            with self._database.write() as connection:
                connection.execute(self._insert, row)
        except HtError as error:
            self._warn("cannot be written", error)

    def forget(self, key: str) -> None:
        """Remove an entry that cannot be read back, and count it as broken and as a miss."""
        self._count("broken", key)
        self._count("misses", key)
        try:
            with self._database.write() as connection:
                connection.execute(self._table.delete().where(self._table.c.key == key))
        except HtError as error:
            self._warn("cannot be written", error)

    def flush(self) -> None:
        """Write statistics and times of use."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
            used, self._used = self._used, set()
        if not counts and not used:
            return
        values = {name: counts[name] for name in ("hits", "misses", "broken")}
        added = {name: COUNTS.c[name] + number for name, number in values.items()}
        first = insert(COUNTS).values(cache=self._table.name, **values)
        touch = self._table.update().where(self._table.c.key == sa.bindparam("wanted")).values(used=time.time())
        try:
            with self._database.write() as connection:
                connection.execute(first.on_conflict_do_update(index_elements=["cache"], set_=added))
                if used:
                    connection.execute(touch, [{"wanted": key} for key in used])
        except HtError as error:
            self._warn("cannot be written", error)

    def stats(self) -> CacheStats:
        """What it holds and how it did, other processes included.  Raises StoreCorrupt."""
        self.flush()
        held = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(self._table.c.size), 0))
        with self._database.read() as connection:
            entries, size = connection.execute(held.select_from(self._table)).one()
            row = connection.execute(sa.select(COUNTS).where(COUNTS.c.cache == self._table.name)).one_or_none()
        counts = {} if row is None else {"hits": row.hits, "misses": row.misses, "broken": row.broken}
        return CacheStats(name=self._table.name, entries=entries, bytes=size, **counts)

    def shrink(self, max_bytes: int) -> int:
        """Remove the least recently used entries until the values fit `max_bytes`.  Returns how many went."""
        self.flush()
        table = self._table
        newer = sa.func.sum(table.c.size).over(order_by=(table.c.used.desc(), table.c.seq.desc())).label("newer")
        ranked = sa.select(table.c.seq, newer).subquery()
        with self._database.write() as connection:
            gone = sa.select(ranked.c.seq).where(ranked.c.newer > max_bytes)
            removed = connection.execute(table.delete().where(table.c.seq.in_(gone))).rowcount
        _run_alone(self._database, "PRAGMA incremental_vacuum")
        _run_alone(self._database, "PRAGMA wal_checkpoint(TRUNCATE)")
        return removed

    def _count(self, what: str, key: str) -> None:
        with self._lock:
            self._counts[what] += 1
            if what == "hits":
                self._used.add(key)
            due = self._counts["hits"] + self._counts["misses"] >= FLUSH
        if due:
            self.flush()

    def _warn(self, what: str, error: HtError) -> None:
        if not self._said:
            self._said = True
            log.warning("the %s cache %s, going on without it: %s", self._table.name, what, error.message)


class StoredLlmCache:
    """The llm cache: complete replies by request key (64 hex).  Implements `core.ports.LlmCache`."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def get(self, key: str) -> Reply | None:
        """The recorded reply, or None.  Never raises for a damaged entry."""
        value = self._cache.get(key)
        if value is None:
            return None
        try:
            return Reply.model_validate_json(value)
        except ValidationError:  # recorded by another version
            self._cache.forget(key)
            return None

    def put(self, key: str, reply: Reply) -> None:
        """Record a live reply.  The first writer of a key wins."""
        self._cache.put(key, reply.model_dump_json().encode("utf-8"))


def _seal(key: str, value: bytes) -> bytes:
    return hashlib.sha256(key.encode("utf-8") + b"\n" + value).digest()[:16]


def _layout(connection: sa.Connection) -> int:
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())


def _rebuild(connection: sa.Connection) -> None:
    for name in sa.inspect(connection).get_table_names():
        connection.exec_driver_sql(f'DROP TABLE "{name}"')
    metadata.create_all(connection, checkfirst=False)
    connection.exec_driver_sql(f"PRAGMA user_version={LAYOUT}")


def _run_alone(database: Database, pragma: str) -> None:
    """Run a pragma outside a transaction.  As a script: `incremental_vacuum` has to be stepped to its end."""
    raw: Any = database.engine.raw_connection()
    try:
        raw.executescript(pragma)
    except sqlite3.Error as error:
        raise translated(error, database.label) from error
    finally:
        raw.close()
