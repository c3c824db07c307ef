"""cache.db: recordings that can be made again.  Deleting the file loses time, never a record.

Three caches of one shape.  A cache's entries lie in a table of its name; a narrow table beside it, kept by triggers,
says how large an entry is and when it was used last, so that counting and ageing never touch the values.  Every entry
belongs to an epoch; raising a cache's epoch puts all older entries out of reach.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from harnesstrain.core.errors import HtError, Prerequisite, StoreCorrupt
from harnesstrain.store.engine import Database, sqlite_database, use_wal

log = logging.getLogger(__name__)

LAYOUT = 2
"""`PRAGMA user_version` of cache.db.  A file of another layout is emptied: its content can be made again."""

NAMES = ("llm", "step", "verify")
"""The caches, in the order in which they are listed."""

_FRESH = "PRAGMA page_size=8192; PRAGMA auto_vacuum=INCREMENTAL"
_ALL = """
CREATE TABLE caches (name TEXT PRIMARY KEY, epoch INTEGER NOT NULL,
    hits INTEGER NOT NULL, misses INTEGER NOT NULL, broken INTEGER NOT NULL)
"""
_EACH = (
    """
    CREATE TABLE {0} (seq INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, key BLOB NOT NULL,
        seal BLOB NOT NULL, value BLOB NOT NULL, UNIQUE (epoch, key))
    """,
    "CREATE TABLE {0}_use (seq INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, size INTEGER NOT NULL, used REAL NOT NULL)",
    """
    CREATE TRIGGER {0}_added AFTER INSERT ON {0} BEGIN
        INSERT OR REPLACE INTO {0}_use
        VALUES (NEW.seq, NEW.epoch, length(NEW.value), (julianday('now') - 2440587.5) * 86400.0);
    END
    """,
    "CREATE TRIGGER {0}_removed AFTER DELETE ON {0} BEGIN DELETE FROM {0}_use WHERE seq = OLD.seq; END",
    "INSERT INTO caches VALUES ('{0}', 1, 0, 0, 0)",
)


T = TypeVar("T")

_first, _every = sqlite3.Cursor.fetchone, sqlite3.Cursor.fetchall


class CacheFile:
    """An open cache.db.  Thread-safe; processes may share it."""

    def __init__(self, path: Path) -> None:
        """Open or create it.  Raises StoreCorrupt (not a database) or Prerequisite (no permission, disk full)."""
        mend = f"delete {path}: what it holds can be made again"
        self.database = sqlite_database(path, synchronous="NORMAL", mend=mend)
        self._idle: deque[_Reader] = deque()
        self._open = True
        self._said = False
        try:
            _prepare(self.database, path)
            self.epochs = _epochs(self.database)
            """Of each cache, as this process goes by it."""
        except HtError:
            self.close()
            raise

    def look_up(self, statement: str, values: tuple[Any, ...]) -> Any:
        """The first row of a query by a key, None when there is none.  Raises HtError."""
        return self._asked(statement, values, _first)

    def look_through(self, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Every row of a query.  Raises HtError."""
        return self._asked(statement, values, _every)

    def _asked(self, statement: str, values: tuple[Any, ...], fetch: Callable[[sqlite3.Cursor], T]) -> T:
        """Connections are kept with their prepared statements and used by one thread at a time."""
        try:
            reader = self._idle.pop()
        except IndexError:
            reader = self._connected()
        try:
            found = fetch(reader.execute(statement, values))
        except sqlite3.Error as error:
            reader.close()
            raise self.database.error(error) from error
        self._idle.append(reader)
        if not self._open:
            self._drop_readers()
        return found

    def run_alone(self, pragmas: str) -> None:
        """Run pragmas outside a transaction.  Raises HtError."""
        _run_alone(self.database, pragmas)

    def warn(self, what: str, error: HtError) -> None:
        """Say that the caches do not work, once; work goes on without them."""
        if not self._said:
            self._said = True
            log.warning("the cache %s, going on without it: %s", what, error.message)

    def close(self) -> None:
        """Let go of the file.  A look-up after this raises Prerequisite."""
        self._open = False
        self._drop_readers()
        self.database.close()

    def _connected(self) -> _Reader:
        if not self._open:
            raise Prerequisite(f"{self.database.label} is closed", hint="open the store again")
        try:
            return _Reader(self.database)
        except (sa.exc.DBAPIError, sqlite3.Error) as error:
            raise self.database.error(error) from error

    def _drop_readers(self) -> None:
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:
                return


class _Reader:
    """One connection for look-ups: the driver's own, which keeps its statements prepared."""

    def __init__(self, database: Database) -> None:
        self._lent = database.engine.raw_connection()
        driver: Any = self._lent.driver_connection
        self.execute = driver.execute

    def close(self) -> None:
        """Give the connection back."""
        self._lent.close()


def _prepare(database: Database, path: Path) -> None:
    if not path.exists():
        _run_alone(database, _FRESH)
    if database.writable:
        use_wal(database)
    with database.read() as connection:
        current = _layout(connection) == LAYOUT
    if not current:
        with database.write() as connection:
            if _layout(connection) != LAYOUT:
                _rebuild(connection)


def _epochs(database: Database) -> dict[str, int]:
    with database.read() as connection:
        rows = connection.exec_driver_sql("SELECT name, epoch FROM caches").all()
    found = {row.name: row.epoch for row in rows}
    if not all(isinstance(found.get(name), int) for name in NAMES):
        raise StoreCorrupt(f"{database.label} does not know its caches", hint=f"delete {database.label}")
    return found


def _layout(connection: sa.Connection) -> int:
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())


def _rebuild(connection: sa.Connection) -> None:
    for name in sa.inspect(connection).get_table_names():
        connection.exec_driver_sql(f'DROP TABLE "{name}"')
    connection.exec_driver_sql(_ALL)
    for name in NAMES:
        for statement in _EACH:
            connection.exec_driver_sql(statement.format(name))
    connection.exec_driver_sql(f"PRAGMA user_version={LAYOUT}")


def _run_alone(database: Database, pragmas: str) -> None:
    """As a script: `incremental_vacuum` has to be stepped to its end."""
    raw: Any = database.engine.raw_connection()
    try:
        raw.executescript(pragmas)
    except sqlite3.Error as error:
        raise database.error(error) from error
    finally:
        raw.close()
