"""What was committed since the last look, for somebody who looks on while another process writes.

One look is one read transaction of a few indexed queries: each asks only for rows after the last one seen.  It takes no
lock that a writer waits for, and it never writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from harnesstrain.store import leases, schema
from harnesstrain.store.base import Entry, News
from harnesstrain.store.engine import Database
from harnesstrain.store.kinds import KINDS, ROLLOUT, Kind
from harnesstrain.store.records import loads

PAST = 5
"""Earlier runs from which durations are taken: the newest."""


class Feed:
    """Remembers how far it has read.  One thread uses it."""

    def __init__(self, database: Database, kinds: Sequence[str]) -> None:
        """`kinds`: the records to be told of."""
        self._database = database
        self._kinds = [KINDS[name] for name in kinds]
        self._seen: dict[str, int] = {}

    def look(self) -> News:
        """Everything new since the last look, oldest first; at the first look, everything.  Raises StoreCorrupt."""
        found: list[Entry] = []
        done = schema.completions
        with self._database.read() as connection:
            now = self._database.now(connection)
            for kind in self._kinds:
                table = kind.table
                columns = (table.c.seq, table.c.id, table.c.at, table.c.digest, table.c.payload)
                rows = sa.select(*columns).where(table.c.seq > self._seen.get(kind.name, 0)).order_by(table.c.seq)
                found += [_entry(kind, row) for row in connection.execute(rows)]
            last = self._seen.get(done.name, 0)
            ended = connection.execute(
                sa.select(done.c.seq, done.c.run, done.c.rollouts).where(done.c.seq > last)
            ).all()
            held = leases.held(self._database, connection)
        for entry in found:
            self._seen[entry.kind] = entry.seq
        self._seen[done.name] = max([last, *(row.seq for row in ended)])
        completed = {row.run: row.rollouts for row in ended}
        return News(now=now, entries=tuple(found), completed=completed, holders=tuple(held))

    def attempts(self, run: str, after: int) -> tuple[Entry, ...]:
        """The rollouts of `run` that were committed after row `after`, oldest first.  Raises StoreCorrupt."""
        r = schema.rollouts
        query = sa.select(r.c.seq, r.c.id, r.c.at, r.c.digest, r.c.payload).where(r.c.run == run, r.c.seq > after)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(r.c.seq)).all()
        return tuple(_entry(ROLLOUT, row) for row in rows)

    def spans(self, run: str, panel: str) -> dict[str, float]:
        """Mean recorded seconds by task in the newest other runs of a panel."""
        r, t = schema.rollouts, schema.runs
        others = sa.select(t.c.id).where(t.c.panel == panel, t.c.id != run).order_by(t.c.seq.desc()).limit(PAST)
        query = sa.select(r.c.task, sa.func.avg(r.c.recorded_time)).where(r.c.run.in_(others.scalar_subquery()))
        with self._database.read() as connection:
            return {task: float(mean) for task, mean in connection.execute(query.group_by(r.c.task))}

    def certificates(self, run: str) -> int:
        """How many cells of a run have a certificate, of the environment or of the harness."""
        c = schema.certificates
        query = sa.select(sa.func.count(sa.distinct(c.c.id))).where(c.c.run == run)
        with self._database.read() as connection:
            return int(connection.execute(query).scalar_one())


def _entry(kind: Kind, row: Any) -> Entry:
    fields = loads(kind, row.id, row.payload, row.digest)
    return Entry(kind=kind.name, id=row.id, seq=row.seq, at=row.at, record=fields)
