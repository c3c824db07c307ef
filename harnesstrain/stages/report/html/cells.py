"""Numbers, changes and states as the template shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.verdict import Levers
from harnesstrain.judge.transitions import Transition
from harnesstrain.stages.report.noise import Served
from harnesstrain.stages.report.records import Report
from harnesstrain.stages.report.spending import Spent

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


class Flow(Record):
    """The transition table: baseline outcomes as rows, candidate outcomes as columns."""

    heads: tuple[str, ...]
    rows: tuple[FlowRow, ...]


class FlowRow(Record):
    """One baseline outcome."""

    name: str
    cells: tuple[FlowCell, ...]


class FlowCell(Record):
    """One place of the table."""

    count: int
    tasks: tuple[str, ...]
    same: bool
    """Both sides ended so."""
    shade: int
    """0 to 4, by its share of all cells."""
    kind: str
    """gained, lost, or empty."""


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
_LEVERS: tuple[tuple[str, _Read, int], ...] = (
    ("solved", lambda one: one.solved, 1),
    ("tokens for each solve", lambda one: one.tokens_per_solve, -1),
    ("calls for each solve", lambda one: one.calls_per_solve, -1),
    ("recorded seconds for each solve", lambda one: one.seconds_per_solve, -1),
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


def levers(base: Spent, cand: Spent | None) -> tuple[Lever, ...]:
    """Sums and means of both sides, and the share of tokens that went into solves."""
    made = [_lever(name, read(base), read(cand) if cand else None, best) for name, read, best in _LEVERS]
    useful = (base.useful_share, cand.useful_share if cand else None)
    shares = [percent(one) for one in useful]
    moved = None if useful[0] is None or useful[1] is None or useful[0] == useful[1] else useful[1] > useful[0]
    points = NONE if useful[0] is None or useful[1] is None else f"{(useful[1] - useful[0]) * 100:+.0f} points"
    made.insert(4, Lever(name="tokens spent in solves", base=shares[0], cand=shares[1], change=points, better=moved))
    return tuple(made)


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


def served(sides: Sequence[Served]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What came from caches and what failed: name, and one value for each side."""
    readers: tuple[tuple[str, Callable[[Served], str]], ...] = (
        ("replies from the cache", lambda one: _of(one.calls_cached, one.calls)),
        ("actions from the cache", lambda one: _of(one.actions_cached, one.actions)),
        ("actions executed", lambda one: number(one.executions)),
        ("grades from the cache", lambda one: _of(one.grades_cached, one.rollouts)),
        ("rollouts wholly from caches", lambda one: _of(one.from_caches, one.rollouts)),
        ("retries", lambda one: number(one.retries)),
        (
            "infrastructure failures",
            lambda one: ", ".join(f"{words(kind)} {count}" for kind, count in one.failures.items()) or "none",
        ),
        ("rollouts that forked", lambda one: number(one.forked)),
    )
    return tuple((name, tuple(read(side) for side in sides)) for name, read in readers)


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}"


def flow(transitions: Sequence[Transition]) -> Flow:
    """The transition table, outcomes in the order in which they first appear (best first)."""
    heads = _ordered(one.cand for one in transitions)
    names = _ordered(one.base for one in transitions)
    every = sum(len(one.cells) for one in transitions)
    found = {(one.base, one.cand): one.cells for one in transitions}
    order = [*names, *(head for head in heads if head not in names)]
    columns = tuple(sorted(heads, key=order.index))
    rows = [
        FlowRow(name=name, cells=tuple(_flow_cell(name, head, found.get((name, head), ()), every) for head in columns))
        for name in names
    ]
    return Flow(heads=columns, rows=tuple(rows))


def _flow_cell(base: str, cand: str, tasks: Sequence[str], every: int) -> FlowCell:
    shade = min(4, 1 + int(4 * len(tasks) / every)) if tasks else 0
    kind = "gained" if cand == "solved" != base else "lost" if base == "solved" != cand else ""
    return FlowCell(count=len(tasks), tasks=tuple(tasks), same=base == cand, shade=shade, kind=kind)


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def headline(report: Report) -> str:
    """Title of the page and of its window."""
    head = report.header
    cand = f" → {head.cand_commit[:8]}" if head.cand_commit else ""
    return f"{head.panel}: {head.base_commit[:8]}{cand}"
