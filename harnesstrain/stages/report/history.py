"""What happened so far, from records: rows for `ht log`, the state of things for `ht status`, the solve curve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harnesstrain.core.errors import NotFound
from harnesstrain.core.ids import short
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.candidate import Candidate, CandidateStatus
from harnesstrain.core.records.verdict import Decision, Epoch, Flip, Promotion, Verdict
from harnesstrain.judge.statistics import Interval, wilson
from harnesstrain.stages.report.pairing import tasks_of
from harnesstrain.stages.report.plain import one_line
from harnesstrain.stages.report.records import EpochRow
from harnesstrain.stages.report.source import Records
from harnesstrain.store.base import RunSummary

OPEN = ("started",)
"""States of an epoch that the next `ht epoch` continues."""
MARKS = {
    "promoted": "▲",
    "selected": "△",
    "rejected": "×",
    "unmeasurable": "?",
    "skipped": "○",
    "failed": "!",
    "abandoned": "–",
    "candidate": "·",
}
"""One glyph per state; a state is always written out beside it."""
_BARS = "▁▂▃▄▅▆▇█"


class Score(Record):
    """Solves of one run."""

    solved: int
    cells: int
    """Measured cells."""
    unmeasurable: int
    not_needed: int = 0
    """Cells that an early decision left unmeasured; `solved` and `cells` are then of a part of the panel."""
    missing: int = 0
    """Cells that the run has not measured yet, as far as that was looked up."""

    @property
    def interval(self) -> Interval:
        """95 % Wilson interval over the scorable cells."""
        return wilson(self.solved, self.cells - self.unmeasurable)


class LogRow(Record):
    """One line of `ht log`: a candidate, an epoch that got none, or a verdict on a version that is no candidate."""

    epoch: int | None
    """None: proposed by hand."""
    state: str
    """promoted, selected, rejected, unmeasurable, skipped, failed, abandoned, candidate (not judged yet), or an open
    epoch's."""
    candidate: str | None
    commit: str | None
    hypothesis: str
    reason: str
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    score: Score | None = None
    """Of the candidate's run."""
    verdict: str | None = None

    @property
    def mark(self) -> str:
        """The state's glyph."""
        return MARKS.get(self.state, "·")


class Status(Record):
    """Where things stand."""

    baseline: str | None
    """The commit last promoted to or measured from; None: nothing was measured yet."""
    baseline_score: Score | None
    """Of `baseline_run`."""
    baseline_run: str | None = None
    """The baseline's newest run on the panel and split that were asked about; None: there is none."""
    epochs: int
    promoted: int
    """Changes, by epochs and by hand."""
    open_epoch: EpochRow | None
    """The epoch that the next `ht epoch` continues."""
    failures: int
    """Epochs without a valid candidate at the end, in a row."""
    incomplete_runs: tuple[str, ...]
    resumed_by: dict[str, str] = {}
    """The command that goes on with each of them."""
    candidates: int
    verdicts: int
    promoted_by_hand: int = 0
    """Of `promoted`, those of no epoch."""


def score(summary: RunSummary | None) -> Score | None:
    """A run's solves; None without a rollout."""
    if summary is None or not summary.cells:
        return None
    return Score(
        solved=summary.solved,
        cells=summary.cells,
        unmeasurable=summary.cells - summary.scorable,
        not_needed=summary.not_needed,
    )


def _partial(records: Records, summary: RunSummary) -> Score | None:
    """A run's solves, with the cells that it lacks."""
    found = score(summary)
    tasks = len(tasks_of(records, records.run(summary.run)))
    left = tasks * len(summary.seeds) - summary.cells - summary.not_needed
    return found and found.model_copy(update={"missing": max(0, left)})


def scores(records: Records) -> dict[str, Score]:
    """Solves of every run that has a rollout, by run id."""
    found = {summary.run: score(summary) for summary in records.summaries()}
    return {run: one for run, one in found.items() if one is not None}


def log(records: Records) -> tuple[LogRow, ...]:
    """Every candidate and every epoch without one, oldest first; epochs in their order, then hand-made candidates, then
    what else was judged by hand."""
    candidates = {candidate.id: candidate for candidate in records.candidates()}
    verdicts = list(records.verdicts())
    promoted = _promoted(records.promotions())
    solves = scores(records)
    rows: list[LogRow] = []
    used: set[str] = set()
    told: set[str] = set()
    for epoch in sorted(records.epochs(), key=lambda e: e.number):
        candidate = candidates.get(epoch.candidate or "")
        verdict = _of_epoch(epoch, candidate, verdicts)
        if candidate is not None:
            used.add(candidate.id)
        told.add(verdict.id if verdict else "")
        rows.append(_row(epoch, epoch.state, candidate, verdict, epoch.reason, solves.get(epoch.cand_run or "")))
    for candidate in candidates.values():
        if candidate.id in used:
            continue
        verdict = _newest(verdicts, candidate.commit)
        told.add(verdict.id if verdict else "")
        state = _state_by_hand(candidate, verdict, promoted)
        reason = candidate.reason or (verdict.sentence if verdict else "")
        rows.append(_row(None, state, candidate, verdict, reason, solves.get(verdict.cand_run) if verdict else None))
    for verdict in verdicts:
        if verdict.id not in told:
            reason = f"{short(verdict.base_commit)}..{short(verdict.cand_commit)}: {verdict.sentence}"
            row = _row(None, _decided(verdict), None, verdict, reason, solves.get(verdict.cand_run))
            rows.append(row.model_copy(update={"commit": verdict.cand_commit}))
    return tuple(rows)


def epoch_rows(records: Records) -> tuple[EpochRow, ...]:
    """One row per epoch, in order."""
    candidates = {candidate.id: candidate for candidate in records.candidates()}
    verdicts = list(records.verdicts())
    solves = scores(records)
    places = _places(records)
    rows = []
    for epoch in sorted(records.epochs(), key=lambda e: e.number):
        candidate = candidates.get(epoch.candidate or "")
        verdict = _of_epoch(epoch, candidate, verdicts)
        base, cand = solves.get(epoch.base_run or ""), solves.get(epoch.cand_run or "")
        rows.append(
            EpochRow(
                number=epoch.number,
                state=epoch.state,
                candidate=epoch.candidate,
                commit=candidate.commit if candidate else None,
                hypothesis=one_line(candidate.hypothesis) if candidate else "",
                solved=cand.solved if cand else None,
                base_solved=base.solved if base else None,
                cells=cand.cells if cand else (base.cells if base else None),
                unmeasurable=cand.unmeasurable if cand else 0,
                not_needed=cand.not_needed if cand else 0,
                interval=cand.interval if cand and not cand.not_needed else None,
                gained=flipped(verdict.gained) if verdict else (),
                lost=flipped(verdict.lost) if verdict else (),
                flips=(*verdict.gained, *verdict.lost) if verdict else (),
                verdict=verdict.id if verdict else None,
                reason=one_line(epoch.reason),
                measured_on=places.get(epoch.base_run or "", ""),
            )
        )
    return tuple(rows)


def _places(records: Records) -> dict[str, str]:
    """Panel and model of every run, as digests."""
    models: dict[str, str] = {}
    found = {}
    for run in records.runs():
        if run.regime not in models:
            try:
                models[run.regime] = records.regime(run.regime).endpoint
            except NotFound:
                models[run.regime] = run.regime
        found[run.id] = f"{run.panel} {models[run.regime]}"
    return found


def comparable(epochs: Sequence[EpochRow]) -> tuple[EpochRow, ...]:
    """The newest epochs that were all measured on one panel and one model."""
    last = next((row.measured_on for row in reversed(epochs) if row.measured_on), "")
    start = next((place for place in range(len(epochs), 0, -1) if epochs[place - 1].measured_on not in ("", last)), 0)
    return tuple(epochs[start:])


def status(records: Records, baseline: str | None = None, *, panel: str | None = None) -> Status:
    """Where things stand, from records alone.  Who is at work right now is the leases' to say.

    `baseline`: where the branch stands, when the caller can ask git; None: what the records say last.  `panel`: digest
    of the tasks that its score is of; None: those of its newest run on the train split, or on a whole panel.  Runs on
    the configured model come first, and of these, those that left nothing out.
    """
    epochs = epoch_rows(records)
    stored = sorted(records.epochs(), key=lambda e: e.number)
    done = [promotion for promotion in records.promotions() if promotion.state == "done"]
    runs = list(records.runs())
    foreign = {run.id for run in runs if run.imported is not None}
    configured = {run.id for run in runs if run.configured}
    summaries = [one for one in records.summaries() if one.run not in foreign]
    if baseline is None:
        known = [*(one.commit for one in summaries[-1:]), *(e.base for e in stored[-1:]), *(p.new for p in done[-1:])]
        baseline = known[-1] if known else None
    measured = [
        one
        for one in summaries
        if one.commit == baseline and (one.split in (None, "train") if panel is None else one.panel == panel)
    ]
    measured = [one for one in measured if one.run in configured] or measured
    measured = [one for one in measured if not one.not_needed] or measured
    begun = [records.run(one.run) for one in summaries if not one.complete]
    own = {epoch.promotion for epoch in stored}
    by_hand = sum(promotion.id not in own for promotion in done)
    failures = 0
    for epoch in reversed(stored):
        if epoch.state not in ("skipped", "failed"):
            break
        failures += 1
    return Status(
        baseline=baseline,
        baseline_score=_partial(records, measured[-1]) if measured else None,
        baseline_run=measured[-1].run if measured else None,
        epochs=len(stored),
        promoted=sum(epoch.state == "promoted" for epoch in stored) + by_hand,
        promoted_by_hand=by_hand,
        open_epoch=epochs[-1] if epochs and epochs[-1].state in OPEN else None,
        failures=failures,
        incomplete_runs=tuple(run.id for run in begun),
        resumed_by={run.id: run.command() for run in begun},
        candidates=sum(1 for c in records.candidates() if c.status is CandidateStatus.CANDIDATE),
        verdicts=sum(1 for _ in records.verdicts()),
    )


def curve(epochs: Sequence[EpochRow]) -> tuple[int, ...]:
    """Solves of the baseline before each of the newest comparable epochs, then of the last promoted candidate."""
    epochs = comparable(epochs)
    points = [row.base_solved for row in epochs if row.base_solved is not None]
    if epochs and epochs[-1].state == "promoted" and epochs[-1].solved is not None:
        points.append(epochs[-1].solved)
    return tuple(points)


def ceiling(epochs: Sequence[EpochRow]) -> int:
    """Cells of the largest measurement among the newest comparable epochs."""
    return max(((row.cells or 0) + row.not_needed for row in comparable(epochs)), default=0)


def sparkline(points: Sequence[int], top: int) -> str:
    """The points as block glyphs; `top` is full height."""
    return "".join(_BARS[round(min(p, top) * (len(_BARS) - 1) / top)] if top > 0 else _BARS[0] for p in points)


def flipped(flips: Iterable[Flip]) -> tuple[str, ...]:
    """The tasks of flips, each once, in order."""
    return tuple(dict.fromkeys(flip.task for flip in flips))


def _row(
    epoch: Epoch | None,
    state: str,
    candidate: Candidate | None,
    verdict: Verdict | None,
    reason: str,
    scored: Score | None,
) -> LogRow:
    return LogRow(
        epoch=epoch.number if epoch else None,
        state=state,
        candidate=candidate.id if candidate else None,
        commit=candidate.commit if candidate else None,
        hypothesis=one_line(candidate.hypothesis) if candidate else "",
        reason=one_line(reason),
        gained=flipped(verdict.gained) if verdict else (),
        lost=flipped(verdict.lost) if verdict else (),
        score=scored,
        verdict=verdict.id if verdict else None,
    )


def _state_by_hand(candidate: Candidate, verdict: Verdict | None, promoted: set[str]) -> str:
    if candidate.status is CandidateStatus.NO_CANDIDATE:
        return "skipped"
    if candidate.status is CandidateStatus.INVALID:
        return "failed"
    if candidate.commit in promoted:
        return "promoted"
    if verdict is None:
        return "candidate"
    return _decided(verdict)


def _decided(verdict: Verdict) -> str:
    return {Decision.SELECTED: "selected", Decision.REJECTED: "rejected"}.get(verdict.decision, "unmeasurable")


def _promoted(promotions: Iterable[Promotion]) -> set[str]:
    return {promotion.new for promotion in promotions if promotion.state == "done"}


def _of_epoch(epoch: Epoch, candidate: Candidate | None, verdicts: Sequence[Verdict]) -> Verdict | None:
    for verdict in verdicts:
        if verdict.id == epoch.verdict:
            return verdict
    pairs = [v for v in verdicts if v.base_run == epoch.base_run and v.cand_run == epoch.cand_run]
    return pairs[-1] if candidate is not None and pairs else None


def _newest(verdicts: Sequence[Verdict], commit: str | None) -> Verdict | None:
    found = [verdict for verdict in verdicts if commit is not None and verdict.cand_commit == commit]
    return found[-1] if found else None
