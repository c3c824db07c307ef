"""Two runs out of the store, aligned."""

from __future__ import annotations

from collections.abc import Sequence

from harnesstrain.core.errors import NotFound, StoreCorrupt
from harnesstrain.core.records.certificate import Certificate
from harnesstrain.core.records.run import Regime, Run
from harnesstrain.judge import Attribution, Comparison, Pair, attribute, compare
from harnesstrain.judge.attribution import CHANCE
from harnesstrain.judge.certification import unsteady
from harnesstrain.stages.report.source import Records


def pair(records: Records, base: Run, cand: Run, certificates: Sequence[Certificate]) -> Comparison:
    """The comparison of two runs.  Raises UsageError when they are not comparable."""
    regime = regime_of(records, base)
    return compare(
        base,
        cand,
        records.rollouts(base.id),
        records.rollouts(cand.id),
        certificates,
        tasks=tasks_of(records, base),
        deterministic=regime.deterministic if regime else True,
    )


def explained(records: Records, comparison: Comparison, certificates: Sequence[Certificate]) -> Comparison:
    """The comparison with why each cell flipped, for one that no verdict explains.  A cell without traces has none."""
    sides = (comparison.base_run, comparison.cand_run)
    repeats = comparison.deterministic and not any(unsteady(side.commit, certificates) for side in sides)
    every = (_attribution(records, comparison.base_run, pair, repeats=repeats) for pair in comparison.flipped)
    return comparison.model_copy(update={"attributions": tuple(one for one in every if one is not None)})


def _attribution(records: Records, base: Run, pair: Pair, *, repeats: bool) -> Attribution | None:
    if not repeats:
        return Attribution(task=pair.task, seed=pair.seed, verdict=None, evidence=CHANCE)
    try:
        before, after = records.trace(pair.base.id).steps, records.trace(pair.cand.id).steps
    except (NotFound, StoreCorrupt):
        return None
    return attribute(base.commit, pair.base, before, pair.cand, after)


def regime_of(records: Records, run: Run) -> Regime | None:
    """The run's regime, if the store knows it."""
    try:
        return records.regime(run.regime)
    except NotFound:
        return None


def tasks_of(records: Records, run: Run) -> tuple[str, ...]:
    """The run's tasks in panel order; those it measured when the store does not know the panel."""
    try:
        return tuple(task.name for task in records.panel(run.panel).tasks)
    except NotFound:
        return tuple(dict.fromkeys(rollout.task for rollout in records.rollouts(run.id)))
