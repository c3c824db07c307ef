"""Task by epoch: how every measured version did on every task, and which tasks move."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harnesstrain.core.ids import short
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.certificate import Certificate, Certified
from harnesstrain.core.records.rollout import Outcome, Rollout, latest_attempts
from harnesstrain.core.records.run import Run
from harnesstrain.judge.certification import Evidence
from harnesstrain.judge.comparison import mode
from harnesstrain.stages.report.pairing import tasks_of
from harnesstrain.stages.report.source import Records

SOLVED, PARTLY, FAILED, INFRA, FORKED, ABSENT = "solved", "partly", "failed", "infra", "forked", "absent"
"""What a place of the matrix says.  `partly`: some seeds; `absent`: not measured, or not needed any more."""
GLYPHS = {SOLVED: "●", PARTLY: "◐", FAILED: "·", INFRA: "!", FORKED: "⊘", ABSENT: " "}
MEANING = {
    SOLVED: "solved",
    PARTLY: "solved for some seeds",
    FAILED: "not solved",
    INFRA: "infrastructure failed: not a measurement",
    FORKED: "not reproducible: left out of verdicts",
    ABSENT: "not measured",
}
BASELINE = "first"
"""Name of the column of the first baseline."""

Cells = dict[str, list[Rollout]]
"""The newest attempts of a run by task, in order of seeds."""


class Place(Record):
    """One version on one task."""

    state: str
    said: str = ""
    """The outcome of each seed, in words."""
    rollout: str | None = None
    """Id of the first seed's newest attempt."""
    moved: str = ""
    """gained or lost, against the baseline of that epoch."""


class Column(Record):
    """One measured version."""

    name: str
    """`first`, `e7`, or the commit of a version that no epoch measured here."""
    state: str = ""
    """Of the epoch; empty for the first baseline."""
    commit: str
    run: str
    solved: int
    cells: int


class Row(Record):
    """One task over all versions."""

    task: str
    changes: int
    """How often its state differs from one column to the next, of those where it was measured."""
    places: tuple[Place, ...]
    """One per column."""


class Matrix(Record):
    """Every version measured on the reported panel and regime, oldest first; tasks that move most come first."""

    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()
    never: int = 0
    """Tasks that no version solved."""
    always: int = 0
    """Tasks that every version solved that was measured on them."""


class _Measured(Record):
    column: Column
    run: Run
    before: Run | None
    """The baseline it was compared with."""


def matrix(records: Records, base: Run, cand: Run | None, certificates: Sequence[Certificate]) -> Matrix:
    """The matrix of the panel, split, seeds and regime of `base`: its epochs, and the two runs if they are of none."""
    shown = _shown(records, base, cand)
    runs = {run.id: run for one in shown for run in (one.run, one.before) if run is not None}
    cells = {run: _by_task(records.rollouts(run)) for run in runs}
    evidence = Evidence(base.regime, certificates)
    rows = [_row(task, shown, cells, evidence) for task in tasks_of(records, base)]
    return Matrix(
        columns=tuple(one.column for one in shown),
        rows=tuple(sorted(rows, key=lambda row: (-row.changes, -_solves(row)))),
        never=sum(not any(place.state in (SOLVED, PARTLY) for place in row.places) for row in rows),
        always=sum(_always(row) for row in rows),
    )


def _shown(records: Records, base: Run, cand: Run | None) -> list[_Measured]:
    alike = {
        run.id: run
        for run in records.runs()
        if (run.panel, run.split, run.regime, run.seeds) == (base.panel, base.split, base.regime, base.seeds)
    }
    numbers = {one.run: one for one in records.summaries() if one.run in alike}
    shown: list[_Measured] = []

    def show(name: str, state: str, run: Run, before: Run | None) -> None:
        one = numbers.get(run.id)
        solved, scorable = (one.solved, one.scorable) if one else (0, 0)
        column = Column(name=name, state=state, commit=run.commit, run=run.id, solved=solved, cells=scorable)
        shown.append(_Measured(column=column, run=run, before=before))

    for epoch in sorted(records.epochs(), key=lambda one: one.number):
        before, after = alike.get(epoch.base_run or ""), alike.get(epoch.cand_run or "")
        if before is not None and not shown:
            show(BASELINE, "", before, None)
        if after is not None:
            show(f"e{epoch.number}", epoch.state, after, before)
    have = {one.run.id for one in shown}
    if base.id not in have:
        show(short(base.commit), "", base, None)
    if cand is not None and cand.id in alike and cand.id not in have:
        show(short(cand.commit), "", cand, base)
    return shown


def _row(task: str, shown: Sequence[_Measured], cells: dict[str, Cells], evidence: Evidence) -> Row:
    places = []
    for one in shown:
        before = cells[one.before.id].get(task, []) if one.before is not None else []
        places.append(_place(cells[one.run.id].get(task, []), before, evidence))
    known = [place.state for place in places if place.state in (SOLVED, PARTLY, FAILED)]
    changes = sum(old != new for old, new in zip(known, known[1:], strict=False))
    return Row(task=task, changes=changes, places=tuple(places))


def _place(cell: Sequence[Rollout], before: Sequence[Rollout], evidence: Evidence) -> Place:
    if not cell:
        return Place(state=ABSENT)
    old = _state(before, evidence) if before else ""
    state = FORKED if old == FORKED else _state(cell, evidence)
    moved = {(FAILED, SOLVED): "gained", (SOLVED, FAILED): "lost"}.get((old, state), "")
    return Place(state=state, said=", ".join(mode(one) for one in cell), rollout=cell[0].id, moved=moved)


def _state(cell: Sequence[Rollout], evidence: Evidence) -> str:
    if any(one.outcome is Outcome.FORKED or _forked(one, evidence) for one in cell):
        return FORKED
    scorable = [one for one in cell if one.outcome.scorable]
    if not scorable:
        return INFRA
    solved = sum(one.solved for one in scorable)
    return SOLVED if solved == len(scorable) else PARTLY if solved else FAILED


def _forked(rollout: Rollout, evidence: Evidence) -> bool:
    return any(one.result is Certified.FORKED for one in evidence.of(rollout))


def _by_task(rollouts: Iterable[Rollout]) -> Cells:
    found: Cells = {}
    for rollout in sorted(latest_attempts(rollouts), key=lambda one: one.seed):
        found.setdefault(rollout.task, []).append(rollout)
    return found


def _solves(row: Row) -> int:
    return sum(place.state == SOLVED for place in row.places)


def _always(row: Row) -> bool:
    measured = [place.state for place in row.places if place.state != ABSENT]
    return bool(measured) and all(state == SOLVED for state in measured)
