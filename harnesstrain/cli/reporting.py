"""A report on a terminal: the same parts in the same order, in colour, fitted to its width.

A table keeps its short columns and wraps its long ones; where even that does not fit, the long ones go below each row,
and where that does not fit, each row becomes a card.  A column that says nothing is left out.  A pipe gets the plain,
whole text instead.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from harnesstrain.cli.styled import Line, Piece, clipped, fitting, line, padded, width_of
from harnesstrain.stages.report.plain import one_line, plain
from harnesstrain.stages.report.sections import NONE
from harnesstrain.stages.report.tables import Part, Table

LEAST = 16
"""Columns up to which a cell is never wrapped."""
LONGEST = 24
"""Columns of a word from which on it may be broken."""
FEWEST = 2
"""Columns that stay beside each other when the others go below."""
GLYPH = 4
"""Columns of a cell of a matrix, at most."""
MATRIX = 6
"""So many such columns make a table a matrix: where it does not fit it is cropped, never broken up."""
GAP = 2
GLYPHS = {
    **dict.fromkeys("▲△●✓", "green"),
    **dict.fromkeys("×", "red"),
    **dict.fromkeys("?!◐~", "yellow"),
    **dict.fromkeys("○·⊘", "dim"),
}
MORE = "{} more columns before these, in a wider terminal or in a pipe"
SIGNS = {"+": "green", "-": "red", "−": "red"}
WORDS = {"gained": "green", "lost": "red", "hollow": "dim", "unmeasurable": "yellow", "excluded": "yellow"}


def render(title: str, parts: Sequence[Part], width: int) -> list[Line]:
    """Lines of at most `width` columns."""
    lines: list[Line] = [line((clipped(title, width), "bold"))]
    for part in parts:
        lines += [[], line((clipped(part.title, width), "bold cyan"))]
        for sentence in part.sentences:
            fitted = hanging(sentence, width - 2) if sentence.startswith(" ") else wrapped(sentence, width - 2)
            lines += [line(f"  {text}") for text in fitted]
        if part.table is not None:
            lines += table(part.table, width)
        for text in plain(part.text).rstrip("\n").split("\n") if part.text else ():
            lines += [line(("  │ ", "dim"), (piece, sign_of(text))) for piece in hanging(text, width - 4)]
    return lines


def table(found: Table, width: int) -> list[Line]:
    """A table fitted to `width` columns."""
    rows = [tuple(one_line(cell) for cell in row) for row in found.rows]
    kept = [at for at in range(len(found.heads)) if any(row[at] not in ("", NONE) for row in rows)]
    heads = [one_line(found.heads[at]) for at in kept]
    cells = [[row[at] for at in kept] for row in rows]
    right = [found.heads[at] in found.right for at in kept]
    shape = _Shape(heads, cells, right)
    if (fitted := shape.fitted(range(len(heads)), width - 2)) is not None:
        return [*_heads(shape, fitted), *(one for row in cells for one in _rows(shape, row, fitted))]
    if sum(wide <= GLYPH for wide in shape.widths[1:]) >= MATRIX:
        return list(_cropped(shape, width))
    below: list[int] = []
    while len(heads) - len(below) > FEWEST:
        below.append(max((at for at in range(1, len(heads)) if at not in below), key=lambda at: shape.widths[at]))
        fitted = shape.fitted([at for at in range(len(heads)) if at not in below], width - 2)
        if fitted is not None:
            return list(_stacked(shape, fitted, sorted(below), width))
    return list(_cards(heads, cells, width))


def hanging(text: str, width: int) -> list[str]:
    """A line of a text as lines of at most `width` columns; what goes on is indented further than it."""
    lead = len(text) - len(text.lstrip(" "))
    if lead + 2 >= width // 2:
        return wrapped(text, width)
    first, *rest = wrapped(text.strip(), width - lead - 2)
    return [" " * lead + first, *(" " * (lead + 2) + more for more in rest)]


class _Shape:
    """A table and how wide its columns are."""

    def __init__(self, heads: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
        self.heads, self.rows, self.right = heads, rows, right
        columns = list(zip(heads, *rows, strict=True))
        self.widths = [max(map(width_of, column)) for column in columns]
        words = [max((width_of(word) for cell in column for word in cell.split()), default=0) for column in columns]
        self.least = [min(wide, max(LEAST, min(word, LONGEST))) for wide, word in zip(self.widths, words, strict=True)]

    def fitted(self, columns: Sequence[int], room: int) -> dict[int, int] | None:
        """Widths of these columns that fit: the longest give way first, none below its least.  None: they cannot."""
        room -= GAP * (len(columns) - 1)
        found = {at: max(self.least[at], min(self.widths[at], room)) for at in columns}
        while sum(found.values()) > room:
            longest = max(found, key=lambda at: found[at] - self.least[at])
            if found[longest] == self.least[longest]:
                return None
            found[longest] -= 1
        return found


def wrapped(text: str, width: int) -> list[str]:
    """One line of text as lines of at most `width` columns; a word that is longer is broken."""
    lines: list[str] = []
    for rough in textwrap.wrap(plain(text), max(1, width), break_on_hyphens=False, expand_tabs=False) or [""]:
        while (fits := fitting(rough, width)) != rough:  # wide characters take two columns
            fits = fits or rough[:1]
            lines.append(fits)
            rough = rough[len(fits) :]
        lines.append(rough)
    return lines


def _heads(shape: _Shape, widths: Mapping[int, int]) -> Iterator[Line]:
    yield _row(shape, {at: clipped(shape.heads[at], wide) for at, wide in widths.items()}, widths, style="dim")


def _rows(shape: _Shape, row: Sequence[str], widths: Mapping[int, int]) -> Iterator[Line]:
    """A row, in as many lines as its longest cell needs."""
    columns = {at: wrapped(row[at], wide) for at, wide in widths.items()}
    for index in range(max(map(len, columns.values()))):
        texts = {at: column[index] if index < len(column) else "" for at, column in columns.items()}
        yield _row(shape, texts, widths, of=row)


def _stacked(shape: _Shape, widths: Mapping[int, int], below: Sequence[int], width: int) -> Iterator[Line]:
    """The long columns below each row."""
    yield from _heads(shape, widths)
    for row in shape.rows:
        yield from _rows(shape, row, widths)
        for at in below:
            if row[at] not in ("", NONE):
                head = f"{shape.heads[at]}: "
                for index, text in enumerate(wrapped(head + row[at], width - 6)):
                    lead = head if index == 0 and text.startswith(head) else ""
                    yield line("      ", (lead, "dim"), (text.removeprefix(lead), style_of(row[at])))


def _row(
    shape: _Shape,
    cells: Mapping[int, str],
    widths: Mapping[int, int],
    *,
    style: str = "",
    of: Sequence[str] = (),
    gap: int = GAP,
) -> Line:
    pieces = [Piece("  ")]
    for at, cell in cells.items():
        filled = padded(cell, widths[at], right=shape.right[at])
        pieces += [Piece(filled, style or (style_of(of[at]) if of else "")), Piece(" " * gap)]
    return pieces[:-1]


def _cropped(shape: _Shape, width: int) -> Iterator[Line]:
    """The first column and as many of the last ones as fit."""
    first = min(shape.widths[0], max(8, width // 3))
    room, start = width - 2 - first, len(shape.heads)
    while start > 1 and room > shape.widths[start - 1]:
        start -= 1
        room -= shape.widths[start] + 1
    widths = {0: first, **{at: shape.widths[at] for at in range(start, len(shape.heads))}}
    for row in (shape.heads, *shape.rows):
        style = "dim" if row is shape.heads else ""
        yield _row(
            shape, {at: clipped(row[at], wide) for at, wide in widths.items()}, widths, style=style, of=row, gap=1
        )
    if start > 1:
        yield from (line((f"  {text}", "dim")) for text in wrapped(MORE.format(start - 1), width - 2))


def _cards(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[Line]:
    """Each row as lines of `head: value`, what it does not say left out."""
    name = min(max(map(width_of, heads)), max(4, width // 3))
    for row in rows:
        for at, (head, cell) in enumerate(zip(heads, row, strict=True)):
            if cell in ("", NONE):
                continue
            for index, text in enumerate(wrapped(cell, max(8, width - name - 6))):
                lead = padded(clipped(head, name), name) if index == 0 else " " * name
                yield line("  " if at else "- ", (lead, "dim"), "  ", (text, style_of(cell)))


def style_of(cell: str) -> str:
    """The colour of a cell; what it means is always also in its words."""
    if len(cell) == 2 and cell[0] in GLYPHS and cell[1] in SIGNS:
        return f"{SIGNS[cell[1]]} bold"
    return GLYPHS.get(cell[:1], "") or WORDS.get(cell, "")


def sign_of(text: str) -> str:
    """The colour of a line of a diff."""
    start = text.lstrip()[:2]
    return {"− ": "red", "+ ": "green"}.get(start, "")
