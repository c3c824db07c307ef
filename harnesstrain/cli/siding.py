"""One cell of two runs for people, for `ht diff --task`: what both share folded, where they part, what followed.

Side by side where the terminal is wide enough, else one side below the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harnesstrain.cli.reporting import hanging
from harnesstrain.cli.styled import Line, Piece, cut, fitting, line, text_of, width_of
from harnesstrain.stages.report.flips import FlipDiff, FlipSide, Parted
from harnesstrain.stages.report.linediff import DiffRow, Mark, SideBySide
from harnesstrain.stages.report.plain import plain
from harnesstrain.stages.report.steplines import StepLine

BESIDE = 120
"""Columns from which on both sides stand beside each other."""
KEPT = 3
"""Shared steps that are shown, the last ones."""


def cell_lines(cell: FlipDiff, width: int | None, *, prefix: Sequence[StepLine] | None = None) -> list[Line]:
    """Everything after the cell's heading.  `width` None: nothing is cut.  `prefix`: all shared steps, not folded."""
    lines = [*_shared(cell, prefix, width), *_parted(cell, width), []]
    half = _half(width)
    base = list(_side("baseline", cell.base, half))
    cand = list(_side("candidate", cell.cand, half))
    if half is not None and half != width:
        return [*lines, *_beside(base, cand, half)]
    return [*lines, *base, *cand]


# --- what both share


def _shared(cell: FlipDiff, prefix: Sequence[StepLine] | None, width: int | None) -> Iterator[Line]:
    if not cell.shared:
        yield line("  no step is shared")
        return
    shown = list(cell.prefix[-KEPT:]) if prefix is None else list(prefix)
    folded = cell.shared - len(shown)
    if folded:
        yield line((f"  {_steps(folded)} folded; --full shows each", "dim"))
    for step in shown:
        yield from _fit([Piece("  = ", "dim"), *_step(step)], width)


def _steps(count: int) -> str:
    return f"{count} shared step{'s' if count > 1 else ''}"


def _step(step: StepLine) -> Line:
    code = f" (exit {step.exit_code})" if step.exit_code is not None else ""
    note = f" ({step.note})" if step.note else ""
    return line((f"{step.index:>4} ", "dim"), (f"{step.kind:6} ", "cyan"), step.text, (code + note, "dim"))


# --- where they part


def _parted(cell: FlipDiff, width: int | None) -> Iterator[Line]:
    yield []
    parted = cell.parted
    if parted is None:
        for side in (cell.base, cell.cand):
            if side.problem:
                yield line("  ", (side.problem, "yellow"))
        return
    yield line((_places(cell), "bold"), ("" if parted.actor == "harness" else f" ({parted.actor})", "yellow"))
    yield from _fit(line(f"  {parted.sentence}"), width)
    if width is not None and width >= BESIDE:
        yield from _columns(parted.differing, _half(width) or 0)
    else:
        yield from _unified(parted.differing)
    yield from _rest(parted)


def _places(cell: FlipDiff) -> str:
    """Where, as `ht show` of either side counts."""
    places = [side.step for side in (cell.base, cell.cand)]
    known = {place for place in places if place is not None}
    if not known:
        return "  they part at the end"
    if len(known) == 1:
        return f"  they part at step {known.pop()}"
    return f"  they part at step {places[0]} of the baseline, {places[1]} of the candidate"


def _rest(parted: Parted) -> Iterator[Line]:
    left = [
        f"{n} of the {name}"
        for n, name in ((parted.differing.base_left, "baseline"), (parted.differing.cand_left, "candidate"))
        if n
    ]
    if left:
        yield line((f"    … {' and '.join(left)} more lines; --full shows them", "dim"))


def _unified(differing: SideBySide) -> Iterator[Line]:
    """Each side's lines of a change together, the baseline's first."""
    base: list[Line] = []
    cand: list[Line] = []
    for row in differing.rows:
        if row.tag in ("equal", "folded"):
            yield from (*base, *cand)
            base, cand = [], []
            yield line(("    ", ""), (_same(row), "dim"))
            continue
        if row.base is not None:
            base.append([Piece("  - ", "red"), *_marked(row.base, row.base_marks, "red")])
        if row.cand is not None:
            cand.append([Piece("  + ", "green"), *_marked(row.cand, row.cand_marks, "green")])
    yield from (*base, *cand)


def _columns(differing: SideBySide, half: int) -> Iterator[Line]:
    """The sides beside each other, long lines cut."""
    for row in differing.rows:
        if row.tag == "folded":
            yield line(("    ", ""), (_same(row), "dim"))
            continue
        equal = row.tag == "equal"
        left = [] if row.base is None else _marked(row.base, row.base_marks, "dim" if equal else "red")
        right = [] if row.cand is None else _marked(row.cand, row.cand_marks, "dim" if equal else "green")
        signs = ("  " if equal or row.base is None else "- ", "  " if equal or row.cand is None else "+ ")
        first = _broken([Piece(f"  {signs[0]}", "red"), *left], half)
        second = _broken([Piece(signs[1], "green"), *right], half)
        for at in range(max(len(first), len(second))):
            pair = [side[at] if at < len(side) else [] for side in (first, second)]
            yield [*_cut(pair[0], half), Piece(" │ ", "dim"), *pair[1]]


def _same(row: DiffRow) -> str:
    return f"… {row.count} equal lines" if row.tag == "folded" else plain(row.base or "")


def _marked(text: str, marks: Sequence[Mark], style: str) -> Line:
    """A line of one side, what the other does not have in bold.  Escape sequences are gone before it is marked."""
    if plain(text) != text:
        return line((text, style))
    pieces: Line = []
    at = 0
    for mark in marks:
        pieces += [Piece(text[at : mark.start], style), Piece(text[mark.start : mark.end], f"{style} bold")]
        at = mark.end
    return [piece for piece in (*pieces, Piece(text[at:], style)) if piece.text]


# --- what followed


def _side(name: str, side: FlipSide, width: int | None) -> Iterator[Line]:
    reason = f" ({side.reason})" if side.reason else ""
    colour = "green" if side.outcome == "solved" else "red"
    yield line((f"  {name}: ", "bold"), (f"{side.outcome}{reason}", colour))
    if side.detail and side.detail != side.outcome:
        yield from _fit(line(f"    {side.detail}"), width)
    for step in side.followed:
        yield from _fit([Piece("    "), *_step(step)], width)
    if side.left:
        yield line((f"         … {side.left} more", "dim"))
    if side.tail:
        yield line((f"    the end of {side.tail_of}:", "dim"))
        for text in side.tail.split("\n"):
            yield from _fit(line(("      │ ", "dim"), text), width)
    yield line((f"    `{side.command}` shows all of it", "dim"))


def _beside(left: Sequence[Line], right: Sequence[Line], room: int) -> Iterator[Line]:
    for at in range(max(len(left), len(right))):
        first = _cut(left[at], room) if at < len(left) else [Piece(" " * room)]
        second = right[at] if at < len(right) else []
        yield [*first, Piece(" │ ", "dim"), *_cut(second, room)]


# --- fitting


def _half(width: int | None) -> int | None:
    """Columns of one side."""
    return None if width is None else (width - 3) // 2 if width >= BESIDE else width


def _cut(found: Line, columns: int) -> Line:
    """The line in exactly so many columns."""
    kept = cut(found, columns)
    return [*kept, Piece(" " * (columns - sum(width_of(piece.text) for piece in kept)))]


def _broken(found: Line, columns: int) -> list[Line]:
    """The line in as many lines of so many columns as it needs."""
    lines: list[Line] = [[]]
    room = columns
    for text, style in found:
        rest = text
        while (fits := fitting(rest, room)) != rest:
            lines[-1].append(Piece(fits, style))
            lines.append([Piece("    ")])
            rest, room = rest[len(fits) :], columns - 4
        lines[-1].append(Piece(rest, style))
        room -= width_of(rest)
    return lines


def _fit(found: Line, width: int | None) -> Iterator[Line]:
    """The line; where it is too wide, without its styles in several lines."""
    if width is None or width_of(text_of(found)) <= width:
        yield found
    else:
        yield from (line(part) for part in hanging(text_of(found), width))
