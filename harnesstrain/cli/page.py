"""The page of one record: facts, texts, tables, and the commands that go on from it.

A page takes the fields it has words for; whatever is left, a field of a newer version among it, follows as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from harnesstrain.cli.reporting import hanging, table, wrapped
from harnesstrain.cli.styled import Line, line, padded
from harnesstrain.cli.watching import number
from harnesstrain.core.ids import short
from harnesstrain.stages.report.plain import plain
from harnesstrain.stages.report.tables import Table

LABEL = 13
"""Columns of a label."""
WHOLE = 100_000
"""Columns of a line where there is no terminal: nothing is wrapped."""


class Page:
    """The page of one record in the making."""

    def __init__(self, kind: str, id: str, fields: Mapping[str, Any], about: Mapping[str, Any], width: int | None):
        self.kind, self.id = kind, id
        self.about = about
        """What else the store knows of it, by name."""
        self.width = WHOLE if width is None else width
        self.lines: list[Line] = [line((kind, "bold"), f" {id}")]
        self._fields = dict(fields)
        self._next: list[tuple[str, str]] = []

    def take(self, name: str, otherwise: Any = None) -> Any:
        """A field's value; it is not shown again."""
        return self._fields.pop(name, otherwise)

    def fact(self, label: str, text: str, style: str = "") -> None:
        """One fact, where there is something to say."""
        if not text:
            return
        for at, part in enumerate(wrapped(text, self.width - LABEL - 1)):
            self.lines.append(line((padded(label if at == 0 else "", LABEL), "dim"), " ", (part, style)))

    def link(self, label: str, id: str | None, what: str = "") -> None:
        """An id in the form that every command takes."""
        self.fact(label, f"{short(id)}{'  ' + what if what else ''}" if id else "", "cyan" if id and not what else "")

    def block(self, title: str, text: str, style: Callable[[str], str] = lambda _: "") -> None:
        """A text of several lines below its title."""
        if text.strip():
            self.lines += [[], line((title, "bold"))]
            for one in plain(text).rstrip("\n").split("\n"):
                parts = [one] if self.width == WHOLE else hanging(one, self.width - 4)
                self.lines += [line(("  │ ", "dim"), (part, style(one))) for part in parts]

    def table(self, title: str, heads: Iterable[str], rows: Iterable[Iterable[Any]], right: Iterable[str] = ()) -> None:
        """Rows below a title, where there are any."""
        every = tuple(tuple(str(cell) for cell in row) for row in rows)
        if every:
            self.lines += [[], line((title, "bold"))]
            self.lines += table(Table(heads=tuple(heads), rows=every, right=tuple(right)), self.width)

    def then(self, command: str, what: str) -> None:
        """A command that goes on from here."""
        self._next.append((command, what))

    def finished(self) -> list[Line]:
        """All of it, with what is left of the fields and the next commands."""
        for name, value in self._fields.items():
            if name != "id" and value not in (None, "", [], {}, False):
                self.fact(name.replace("_", " "), value if isinstance(value, str) else dumped(value))
        if self._next:
            wide = max(len(command) for command, _ in self._next) + 2
            fits = self.width >= wide + 24
            self.lines.append([])
            for command, what in self._next:
                self.lines.append(line(padded(command, wide) if fits else command, (what if fits else "", "dim")))
        return self.lines


def dumped(value: Any) -> str:
    """A value as JSON for people."""
    return json.dumps(value, ensure_ascii=False)


def tokens(usage: Mapping[str, int] | None) -> str:
    """Token counts in words; empty when there are none."""
    if not usage or not (usage["prompt"] or usage["completion"]):
        return ""
    cached = f" ({number(usage['cached'])} in the model's cache)" if usage["cached"] else ""
    thought = f" ({number(usage['reasoning'])} of reasoning)" if usage["reasoning"] else ""
    return f"{number(usage['prompt'])} prompt{cached}, {number(usage['completion'])} completion{thought}"
