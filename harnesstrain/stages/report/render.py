"""A report as text, Markdown or JSON.  Same report, same bytes.  Another form (HTML) is one more function here."""

from __future__ import annotations

import json
from typing import Any

from harnesstrain.stages.report.plain import plain
from harnesstrain.stages.report.records import Report
from harnesstrain.stages.report.sections import parts, title
from harnesstrain.stages.report.tables import escaped, fenced


def to_text(report: Report, *, whole: bool = True) -> str:
    """Plain text for a terminal or a log: no colour, no markup, no escape sequences.

    Without `whole` long cells are cut, so that a table fits a terminal.
    """
    lines = [title(report)]
    for part in parts(report):
        lines += ["", part.title]
        lines += [f"  {sentence}" for sentence in part.sentences]
        if part.table is not None:
            lines += part.table.text(whole=whole)
        if part.text:
            lines += [f"  │ {line}" for line in part.text.rstrip("\n").split("\n")]
    return plain("\n".join(lines)) + "\n"


def to_markdown(report: Report) -> str:
    """Markdown for a pull request or a file.  Foreign text cannot become markup."""
    lines = [f"# {title(report)}"]
    for part in parts(report):
        lines += ["", f"## {part.title}"]
        if part.sentences:
            lines += ["", *(f"{escaped(sentence)}  " for sentence in part.sentences[:-1]), escaped(part.sentences[-1])]
        if part.table is not None:
            lines += ["", *part.table.markdown()]
        if part.text:
            lines += ["", *fenced(part.text)]
    return plain("\n".join(lines)) + "\n"


def to_json(report: Report) -> dict[str, Any]:
    """Every field, as plain JSON values; infinity is the text "Infinity"."""
    loaded: dict[str, Any] = json.loads(report.model_dump_json())
    return loaded
