"""One table, two forms: aligned columns for a terminal, pipes for Markdown."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from harnesstrain.core.records.base import Record
from harnesstrain.stages.report.plain import one_line

CLIP = 60
"""Characters of one cell in a terminal.  A file, a pipe, Markdown and JSON have the whole text."""


class Table(Record):
    """Cells of text under headings.  Columns named in `right` are aligned right."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[str, ...] = ()

    def text(self, indent: str = "  ", *, whole: bool = False) -> list[str]:
        """Lines of aligned columns, two spaces apart.  `whole`: no cell is cut."""
        most = None if whole else CLIP
        lines = [self.heads, *(tuple(one_line(cell, most) for cell in row) for row in self.rows)]
        widths = [max(width(line[column]) for line in lines) for column in range(len(self.heads))]
        return [indent + self._aligned(line, widths) for line in lines]

    def markdown(self) -> list[str]:
        """Lines of a Markdown table."""
        rule = ["---:" if head in self.right else "---" for head in self.heads]
        heads = tuple(escaped(head) for head in self.heads)
        lines = [heads, tuple(rule), *(tuple(escaped(cell) for cell in row) for row in self.rows)]
        return ["| " + " | ".join(line) + " |" for line in lines]

    def _aligned(self, line: Sequence[str], widths: Sequence[int]) -> str:
        cells = []
        for head, cell, wide in zip(self.heads, line, widths, strict=True):
            space = " " * (wide - width(cell))
            cells.append(space + cell if head in self.right else cell + space)
        return "  ".join(cells).rstrip()


class Part(Record):
    """One section of the page."""

    title: str
    sentences: tuple[str, ...] = ()
    table: Table | None = None
    text: str = ""
    """Lines, an estimator's free text among them: shown as they are, never as markup."""


def width(text: str) -> int:
    """Terminal columns of a text: wide characters take two, combining ones none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def escaped(text: str) -> str:
    """One line of text that Markdown shows as it is."""
    flat = one_line(text, None)
    for char in "\\`*_[]<>|~#!":
        flat = flat.replace(char, f"\\{char}")
    return flat.replace("&", "&amp;").replace("@", "&#64;")


def fenced(text: str) -> list[str]:
    """Lines of a Markdown code block that its text cannot end."""
    longest = run = 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *text.rstrip("\n").split("\n"), fence]
