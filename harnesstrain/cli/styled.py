"""Lines with styles: data that a terminal shows in colour and a pipe as plain text.  Foreign text is cleaned here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from harnesstrain.stages.report.plain import plain
from harnesstrain.stages.report.tables import width

if TYPE_CHECKING:
    from rich.text import Text


class Piece(NamedTuple):
    """Text in one style."""

    text: str
    style: str = ""
    """As rich names it; empty: none."""


Line = list[Piece]
"""Pieces in a row."""

_CODES = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
"""The words of a style, as the terminal's own colours: readable on light and on dark."""


def line(*parts: str | tuple[str, str]) -> Line:
    """A line of parts, each a text or a text with its style.  No part can move the cursor or end the line."""
    return [Piece(_flat(part), "") if isinstance(part, str) else Piece(_flat(part[0]), part[1]) for part in parts]


def text_of(found: Line) -> str:
    """The line without its styles."""
    return "".join(piece.text for piece in found).rstrip()


def flowed(facts: Sequence[str], width: int, indent: str = "  ") -> list[Line]:
    """Facts in a row, apart by a dot; those that do not fit go on in the next line."""
    lines: list[str] = []
    for fact in facts:
        if lines and len(lines[-1]) + 3 + len(fact) <= width:
            lines[-1] += f" · {fact}"
        else:
            lines.append(indent + fact)
    return [line(one) for one in lines]


def rich_text(found: Line, width: int | None = None) -> Text:
    """The line for rich, cut to `width` columns."""
    from rich.text import Text

    made = Text(no_wrap=True, overflow="ellipsis", end="")
    for piece in found:
        made.append(piece.text, piece.style or None)
    if width is not None:
        made.truncate(width, overflow="ellipsis")
    return made


def ansi(found: Line) -> str:
    """The line with its styles as escape sequences."""
    made = []
    for piece in found:
        codes = [_CODES[word] for word in piece.style.split() if word in _CODES]
        made.append(f"\x1b[{';'.join(codes)}m{piece.text}\x1b[0m" if codes and piece.text else piece.text)
    return "".join(made).rstrip(" ")


def width_of(text: str) -> int:
    """Terminal columns of a text."""
    return len(text) if text.isascii() else width(text)


def fitting(text: str, columns: int) -> str:
    """The longest beginning of a text that fits so many columns."""
    if text.isascii():
        return text[: max(0, columns)]
    used = 0
    for at, char in enumerate(text):
        used += width(char)
        if used > columns:
            return text[:at]
    return text


def clipped(text: str, columns: int) -> str:
    """The text in at most so many columns; an ellipsis says that it is cut."""
    fits = fitting(text, columns)
    if fits == text or columns <= 0:
        return fits
    return fitting(text, columns - 1).rstrip() + "…"


def cut(found: Line, columns: int) -> Line:
    """The line in at most so many columns."""
    kept: Line = []
    for piece in found:
        if columns <= 0:
            break
        text = clipped(piece.text, columns)
        kept.append(Piece(text, piece.style))
        columns -= width_of(text)
    return kept


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """The text filled up to so many columns."""
    space = " " * max(0, columns - width_of(text))
    return space + text if right else text + space


def _flat(text: str) -> str:
    """One line of plain text; spaces are kept."""
    return plain(text).replace("\n", " ").replace("\t", " ")
