"""The harness diff: what the candidate changed.  Git is read by whoever may; this is what is shown of it."""

from __future__ import annotations

from collections.abc import Iterator

from harnesstrain.core.records.base import Record

LINES = 400
"""Of a diff that are shown; the rest is told."""
WIDTH = 400
"""Characters of one line."""


class DiffLine(Record):
    """One line of a diff."""

    kind: str
    """file, hunk, added, removed, context."""
    text: str


class Changes(Record):
    """Baseline to candidate, as a diff."""

    base: str
    cand: str
    files: tuple[str, ...]
    added: int
    removed: int
    lines: tuple[DiffLine, ...]
    left_out: int = 0
    """Lines that are not shown."""


def changes(base: str, cand: str, patch: str) -> Changes:
    """A unified diff as git writes it, line by line."""
    lines = list(_lines(patch))
    return Changes(
        base=base,
        cand=cand,
        files=tuple(line.text for line in lines if line.kind == "file"),
        added=sum(line.kind == "added" for line in lines),
        removed=sum(line.kind == "removed" for line in lines),
        lines=tuple(lines[:LINES]),
        left_out=max(0, len(lines) - LINES),
    )


def _lines(patch: str) -> Iterator[DiffLine]:
    """Headers are counted out by the hunks: a removed line that looks like a header is none."""
    old = new = 0
    for line in patch.split("\n"):
        text = line if len(line) <= WIDTH else line[:WIDTH] + "…"
        if old > 0 or new > 0:
            kind = {"+": "added", "-": "removed", "\\": "context"}.get(line[:1], "context")
            old -= kind != "added" and not line.startswith("\\")
            new -= kind != "removed" and not line.startswith("\\")
            yield DiffLine(kind=kind, text=text)
        elif line.startswith("diff --git "):
            yield DiffLine(kind="file", text=line.partition(" b/")[2] or line)
        elif line.startswith("@@ "):
            old, new = (_count(part) for part in line.split(" ")[1:3])
            yield DiffLine(kind="hunk", text=text)
        elif line.startswith(("Binary files", "rename ", "old mode", "new mode", "new file", "deleted file")):
            yield DiffLine(kind="hunk", text=text)


def _count(span: str) -> int:
    """Lines of `-3,7`; one without a number."""
    _, _, count = span.partition(",")
    return int(count) if count else 1
