"""Rollouts of a run: the hash chain, completion, and a run in numbers.

Every rollout row holds the digest of the row before it in the same run.  The first link starts from the run's id, so
a row cannot be dropped, changed or moved to another run without the chain showing it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from harnesstrain.core.digests import roll
from harnesstrain.core.errors import NotFound, StoreCorrupt
from harnesstrain.core.ids import short
from harnesstrain.core.records.rollout import Rollout
from harnesstrain.core.records.run import Run
from harnesstrain.core.records.task import Panel
from harnesstrain.store import records, schema
from harnesstrain.store.base import CompletedRun, RunSummary
from harnesstrain.store.engine import Database
from harnesstrain.store.kinds import PANEL, ROLLOUT, RUN
from harnesstrain.store.payloads import encode, fields_of, payload_digest

_rollouts = schema.rollouts
_completions = schema.completions


@dataclass(frozen=True)
class RunState:
    """A run at one moment."""

    rollouts: list[Rollout]
    """Every attempt, in order of commit."""
    head: str
    """Last link of the chain."""
    completed: CompletedRun | None
    """Newest completion, perhaps outdated."""

    @property
    def complete(self) -> bool:
        """Whether nothing was committed since the completion."""
        return self.completed is not None and self.completed.head == self.head

    @property
    def file(self) -> str | None:
        """The run's trace file, relative to the trace folder."""
        return self.completed.file if self.completed is not None else None


def link(previous: str, digest: str) -> str:
    """One link of a run's chain: H(previous link, digest of the row's payload)."""
    return roll(previous, digest)


def commit(database: Database, rollout: Rollout) -> Rollout:
    """Append a rollout to its run's chain.  The first commit of an id counts and is returned.

    Raises NotFound (unknown run), StoreCorrupt (another measurement under the same id).
    """
    with database.write() as connection:
        found = connection.execute(sa.select(schema.runs.c.seq).where(schema.runs.c.id == rollout.run).limit(1))
        if found.one_or_none() is None:
            raise NotFound(f"no run '{short(rollout.run)}' to commit a rollout to", hint="put the run first")
        query = sa.select(_rollouts.c.id, _rollouts.c.digest, _rollouts.c.payload)
        row = connection.execute(query.where(_rollouts.c.id == rollout.id)).one_or_none()
        if row is not None:
            committed = records.build(ROLLOUT, row)
            assert isinstance(committed, Rollout)
            _same_measurement(committed, rollout)
            return committed
        previous = chain_head(connection, rollout.run)
        digest = payload_digest(encode(fields_of(rollout)))
        extra = {"previous": previous, "chain": link(previous, digest)}
        records.append(database, connection, ROLLOUT, rollout, extra)
    return rollout


def of_run(database: Database, run: str) -> list[Rollout]:
    """Every committed attempt of a run, in order of commit."""
    with database.read() as connection:
        return _of_run(connection, run)


def _of_run(connection: sa.Connection, run: str) -> list[Rollout]:
    query = sa.select(_rollouts.c.id, _rollouts.c.digest, _rollouts.c.payload)
    rows = connection.execute(query.where(_rollouts.c.run == run).order_by(_rollouts.c.seq)).all()
    found = [records.build(ROLLOUT, row) for row in rows]
    return [rollout for rollout in found if isinstance(rollout, Rollout)]


def chain_head(connection: sa.Connection, run: str) -> str:
    """The last link of a run's chain; the run's id when it has no rollout yet."""
    query = sa.select(_rollouts.c.chain).where(_rollouts.c.run == run).order_by(_rollouts.c.seq.desc()).limit(1)
    return str(connection.execute(query).scalar() or run)


def state(database: Database, run: str) -> RunState:
    """A run's attempts, chain head and newest completion, all of one moment."""
    with database.read() as connection:
        return RunState(_of_run(connection, run), chain_head(connection, run), completed(connection, run))


def file_of(database: Database, run: str) -> str | None:
    """A run's trace file, relative to the trace folder; None before its first completion."""
    with database.read() as connection:
        found = completed(connection, run)
    return found.file if found is not None else None


def completed(connection: sa.Connection, run: str) -> CompletedRun | None:
    """The newest completion of a run, or None."""
    query = sa.select(_completions).where(_completions.c.run == run).order_by(_completions.c.seq.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    return CompletedRun(
        run=row.run,
        rollouts=row.rollouts,
        head=row.head,
        file=row.file,
        file_digest=row.file_digest,
        bytes=row.bytes,
    )


def is_complete(database: Database, run: str) -> bool:
    """Whether the run was completed and nothing was committed to it since."""
    with database.read() as connection:
        last = completed(connection, run)
        return last is not None and last.head == chain_head(connection, run)


def complete(database: Database, completion: CompletedRun) -> bool:
    """Record a completion.  False, and nothing recorded, when a rollout was committed in the meantime."""
    with database.write() as connection:
        if chain_head(connection, completion.run) != completion.head:
            return False
        values: dict[str, Any] = completion.model_dump()
        connection.execute(_completions.insert(), {**values, "at": database.now(connection)})
        return True


def summaries(database: Database) -> list[RunSummary]:
    """Every run in numbers, oldest first.  A few queries, whatever the number of rollouts; no trace is opened."""
    r = _rollouts
    attempts = (
        sa.select(
            r.c.run,
            r.c.solved,
            r.c.scorable,
            r.c.llm_calls,
            r.c.actions,
            r.c.tokens,
            r.c.recorded_time,
            sa.func.row_number()
            .over(partition_by=(r.c.run, r.c.task, r.c.seed), order_by=(r.c.attempt.desc(), r.c.seq.desc()))
            .label("age"),
        )
    ).subquery()
    last = sa.case((attempts.c.age == 1, 1), else_=0)
    counted = sa.select(
        attempts.c.run,
        sa.func.sum(last).label("cells"),
        sa.func.sum(last * attempts.c.solved).label("solved"),
        sa.func.sum(last * attempts.c.scorable).label("scorable"),
        sa.func.count().label("attempts"),
        sa.func.sum(last * attempts.c.llm_calls).label("llm_calls"),
        sa.func.sum(last * attempts.c.actions).label("actions"),
        sa.func.sum(last * attempts.c.tokens).label("tokens"),
        sa.func.sum(last * attempts.c.recorded_time).label("recorded_time"),
    ).group_by(attempts.c.run)
    done = sa.select(_completions.c.run, _completions.c.rollouts).order_by(_completions.c.seq)
    t = schema.runs
    with database.read() as connection:
        counts = {row.run: row for row in connection.execute(counted)}
        completions = {row.run: row.rollouts for row in connection.execute(done)}
        rows = connection.execute(sa.select(t.c.id, t.c.at, t.c.digest, t.c.payload).order_by(t.c.seq)).all()
        first = {row.id: row.at for row in reversed(rows)}
        newest = [records.build(RUN, row) for row in {row.id: row for row in rows}.values()]
        known = [run for run in newest if isinstance(run, Run)]
        panels = _panels(connection, {run.panel for run in known if run.early_stop_against is not None})
    return [
        _summary(run, first[run.id], counts.get(run.id), completions.get(run.id), _cells(run, panels)) for run in known
    ]


def _panels(connection: sa.Connection, wanted: Collection[str]) -> dict[str, Panel]:
    """Panels by digest."""
    p = schema.panels
    query = sa.select(p.c.id, p.c.digest, p.c.payload).where(p.c.id.in_(wanted)).order_by(p.c.seq)
    found = [records.build(PANEL, row) for row in connection.execute(query)] if wanted else []
    return {panel.digest: panel for panel in found if isinstance(panel, Panel)}


def _cells(run: Run, panels: Mapping[str, Panel]) -> int:
    """Cells, measured or not, of a run that stopped early; else 0."""
    early = run.early_stop_against is not None and run.panel in panels
    return len(panels[run.panel].tasks) * len(run.seeds) if early else 0


def _summary(run: Run, at: float, count: Any | None, completed_rollouts: int | None, cells: int) -> RunSummary:
    names = ("cells", "solved", "scorable", "attempts", "llm_calls", "actions", "tokens")
    numbers = {name: int(getattr(count, name)) if count is not None else 0 for name in names}
    return RunSummary(
        run=run.id,
        commit=run.commit,
        panel=run.panel,
        panel_name=run.panel_name,
        regime=run.regime,
        split=run.split,
        seeds=run.seeds,
        at=at,
        complete=completed_rollouts is not None and completed_rollouts == numbers["attempts"],
        recorded_time=float(count.recorded_time) if count is not None else 0.0,
        not_needed=max(0, cells - numbers["cells"]),
        **numbers,
    )


def _same_measurement(committed: Rollout, again: Rollout) -> None:
    same_cell = (committed.run, committed.task, committed.seed) == (again.run, again.task, again.seed)
    if not same_cell or committed.measurement != again.measurement:
        raise StoreCorrupt(
            f"two measurements claim rollout '{short(again.id)}': {committed.outcome}, then {again.outcome}",
            hint="`ht fsck` checks the store; `ht certify model` checks the endpoint",
        )
