"""Harness × model: the versions that were measured on several models, and what limits each task.

Everything is of one panel, split and seeds, and of regimes that differ in nothing but the model: its fingerprint, its
context, whether it repeats itself.  What was measured otherwise is named with the fields that differ, and left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from harnesstrain.core.errors import NotFound
from harnesstrain.core.ids import short
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.certificate import Certificate
from harnesstrain.core.records.rollout import Rollout, latest_attempts
from harnesstrain.core.records.run import IMPORTED, MODEL_BOUND, Regime, Run
from harnesstrain.judge import levers
from harnesstrain.judge.certification import Evidence
from harnesstrain.judge.limits import Label, Limit, Tried, compared, limits
from harnesstrain.judge.statistics import Interval, wilson
from harnesstrain.stages.report.pairing import regime_of, tasks_of
from harnesstrain.stages.report.plain import one_line
from harnesstrain.stages.report.source import Records

EVERYWHERE = (Label.SOLVED, Label.UNSOLVED)
"""Labels that a whole row of tasks can have."""


class ModelColumn(Record):
    """One model."""

    endpoint: str
    """Fingerprint."""
    name: str
    """The model's own name; with the start of its fingerprint where several have it."""
    engine: str
    context_length: int
    """Tokens."""
    deterministic: bool
    """Whether it repeats itself, as far as was known at every run."""
    labels: dict[str, int] = Field(default_factory=dict)
    """Tasks by label, most first; empty where no labels are given."""


class ModelCell(Record):
    """One version on one model."""

    run: str
    complete: bool
    solved: int
    cells: int
    """Measured cells: those that `solved` is of."""
    unmeasurable: int
    """Cells that infrastructure failed, or that do not repeat when they are executed again."""
    not_needed: int
    """Cells that an early decision left out: then the interval is of a chosen part."""
    missing: int
    interval: Interval
    """95 % Wilson interval of solved / cells."""
    tokens_per_solve: float | None
    """Prompt and completion tokens of all measured cells per solve; None without a solve."""
    calls_per_solve: float | None
    """Model calls of all measured cells per solve."""


class HarnessRow(Record):
    """One version on every model."""

    commit: str
    title: str = ""
    """Its candidate's hypothesis."""
    cells: tuple[ModelCell | None, ...]
    """One per column; None: not measured there."""


class TaskLimits(Record):
    """One task on every model."""

    task: str
    everywhere: Label | None = None
    """solved or unsolved, where every model says so."""
    limits: tuple[Limit, ...]
    """One per column."""


class LeftOut(Record):
    """Runs on another model that are not comparable."""

    model: str
    fields: tuple[str, ...]
    """What differs besides the model: fields of the regime, or `seeds`."""
    runs: tuple[str, ...]


class ModelMatrix(Record):
    """Versions × models, over one panel."""

    panel: str
    split: str | None
    seeds: tuple[int, ...]
    columns: tuple[ModelColumn, ...] = ()
    rows: tuple[HarnessRow, ...] = ()
    """Versions that were measured on at least two models."""
    tasks: tuple[TaskLimits, ...] = ()
    """In panel order; empty where no labels can be given."""
    unlabelled: str = ""
    """Why there are no labels."""
    others: int = 0
    """Versions that were measured on one of the models only."""
    left_out: tuple[LeftOut, ...] = ()


class _Candidate(Record):
    run: Run
    regime: Regime


def model_matrix(records: Records, base: Run, certificates: Iterable[Certificate]) -> ModelMatrix | None:
    """The matrix that `base` belongs to; None where its panel was measured on one model only."""
    regime = regime_of(records, base)
    if regime is None or base.imported is not None:
        return None
    regimes: dict[str, Regime | None] = {}
    alike: list[_Candidate] = []
    apart: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for run in records.runs():
        if run.imported is not None or (run.panel, run.split) != (base.panel, base.split):
            continue
        if run.regime not in regimes:
            regimes[run.regime] = regime_of(records, run)
        other = regimes[run.regime]
        if other is None or other.grading == IMPORTED:
            continue
        fields = tuple(field for field in regime.differing(other) if field not in MODEL_BOUND)
        fields += ("seeds",) if run.seeds != base.seeds else ()
        if not fields:
            alike.append(_Candidate(run=run, regime=other))
        elif other.endpoint != regime.endpoint:
            apart.setdefault((other.endpoint, fields), []).append(run.id)
    models = list(dict.fromkeys(one.regime.endpoint for one in alike))
    left_out = tuple(
        LeftOut(model=_name(records, model), fields=fields, runs=tuple(runs)) for (model, fields), runs in apart.items()
    )
    found = ModelMatrix(panel=base.panel_name, split=base.split, seeds=base.seeds, left_out=left_out)
    if len(models) < 2:
        one = "the other models' runs are not comparable"
        return found.model_copy(update={"unlabelled": one}) if left_out else None
    return _filled(records, found, _newest(records, alike), base, list(certificates))


def _newest(records: Records, alike: Sequence[_Candidate]) -> dict[tuple[str, str], _Candidate]:
    """One run for each version and model: the newest complete one that left nothing out, where there is one."""
    best: dict[tuple[str, str], tuple[int, _Candidate]] = {}
    for one in alike:
        rank = records.is_complete(one.run.id) + (records.is_complete(one.run.id) and not one.run.early_stop_against)
        key = (one.run.commit, one.regime.endpoint)
        if key not in best or rank >= best[key][0]:
            best[key] = (rank, one)
    return {key: one for key, (_, one) in best.items()}


def _filled(
    records: Records,
    found: ModelMatrix,
    chosen: dict[tuple[str, str], _Candidate],
    base: Run,
    certificates: list[Certificate],
) -> ModelMatrix:
    tasks = tasks_of(records, base)
    cells: dict[tuple[str, str], ModelCell] = {}
    tried: list[Tried] = []
    for (commit, endpoint), one in chosen.items():
        evidence = Evidence(one.run.regime, certificates)
        rollouts = latest_attempts(records.rollouts(one.run.id))
        sure = [r for r in rollouts if r.outcome.scorable and not evidence.forked(r) and not evidence.parted(commit, r)]
        cells[commit, endpoint] = _cell(records, one.run, rollouts, sure, len(tasks) * len(base.seeds))
        known = {(r.task, r.seed): r.solved for r in sure}
        outcomes = {task: tuple(known.get((task, seed)) for seed in base.seeds) for task in tasks}
        repeats = one.regime.deterministic and evidence.repeats(commit)
        tried.append(Tried(harness=commit, model=endpoint, repeats=repeats, outcomes=outcomes))
    shown = compared(tried)
    models = tuple(dict.fromkeys(one.model for one in tried if one.harness in shown))
    limited = limits(tried, tasks)
    return found.model_copy(
        update={
            "columns": tuple(_column(records, model, models, chosen, limited) for model in models),
            "rows": _rows(records, shown, models, cells),
            "tasks": tuple(_task(task, [one for one in limited if one.task == task]) for task in tasks)
            if limited
            else (),
            "unlabelled": "" if limited else _unlabelled(len(shown)),
            "others": len({one.harness for one in tried if one.model in models} - set(shown)),
        }
    )


def _unlabelled(rows: int) -> str:
    if not rows:
        return "no version was measured on two models"
    return "one version was measured on two models; to tell harness from model takes two versions"


def _cell(records: Records, run: Run, rollouts: Sequence[Rollout], sure: Sequence[Rollout], cells: int) -> ModelCell:
    sums = levers(sure)
    absent = cells - len(rollouts)
    complete = records.is_complete(run.id)
    early = complete and run.early_stop_against is not None
    return ModelCell(
        run=run.id,
        complete=complete,
        solved=sums.solved,
        cells=sums.cells,
        unmeasurable=len(rollouts) - len(sure),
        not_needed=absent if early else 0,
        missing=0 if early else absent,
        interval=wilson(sums.solved, sums.cells),
        tokens_per_solve=sums.tokens_per_solve,
        calls_per_solve=sums.llm_calls / sums.solved if sums.solved else None,
    )


def _rows(
    records: Records, commits: Sequence[str], models: Sequence[str], cells: dict[tuple[str, str], ModelCell]
) -> tuple[HarnessRow, ...]:
    titles = {one.commit: one_line(one.hypothesis) for one in records.candidates()}
    return tuple(
        HarnessRow(
            commit=commit,
            title=titles.get(commit, ""),
            cells=tuple(cells.get((commit, model)) for model in models),
        )
        for commit in commits
    )


def _column(
    records: Records,
    model: str,
    models: Sequence[str],
    chosen: dict[tuple[str, str], _Candidate],
    limited: Sequence[Limit],
) -> ModelColumn:
    regimes = [one.regime for (_, endpoint), one in chosen.items() if endpoint == model]
    name = _name(records, model)
    twice = sum(_name(records, other) == name for other in models) > 1
    counts = {label: sum(one.label is label for one in limited if one.model == model) for label in Label}
    return ModelColumn(
        endpoint=model,
        name=f"{name} {short(model)}" if twice else name,
        engine=_engine(records, model),
        context_length=regimes[0].context_length,
        deterministic=all(one.deterministic for one in regimes),
        labels={label.value: count for label, count in sorted(counts.items(), key=lambda one: -one[1]) if count},
    )


def _task(task: str, found: Sequence[Limit]) -> TaskLimits:
    labels = {one.label for one in found}
    everywhere = next((label for label in EVERYWHERE if labels == {label}), None)
    return TaskLimits(task=task, everywhere=everywhere, limits=tuple(found))


def _name(records: Records, endpoint: str) -> str:
    try:
        return one_line(records.endpoint(endpoint).model)
    except NotFound:
        return short(endpoint)


def _engine(records: Records, endpoint: str) -> str:
    try:
        return records.endpoint(endpoint).engine
    except NotFound:
        return ""
