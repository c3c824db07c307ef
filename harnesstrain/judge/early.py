"""Early decision: when the cells still missing cannot change the verdict, and in which order to measure them.

Never applied to a baseline.  A cell skipped this way is recorded as `not_needed`.

Why the verdict of an early stop is that of the whole run.  A rule is monotone, so every way the open cells can turn out
lies between both extremes of the bracket.  Where these agree in sign and no tie-break was asked, each further outcome
leaves the decision as it is; so does a further infrastructure failure, which only leaves its cell open.  What was
counted stays counted: the flips stated early are among the flips of the whole run.  Two things are asked beyond that: a
tie is never stated before everything is known, and a selected candidate was measured on every cell that it could lose.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import Rollout, latest_attempts
from harnesstrain.judge.base import Rule
from harnesstrain.judge.bracket import bracket
from harnesstrain.judge.comparison import Comparison


class Cell(Record):
    """One (task, seed)."""

    task: str
    seed: int


def undecided(rule: Rule, comparison: Comparison) -> bool:
    """Whether a cell still missing could change the decision.  `comparison` is of what there is so far."""
    if not comparison.open:
        return False
    if not comparison.pairs:
        return True
    answers = bracket(rule, comparison)
    if not answers.settled or 0 in (answers.measured.value, answers.best.value, answers.worst.value):
        return True
    return answers.measured.value < 0 and any(cell.may_regress for cell in comparison.open)


def order(
    base_rollouts: Iterable[Rollout], *, solved_first: bool = True, excluded: Collection[Cell] = ()
) -> tuple[Cell, ...]:
    """The cells in the order most likely to decide: what the baseline solved first (a loss rejects at once under a
    no-regression criterion), longest first within a class, by name where equal.  `excluded` cells decide nothing: last.

    Length is counted in steps and tokens, not in seconds, so that the order is the same whatever the machine does.
    """
    ranked = sorted(
        latest_attempts(base_rollouts),
        key=lambda r: (
            Cell(task=r.task, seed=r.seed) in excluded,
            solved_first and not r.solved,
            -(r.llm_calls + r.actions),
            -r.usage.total,
            r.task,
            r.seed,
        ),
    )
    return tuple(Cell(task=r.task, seed=r.seed) for r in ranked)
