"""One SQL database: reads in a snapshot, writes one at a time, errors in the project's own tree.

A write transaction takes the write lock when it starts (`BEGIN IMMEDIATE`; on PostgreSQL an advisory lock), so it
never has to give up half-way because somebody else wrote first.  Waiting is SQLite's busy timeout.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, NoSuchModuleError

from harnesstrain.core.errors import Busy, HtError, Prerequisite, StoreCorrupt, UsageError
from harnesstrain.store import readonly

WAIT = 60.0
"""Seconds a transaction waits for the write lock."""

ADVISORY_KEY = 0x6874_7374_6F72
"""PostgreSQL advisory lock of the writers of one database."""

_WRITE = "ht_write"


class Database:
    """One database.  Safe to use from several threads; several processes may open the same one."""

    def __init__(
        self, engine: sa.Engine, label: str, *, mend: str | None = None, source: readonly.Readable | None = None
    ) -> None:
        """`mend`: the hint for a damaged one.  `source`: what is read where nothing can be written."""
        self.engine = engine
        self.label = label
        """How messages call it: a path, or a URL without its password."""
        self.writable = source is None
        self._mend = mend
        self._source = source
        self._queue = threading.Lock()

    @property
    def sqlite(self) -> bool:
        """Whether it is a file of this machine."""
        return self.engine.dialect.name == "sqlite"

    @property
    def still(self) -> bool:
        """Whether what others write meanwhile is not seen: a copy is read, or a file taken to be unchanging."""
        return self._source is not None and (self._source.copy is not None or "immutable" in self._source.mode)

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A transaction that sees one state of the database.  Raises HtError's tree only."""
        with self._translated(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that holds the write lock from the start; committed when the block ends without an error.

        Raises Busy (lock not had in time), Prerequisite (disk full, no permission), StoreCorrupt.
        """
        if not self.writable:
            raise readonly.read_only(self.label)
        with self._queue, self._translated(), self.engine.connect() as connection:
            connection = connection.execution_options(**{_WRITE: True})
            with connection.begin():
                if not self.sqlite:
                    connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_KEY})
                yield connection

    def now(self, connection: sa.Connection) -> float:
        """Seconds since 1970 by the clock that all writers of this database share."""
        if self.sqlite:
            return time.time()
        return float(connection.execute(sa.text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())

    def close(self) -> None:
        """Close every connection.  The last one to close a SQLite file folds its log back in."""
        self.engine.dispose()
        if self._source is not None and self._source.copy is not None:
            self._source.copy.cleanup()

    def error(self, error: Exception) -> HtError:
        """The project's error for one of the driver."""
        return translated(error, self.label, self._mend)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:
            raise self.error(error) from error


def sqlite_database(
    path: Path, *, synchronous: str = "FULL", mend: str | None = None, read_only: bool = False
) -> Database:
    """The SQLite file at `path`.  `synchronous=FULL` survives a power cut after each commit, `NORMAL` any kill.

    `mend`: the hint when it is damaged.  `read_only`: it refuses to be changed.  Where its folder cannot be written,
    it can be read.  Raises Prerequisite, Busy.
    """
    source = readonly.readable(path) if readonly.unwritable(path) else None
    url = sa.URL.create("sqlite", database=str(path))
    if source is not None:
        query = {**dict(parse_qsl(source.mode)), "uri": "true"}
        url = sa.URL.create("sqlite", database=source.file.absolute().as_uri(), query=query)
    engine = sa.create_engine(url, connect_args={"timeout": WAIT}, pool_size=8, max_overflow=-1)

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # SQLAlchemy's begin event below decides how transactions start
        for pragma in (f"busy_timeout={int(WAIT * 1000)}", f"synchronous={synchronous}", "temp_store=MEMORY"):
            connection.execute(f"PRAGMA {pragma}")
        if read_only:
            connection.execute("PRAGMA query_only=ON")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        writing = connection.get_execution_options().get(_WRITE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return Database(engine, str(path), mend=mend, source=source)


def use_wal(database: Database) -> None:
    """Put a SQLite file into write-ahead mode.  The mode stays with the file.

    The switch needs the file for itself and does not wait by itself, so it is tried until it succeeds.
    """
    deadline = time.monotonic() + WAIT
    while True:
        raw = None
        try:
            raw = database.engine.raw_connection()
            raw.cursor().execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if primary(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise database.error(error) from error
            time.sleep(0.02)
        except sqlite3.Error as error:
            raise database.error(error) from error
        finally:
            if raw is not None:
                raw.close()


def server_database(url: str, *, read_only: bool = False) -> Database:
    """A PostgreSQL database by URL.  Raises UsageError (bad URL) or Prerequisite (driver missing).

    `read_only`: it refuses to be changed.
    """
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError as error:
        raise UsageError("store URL is malformed", hint="postgresql+psycopg://user@host/database") from error
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername != "postgresql+psycopg":
        hint = "use a directory, or postgresql+psycopg://user@host/database"
        raise UsageError(f"no store on '{parsed.drivername}'", hint=hint)
    try:
        options = {"postgresql_readonly": True} if read_only else {}
        engine = sa.create_engine(parsed, pool_pre_ping=True, pool_size=8, max_overflow=-1, execution_options=options)
    except (ImportError, NoSuchModuleError) as error:
        hint = "pip install 'harnesstrain[postgres]'"
        raise Prerequisite("PostgreSQL needs a driver that is not installed", hint=hint) from error
    return Database(engine, parsed.render_as_string(hide_password=True))


def primary(error: BaseException) -> int:
    """SQLite's primary result code of an error, 0 when it has none."""
    code = getattr(error, "sqlite_errorcode", None)
    return int(code) & 0xFF if code is not None else 0


def translated(error: Exception, label: str, mend: str | None = None) -> HtError:
    """The project's error for a database driver's.  `mend`: the hint when the file is damaged."""
    cause: BaseException = error
    if isinstance(error, DBAPIError) and error.orig is not None:
        cause = error.orig
    said = str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
    code = primary(cause)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Busy(f"{label} is locked by another process", hint="wait for it to finish, then run this again")
    if code == sqlite3.SQLITE_FULL:
        return disk_full(label)
    if code == sqlite3.SQLITE_IOERR:
        hint = "check the disk's free space and health; what was committed is kept"
        return Prerequisite(f"cannot read or write {label}: {said}", hint=hint)
    if code == sqlite3.SQLITE_READONLY:
        return readonly.read_only(label)
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        hint = "check that the folder exists and is writable"
        return Prerequisite(f"cannot open {label}: {said}", hint=hint)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        hint = mend or "restore its newest copy (`*.bak` beside it, or your backup)"
        return StoreCorrupt(f"{label}: {said}", hint=hint)
    if code or isinstance(cause, sqlite3.Error):
        return StoreCorrupt(f"{label}: {said}", hint=mend or "`ht fsck` says what is damaged")
    if isinstance(error, DBAPIError) and (error.connection_invalidated or type(cause).__name__ == "OperationalError"):
        return Prerequisite(f"cannot reach {label}: {said}", hint="check that the database server answers")
    return StoreCorrupt(f"{label}: {said}", hint="`ht db check` says whether its schema fits")


def disk_full(label: str) -> Prerequisite:
    """The one error for a full disk, wherever it shows."""
    hint = "free some space and run the same command again; what was committed is kept"
    return Prerequisite(f"disk full: cannot write {label}", hint=hint)
