"""Records of one kind as this process has read them: a further reading reads only the rows added since.

Rows are appended and never changed, and writers take turns, so numbers rise in the order of commits: what lies behind
the last number that was read is all that is new, whichever process wrote it.
"""

from __future__ import annotations

import threading

import sqlalchemy as sa

from harnesstrain.core.records.base import Record
from harnesstrain.store.engine import Database
from harnesstrain.store.kinds import Kind
from harnesstrain.store.records import build


class Known:
    """Every record of a kind.  Thread-safe."""

    def __init__(self, database: Database, kind: Kind) -> None:
        self._database = database
        self._kind = kind
        table = kind.table
        self._query = (
            sa.select(table.c.seq, table.c.id, table.c.digest, table.c.payload)
            .where(table.c.seq > sa.bindparam("last"))
            .order_by(table.c.seq)
        )
        self._lock = threading.Lock()
        self._last = 0
        self._records: dict[str, Record] = {}

    def records(self) -> list[Record]:
        """The newest record of every id, in order of first commit.  Raises StoreCorrupt: nothing is skipped then."""
        with self._lock:
            with self._database.read() as connection:
                rows = connection.execute(self._query, {"last": self._last}).all()
            newest = {row.id: row for row in rows}
            self._records |= {identifier: build(self._kind, row) for identifier, row in newest.items()}
            self._last = rows[-1].seq if rows else self._last
            return list(self._records.values())
