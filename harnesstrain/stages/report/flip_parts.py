"""Where flipped cells part, condensed to a few lines each, for a terminal, a log or a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from harnesstrain.stages.report.flips import FlipDiff, FlipDiffs, FlipSide
from harnesstrain.stages.report.linediff import DiffRow
from harnesstrain.stages.report.plain import one_line
from harnesstrain.stages.report.steplines import StepLine

TOLD = 8
"""Flips told; the others are named."""
CHANGES = 3
"""Changed lines of the first difference."""
WIDE = 150
"""Characters of one of those."""
NAMED = 12
"""Flips named."""


def told(flips: FlipDiffs, most: int = TOLD) -> list[str]:
    """Lines for `most` flips, an empty one between two; then the names of the others and what shows them."""
    lines: list[str] = []
    for flip in flips.shown[:most]:
        lines += [*([""] if lines else []), *_flip(flip)]
    rest = [*(f"{flip.task} s{flip.seed}" for flip in flips.shown[most:]), *flips.left_out]
    if rest:
        named = ", ".join(rest[:NAMED]) + (f" and {len(rest) - NAMED} more" if len(rest) > NAMED else "")
        lines += ["", f"Not told here: {named}. `{flips.command}` lists where each parts."]
    return lines


def _flip(flip: FlipDiff) -> Iterator[str]:
    why = f", {flip.attribution}" if flip.attribution else ""
    yield f"{flip.kind} {flip.task} s{flip.seed}: {_outcome(flip.base)} → {_outcome(flip.cand)}{why}"
    for name, side in (("baseline", flip.base), ("candidate", flip.cand)):
        if side.problem:
            yield f"  {name}: {side.problem}"
    if flip.parted is None:
        return
    if flip.shared:
        steps = f"{flip.shared} steps shared, the last" if flip.shared > 1 else "1 step shared"
        yield f"  {steps}: {_step(flip.prefix[-1])}"
    yield f"  Then the {flip.parted.actor} differs. {flip.parted.sentence}"
    changes = [row for row in flip.parted.differing.rows if row.tag not in ("equal", "folded")]
    for row in changes[:CHANGES]:
        yield from _change(row)
    cut = flip.parted.differing
    if len(changes) > CHANGES or cut.base_left or cut.cand_left:
        yield f"    … and more; `{flip.command}` shows all of it"
    yield f"  baseline:  {_after(flip.base)}"
    yield f"  candidate: {_after(flip.cand)}"


def _change(row: DiffRow) -> Iterator[str]:
    """A changed line of each side, from a little before its first difference on."""
    marks = [side[0].start for side in (row.base_marks, row.cand_marks) if side]
    start = max(0, min(marks, default=0) - WIDE // 3)
    for sign, line in (("−", row.base), ("+", row.cand)):
        if line is not None:
            yield f"    {sign} {'…' if start else ''}{one_line(line[start:], WIDE)}"


def _after(side: FlipSide) -> str:
    """The first command after the two part, and the outcome with its evidence."""
    deed = next((line for line in side.followed if line.kind != "reply"), None)
    deed = deed or next(iter(side.followed), None)
    first = f"{_step(deed)} … " if deed is not None else ""
    return f"{first}{_outcome(side)}" + (f": {one_line(side.detail, WIDE)}" if side.detail else "")


def _step(line: StepLine) -> str:
    exit_code = f" (exit {line.exit_code})" if line.exit_code is not None else ""
    note = f" ({line.note})" if line.note else ""
    return f"{line.kind} {one_line(line.text, WIDE // 2)}".rstrip() + exit_code + note


def _outcome(side: FlipSide) -> str:
    return side.outcome + (f" ({side.reason})" if side.reason else "")
