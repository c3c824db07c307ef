"""What was spent and on what, what was noise, what the candidate changes, as parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harnesstrain.core.ids import short
from harnesstrain.stages.report.changes import Changes
from harnesstrain.stages.report.levers import change, levers, number, percent, words
from harnesstrain.stages.report.noise import Cached, Noise, Served
from harnesstrain.stages.report.regimes import Regimes
from harnesstrain.stages.report.spending import Spending
from harnesstrain.stages.report.tables import Part, Table

NONE = "–"
TASKS = 12
"""Tasks told whose tokens changed most."""


def levers_part(spending: Spending | None) -> Part:
    """Sums, and what each solve takes."""
    if spending is None:
        return Part(title="Levers")
    both = spending.cand is not None
    heads = ("lever", "baseline", "candidate", "change") if both else ("lever", "baseline")
    rows = tuple((one.name, one.base, *((one.cand, one.change) if both else ())) for one in levers(spending))
    lines = [f"Over {spending.base.cells} cells{' a side' if both else ''}."]
    if both:
        lines.append("Tokens: more in {} cells, fewer in {}.".format(*spending.moved))
    return Part(title="Levers", sentences=tuple(lines), table=Table(heads=heads, rows=rows, right=heads[1:]))


def tasks_part(spending: Spending | None) -> Part:
    """The tasks whose tokens changed most."""
    title = "Tokens by task"
    moved = [
        (one.base.usage.total, one.cand.usage.total, one)
        for one in (spending.tasks if spending else ())
        if one.cand is not None and one.cand.usage.total != one.base.usage.total
    ]
    if not moved:
        return Part(title=title)
    moved.sort(key=lambda row: (-abs(row[1] - row[0]), row[2].task, row[2].seed))
    rows = tuple(
        (one.task, str(one.seed), number(before), number(after), change(before, after))
        for before, after, one in moved[:TASKS]
    )
    left = f"; the {TASKS} largest changes" if len(moved) > TASKS else ""
    heads = ("task", "seed", "baseline", "candidate", "change")
    sentence = f"{len(moved)} of {len(spending.tasks) if spending else 0} cells took another number of tokens{left}."
    return Part(title=title, sentences=(sentence,), table=Table(heads=heads, rows=rows, right=heads[1:]))


def endings_part(spending: Spending | None) -> Part:
    """How rollouts end, what that takes, and how often a way to fail became a solve."""
    title = "By how rollouts end"
    if spending is None or not spending.modes:
        return Part(title=title)
    both = spending.cand is not None
    became = {one.mode: one for one in spending.conversions}
    rows = []
    for one in spending.modes:
        row = [words(one.mode), number(one.base_cells), number(one.base_tokens)]
        if both:
            solved = became.get(one.mode)
            row += [number(one.cand_cells), number(one.cand_tokens), str(len(solved.solved)) if solved else NONE]
        rows.append(tuple(row))
    heads: tuple[str, ...] = ("baseline ended", "cells", "tokens")
    heads += ("candidate cells", "candidate tokens", "became solves") if both else ()
    return Part(title=title, table=Table(heads=heads, rows=tuple(rows), right=heads[1:]))


SERVED: tuple[tuple[str, Callable[[Served], str]], ...] = (
    ("replies from the cache", lambda one: _of(one.calls_cached, one.calls)),
    ("actions from the cache", lambda one: _of(one.actions_cached, one.actions)),
    ("actions executed", lambda one: number(one.executions)),
    ("grades from the cache", lambda one: _of(one.grades_cached, one.rollouts)),
    ("rollouts wholly from caches", lambda one: _of(one.from_caches, one.rollouts)),
    ("retries", lambda one: number(one.retries)),
    ("infrastructure failures", lambda one: ", ".join(f"{words(k)} {n}" for k, n in one.failures.items()) or "none"),
    ("rollouts that forked", lambda one: number(one.forked)),
)
"""What came from caches and what failed: name and reader."""


def noise_part(noise: Noise) -> Part:
    """Caches, retries, infrastructure failures, drift."""
    heads = ("run", *(f"{one.side} {short(one.run)}" for one in noise.served))
    rows = tuple((name, *(read(one) for one in noise.served)) for name, read in SERVED)
    lines = []
    if noise.caches:
        lines.append(f"The store's caches over their whole life: {'; '.join(map(_cached, noise.caches))}.")
    lines += [
        f"{one.side} {one.task}: step {one.step} gave something else when it was executed again: {one.command}"
        for one in noise.drifts
    ]
    table = Table(heads=heads, rows=rows, right=heads[1:]) if noise.served else None
    return Part(title="Caches and noise", sentences=tuple(lines), table=table)


def changes_part(changes: Changes | None) -> Part:
    """The harness diff in one line a file; a terminal shows the whole of it with `ht diff --patch`."""
    title = "Harness diff"
    if changes is None:
        return Part(title=title)
    pair = f"{short(changes.base)}..{short(changes.cand)}"
    files = ", ".join(changes.files) or "nothing"
    lines = (f"+{changes.added} -{changes.removed} lines in {files}; `ht diff {pair} --patch` shows them.",)
    return Part(title=title, sentences=lines)


def regimes_part(regimes: Regimes | None) -> Part:
    """The fields in which the store's other regimes differ from the reported one."""
    title = "Other regimes"
    if regimes is None or not regimes.others:
        return Part(title=title)
    rows = tuple(
        (short(other.digest), str(other.runs), field, here, there)
        for other in regimes.others
        for field, (here, there) in other.differs.items()
    )
    table = Table(heads=("regime", "runs", "field", "here", "there"), rows=rows, right=("runs",))
    here = f"{regimes.runs} runs were measured under the reported regime {short(regimes.digest)}."
    return Part(title=title, sentences=(here,), table=table)


def _cached(one: Cached) -> str:
    hits = f", {percent(one.rate)} hits" if one.rate is not None else ""
    return f"{one.name} {number(one.entries)} entries{hits}"


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}"


def served(sides: Sequence[Served]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What came from caches and what failed: name, and one value for each side."""
    return tuple((name, tuple(read(side) for side in sides)) for name, read in SERVED)
