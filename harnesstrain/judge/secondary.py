"""Secondary metrics: what decides an exact tie of solves.

In order; the first metric whose sides differ decides.

| # | metric           | better | measured over               | empty value             | loss when won / lost |
|---|------------------|--------|-----------------------------|-------------------------|----------------------|
| 1 | first-try rate   | higher | every compared cell         | skipped unless both have it | -0.1 / +0.1      |
| 2 | steps            | lower  | cells that both sides solve | skipped                 | -0.01 / +0.01        |
| 3 | tokens per solve | lower  | cells that both sides solve | skipped                 | -0.001 / +0.001      |

First-try rate: share of model replies acted on without a repair, as the harness notes it.  A harness that starts or
stops noting gains nothing.  Steps (model calls) and tokens (prompt and completion) count only where both sides solve:
giving up early on a task that nobody solves is no improvement.  Every loss here is smaller than one solve.
A tie on all is a loss of 0, "no change".  Where the endpoint or a harness does not repeat itself, no
metric is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from fractions import Fraction

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import Rollout
from harnesstrain.judge.base import Loss, Tally


class Direction(Enum):
    """Which way a metric is better."""

    UP = 1
    DOWN = -1


class Metric(Record):
    """One secondary metric."""

    name: str
    direction: Direction
    solved_only: bool
    """Measured over the cells that both sides solve."""
    weight: float
    """Absolute loss when it decides."""
    measure: Callable[[Sequence[Rollout]], Fraction | None]
    """The value over one side's rollouts; None: empty, the metric is skipped."""


def first_try_rate(rollouts: Sequence[Rollout]) -> Fraction | None:
    """Replies acted on without a repair, of all noted; None when nothing was noted."""
    total = sum(r.first_try_total for r in rollouts)
    return Fraction(sum(r.first_try_valid for r in rollouts), total) if total else None


def steps(rollouts: Sequence[Rollout]) -> Fraction | None:
    """Model calls; None without a rollout."""
    return Fraction(sum(r.llm_calls for r in rollouts)) if rollouts else None


def tokens_per_solve(rollouts: Sequence[Rollout]) -> Fraction | None:
    """Prompt and completion tokens per rollout, all of them solves; None without one."""
    return Fraction(sum(r.usage.total for r in rollouts), len(rollouts)) if rollouts else None


METRICS: tuple[Metric, ...] = (
    Metric(name="first-try rate", direction=Direction.UP, solved_only=False, weight=0.1, measure=first_try_rate),
    Metric(name="steps", direction=Direction.DOWN, solved_only=True, weight=0.01, measure=steps),
    Metric(name="tokens per solve", direction=Direction.DOWN, solved_only=True, weight=0.001, measure=tokens_per_solve),
)
"""In the order they are asked."""


def tie_break(tally: Tally, tied: str, metrics: Sequence[Metric] = METRICS) -> Loss:
    """The loss of a tally whose solves tie.  `tied` says how, e.g. "same solves"."""
    if not tally.deterministic:
        why = "the endpoint or a harness does not repeat itself, so no tie-break"
        return Loss(value=0.0, sentence=f"no change: {tied}; {why}")
    for metric in metrics:
        pairs = [p for p in tally.pairs if not metric.solved_only or (p.base.solved and p.cand.solved)]
        before, after = metric.measure([p.base for p in pairs]), metric.measure([p.cand for p in pairs])
        if before is None or after is None or before == after:
            continue
        better = (after - before) * metric.direction.value > 0
        sentence = f"{tied}; {metric.name} {_shown(before)} → {_shown(after)}"
        return Loss(value=-metric.weight if better else metric.weight, sentence=sentence, primary=False)
    return Loss(value=0.0, sentence=f"no change: {tied}, no secondary metric differs", primary=False)


def _shown(value: Fraction) -> str:
    return f"{float(value):.4g}" if value < 1000 else f"{round(value):,}"
