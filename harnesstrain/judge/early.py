"""Early decision: when the cells still missing cannot change the verdict, and in which order to measure them.

Never applied to a baseline.  A cell skipped this way is recorded as `not_needed`.
"""

from __future__ import annotations

from collections.abc import Iterable

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import Rollout
from harnesstrain.judge.base import Rule
from harnesstrain.judge.bracket import bracket
from harnesstrain.judge.comparison import Comparison


class Cell(Record):
    """One (task, seed)."""

    task: str
    seed: int


def undecided(rule: Rule, comparison: Comparison) -> bool:
    """Whether a cell still missing could change the decision.  `comparison` is of what there is so far."""
    return bool(comparison.open) and not (comparison.pairs and bracket(rule, comparison).settled)


def order(base_rollouts: Iterable[Rollout], *, solved_first: bool = True) -> tuple[Cell, ...]:
    """The cells in the order most likely to decide: what the baseline solved first (a loss rejects at once under a
    no-regression criterion), longest first within a class, by name where equal."""
    ranked = sorted(
        base_rollouts,
        key=lambda r: (solved_first and not r.solved, -r.recorded_time, -r.llm_calls, r.task, r.seed),
    )
    return tuple(Cell(task=r.task, seed=r.seed) for r in ranked)
