"""Two runs out of the store, aligned."""

from __future__ import annotations

from collections.abc import Sequence

from harnesstrain.core.errors import NotFound
from harnesstrain.core.records.certificate import Certificate
from harnesstrain.core.records.run import Regime, Run
from harnesstrain.judge import Comparison, compare
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
