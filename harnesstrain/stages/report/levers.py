"""Secondary measurements as people read them: tokens, calls and time, in sums and for each solve."""

from __future__ import annotations

from collections.abc import Callable

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.verdict import Levers
from harnesstrain.stages.report.spending import Spending, Spent

NONE = "–"
"""Shown where there is no value."""


class Lever(Record):
    """One number on both sides."""

    name: str
    base: str
    cand: str
    change: str
    better: bool | None
    """None: no change, or neither is better."""


def number(value: float | None) -> str:
    """Whole numbers with thousands apart, others with two places."""
    if value is None:
        return NONE
    if isinstance(value, int) or value >= 1000:
        return f"{round(value):,}"
    return f"{value:.2f}"


def percent(value: float | None) -> str:
    """A share as per cent."""
    return NONE if value is None else f"{value:.0%}"


def change(before: float | None, after: float | None) -> str:
    """From one number to another, in words as short as can be."""
    if before is None or after is None:
        return NONE
    if before == after:
        return "="
    if not before:
        return "new"
    share = (after - before) / before
    return f"{share:+.0%}" if abs(share) >= 0.01 else f"{share:+.1%}"


def words(name: str) -> str:
    """An outcome's name, readable: `no_submit:step_limit` is `no submit: step limit`."""
    return name.replace("_", " ").replace(":", ": ")


_Read = Callable[[Spent], float | None]
LEVERS: tuple[tuple[str, _Read, int], ...] = (
    ("solved", lambda one: one.solved, 1),
    ("tokens for each solve, failures included", lambda one: one.tokens_per_solve, -1),
    ("calls for each solve, failures included", lambda one: one.calls_per_solve, -1),
    ("recorded seconds for each solve, failures included", lambda one: one.seconds_per_solve, -1),
    ("prompt tokens", lambda one: one.usage.prompt, -1),
    ("of them cached by the server", lambda one: one.usage.cached, 0),
    ("completion tokens", lambda one: one.usage.completion, -1),
    ("model calls", lambda one: one.llm_calls, -1),
    ("tokens a call", lambda one: one.tokens_per_call, -1),
    ("environment actions", lambda one: one.actions, 0),
    ("replies that needed a repair", lambda one: one.invalid, -1),
    ("recorded seconds", lambda one: one.recorded_time, -1),
)
"""Name, reader, and whether more is better (1), less (-1) or neither (0)."""


def levers(spending: Spending) -> tuple[Lever, ...]:
    """Sums and means of both sides, the share of tokens that went into solves, and the cost where both solve."""
    base, cand = spending.base, spending.cand
    made = [_lever(name, read(base), read(cand) if cand else None, best) for name, read, best in LEVERS]
    made[4:4] = [useful(base, cand), *([_shared(spending)] if spending.solved_by_both else [])]
    return tuple(made)


def _shared(spending: Spending) -> Lever:
    """The cost of a task that both sides solve: what a criterion looks at when solves tie."""
    both = spending.solved_by_both
    before = sum(one.base.usage.total for one in both) / len(both)
    after = sum(one.cand.usage.total for one in both if one.cand is not None) / len(both)
    return _lever(f"tokens for a task that both solve ({len(both)})", before, after, -1)


def useful(base: Spent, cand: Spent | None) -> Lever:
    """The share of tokens that went into rollouts that solved their task."""
    before, after = base.useful_share, cand.useful_share if cand else None
    points, better = NONE, None
    if before is not None and after is not None:
        points = "=" if before == after else f"{(after - before) * 100:+.0f} points"
        better = None if before == after else after > before
    name = "tokens spent in solves"
    return Lever(name=name, base=percent(before), cand=percent(after), change=points, better=better)


def _lever(name: str, before: float | None, after: float | None, best: int) -> Lever:
    better = None
    if best and before is not None and after is not None and abs(after - before) >= 0.01 * abs(before):
        better = (after > before) == (best > 0)
    said = change(before, after)
    return Lever(name=name, base=number(before), cand=number(after), change=said, better=better)


TASK_LEVERS: tuple[tuple[str, Callable[[Levers], float | None]], ...] = (
    ("prompt", lambda one: one.usage.prompt),
    ("cached", lambda one: one.usage.cached),
    ("completion", lambda one: one.usage.completion),
    ("calls", lambda one: one.llm_calls),
    ("repairs", lambda one: one.first_try_total - one.first_try_valid if one.first_try_total else None),
    ("seconds", lambda one: round(one.recorded_time, 2)),
)
"""Columns of the table of tasks: name and reader."""
