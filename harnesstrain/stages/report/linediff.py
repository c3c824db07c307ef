"""Two texts side by side, line by line: what is equal folded with a count, what changed marked word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from harnesstrain.core.records.base import Record

CONTEXT = 2
"""Equal lines shown around a change."""
ROWS = 60
"""Rows shown of one comparison."""
WIDTH = 400
"""Characters shown of one line."""
COMPARED = 300
"""Lines between the first and the last difference that are aligned; texts that differ in more are cut there."""
LEAD = 60
"""Characters shown before the first difference of a line that is too long to show."""
WORDS = 120
"""Words between the first and the last difference of two lines that are aligned; of more, all count as changed."""

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


class Mark(Record):
    """A stretch of a line that the other side does not have: characters `start` to `end`."""

    start: int
    end: int


class DiffRow(Record):
    """One line of each side, next to each other."""

    tag: str
    """equal, changed (both sides have a line), removed (only the baseline), added (only the candidate), folded."""
    base: str | None = None
    """None: the side has no line here.  Of a long line only a part, and it says so."""
    cand: str | None = None
    base_marks: tuple[Mark, ...] = ()
    """changed: what of the line is not on the other side; empty when hardly a word is the same."""
    cand_marks: tuple[Mark, ...] = ()
    count: int = 0
    """folded: equal lines that are left out."""


class SideBySide(Record):
    """Two texts, aligned."""

    rows: tuple[DiffRow, ...] = ()
    base_left: int = 0
    """Lines of the baseline's text after the last row."""
    cand_left: int = 0

    @property
    def differs(self) -> bool:
        """Whether any line shown is not the same on both sides."""
        return any(row.tag not in ("equal", "folded") for row in self.rows)


def side_by_side(
    base: str | None, cand: str | None, *, context: int = CONTEXT, rows: int = ROWS, width: int = WIDTH
) -> SideBySide:
    """Two texts, aligned.  None: that side has no text at all, not even an empty line."""
    left, right = _lines(base), _lines(cand)
    shown: list[DiffRow] = []
    seen = [0, 0]
    for row in _folded(list(_aligned(left, right, width)), context):
        if len(shown) == rows:
            break
        shown.append(row)
        seen[0] += row.count if row.tag == "folded" else row.base is not None
        seen[1] += row.count if row.tag == "folded" else row.cand is not None
    return SideBySide(rows=tuple(shown), base_left=len(left) - seen[0], cand_left=len(right) - seen[1])


def _lines(text: str | None) -> list[str]:
    return [] if text is None else text.split("\n")


def _aligned(left: Sequence[str], right: Sequence[str], width: int) -> Iterator[DiffRow]:
    """A row for every line; stops where the texts differ in too many lines to be aligned."""
    start, end = _shared(left, right)
    middle, other = left[start : len(left) - end], right[start : len(right) - end]
    for line in left[:start]:
        yield _equal(line, width)
    matcher = SequenceMatcher(None, middle[:COMPARED], other[:COMPARED], autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            for line in middle[i:j]:
                yield _equal(line, width)
            continue
        both = min(j - i, m - k)
        for one, two in zip(middle[i : i + both], other[k : k + both], strict=True):
            yield _changed(one, two, width)
        for line in middle[i + both : j]:
            yield DiffRow(tag="removed", base=_cut(line, 0, width))
        for line in other[k + both : m]:
            yield DiffRow(tag="added", cand=_cut(line, 0, width))
    if max(len(middle), len(other)) <= COMPARED:
        for line in left[len(left) - end :]:
            yield _equal(line, width)


def _shared(left: Sequence[object], right: Sequence[object]) -> tuple[int, int]:
    """How many members two sequences share at their start, and how many of the others at their end."""
    most = min(len(left), len(right))
    start = next((i for i in range(most) if left[i] != right[i]), most)
    most -= start
    end = next((i for i in range(most) if left[-1 - i] != right[-1 - i]), most)
    return start, end


def _folded(rows: Sequence[DiffRow], context: int) -> Iterator[DiffRow]:
    """The rows, stretches of equal ones that no change is near replaced by a count."""
    near = {
        by
        for place, row in enumerate(rows)
        if row.tag != "equal"
        for by in range(max(0, place - context), min(len(rows), place + context + 1))
    }
    hidden: list[DiffRow] = []
    for place, row in enumerate(rows):
        if place not in near:
            hidden.append(row)
            continue
        yield from _fold(hidden)
        hidden = []
        yield row
    yield from _fold(hidden)


def _fold(hidden: Sequence[DiffRow]) -> Iterator[DiffRow]:
    if len(hidden) > 1:
        yield DiffRow(tag="folded", count=len(hidden))
    else:
        yield from hidden


def _equal(line: str, width: int) -> DiffRow:
    shown = _cut(line, 0, width)
    return DiffRow(tag="equal", base=shown, cand=shown)


def _changed(one: str, two: str, width: int) -> DiffRow:
    start = 0
    if max(len(one), len(two)) > width:
        start = max(0, _shared(one, two)[0] - LEAD)
    base, cand = _cut(one, start, width), _cut(two, start, width)
    marks = _marks(base, cand)
    return DiffRow(tag="changed", base=base, cand=cand, base_marks=marks[0], cand_marks=marks[1])


def _cut(line: str, start: int, width: int) -> str:
    """The part of a line from `start` on, saying how much is left out on either side."""
    if len(line) <= width:
        start = 0
    rest = len(line) - start - width
    before = f"({start} characters) … " if start else ""
    return before + line[start : start + width] + (f" … ({rest} more characters)" if rest > 0 else "")


def _marks(base: str, cand: str) -> tuple[tuple[Mark, ...], tuple[Mark, ...]]:
    left, right = _WORD.findall(base), _WORD.findall(cand)
    start, end = _shared(left, right)
    middle, other = left[start : len(left) - end], right[start : len(right) - end]
    if max(len(middle), len(other)) > WORDS:
        codes = [("replace", 0, len(middle), 0, len(other))]
    else:
        codes = [*SequenceMatcher(None, middle, other, autojunk=False).get_opcodes()]
    same = [*left[:start], *(word for code in codes if code[0] == "equal" for word in middle[code[1] : code[2]])]
    same += left[len(left) - end :]
    if sum(len(word.strip()) for word in same) * 4 < max(len(base), len(cand)):
        return (), ()
    changed = [code for code in codes if code[0] != "equal"]
    return (
        _placed(left, [(start + code[1], start + code[2]) for code in changed]),
        _placed(right, [(start + code[3], start + code[4]) for code in changed]),
    )


def _placed(words: Sequence[str], stretches: Sequence[tuple[int, int]]) -> tuple[Mark, ...]:
    """Stretches of words as stretches of characters."""
    ends = [0]
    for word in words:
        ends.append(ends[-1] + len(word))
    return tuple(Mark(start=ends[i], end=ends[j]) for i, j in stretches if j > i)
