"""Where flipped cells part, condensed to a few lines each, for a terminal, a log or a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    yield f"  {_place(flip)} the {flip.parted.actor} does something else. {flip.parted.sentence}"
    cut = flip.parted.differing
    changes = [row for row in cut.rows if row.tag not in ("equal", "folded") and _says(row)]
    for sign, line in (*_lines(changes[:CHANGES], base=True), *_lines(changes[:CHANGES], base=False)):
        yield f"    {sign} {line}"
    if len(changes) > CHANGES or cut.base_left or cut.cand_left:
        yield f"    … and more; `{flip.command}` shows all of it"
    yield f"  baseline:  {_after(flip.base)}"
    yield f"  candidate: {_after(flip.cand)}"


def _place(flip: FlipDiff) -> str:
    """Where the two part, as `ht show` of either side counts."""
    base, cand = flip.base.step, flip.cand.step
    if base is None and cand is None:
        return "At the end"
    if base is None or cand is None:
        ended, other, step = ("baseline", "candidate", cand) if base is None else ("candidate", "baseline", base)
        return f"Where the {ended} ended, at step {step} of the {other},"
    return f"At step {base}" if base == cand else f"At step {base} of the baseline, {cand} of the candidate,"


def _says(row: DiffRow) -> bool:
    return bool((row.base or "").strip() or (row.cand or "").strip())


def _lines(rows: Sequence[DiffRow], *, base: bool) -> Iterator[tuple[str, str]]:
    """Changed lines of one side, each from a little before its first difference on."""
    for row in rows:
        line = row.base if base else row.cand
        if line is None or not line.strip():
            continue
        start = max(0, min((mark.start for mark in (*row.base_marks, *row.cand_marks)), default=0) - WIDE // 3)
        yield "−" if base else "+", f"{'…' if start else ''}{one_line(line[start:], WIDE)}"


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
