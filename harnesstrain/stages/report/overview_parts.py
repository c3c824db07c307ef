"""The report in short, whether to believe it, and the matrix, as parts."""

from __future__ import annotations

from harnesstrain.stages.report.levers import NONE, words
from harnesstrain.stages.report.matrix import ABSENT, GLYPHS, MEANING, Matrix
from harnesstrain.stages.report.records import Report
from harnesstrain.stages.report.summary import NO, PARTLY, UNKNOWN, YES, checks, summary
from harnesstrain.stages.report.tables import Part, Table

SIGNS = {YES: "✓ yes", NO: "× no", PARTLY: "~ partly", UNKNOWN: "? not known"}


def in_short(report: Report) -> Part:
    """What happened and what is compared."""
    shown = summary(report)
    helped = ("What helped:", *(f"  {one}." for one in shown.helped)) if shown.helped else ()
    return Part(title="In short", sentences=(*shown.happened, *helped, *shown.compared))


def belief(report: Report) -> Part:
    """The questions that decide whether to believe it."""
    rows = tuple((one.about, one.question, SIGNS[one.answer], one.told) for one in checks(report))
    return Part(title="May I believe it", table=Table(heads=("about", "question", "answer", "because"), rows=rows))


def task_by_epoch(matrix: Matrix) -> Part:
    """One row a task, one glyph a version; a plus or minus marks a flip against the baseline of that epoch."""
    title = "Task by epoch"
    if len(matrix.columns) < 2:
        return Part(title=title)
    known = ", ".join(f"{glyph} {MEANING[state]}" for state, glyph in GLYPHS.items() if state != ABSENT)
    lines = (
        f"{len(matrix.rows)} tasks; those that move most first. {matrix.always} solved by every version that "
        f"was measured on them, {matrix.never} by none.",
        f"{known}; + gained, - lost against the baseline of that epoch.",
    )
    heads = ("task", *(column.name for column in matrix.columns))
    rows = tuple((row.task, *(_glyph(place.state, place.moved) for place in row.places)) for row in matrix.rows)
    return Part(title=title, sentences=lines, table=Table(heads=heads, rows=rows))


def what_helped(report: Report) -> Part:
    """Every flip of every change, and where the change acted."""
    rows = tuple(
        (
            f"e{row.number}",
            "gained" if flip.gained else "lost",
            flip.task,
            f"{words(flip.base_outcome)} → {words(flip.cand_outcome)}",
            flip.attribution or "not traced",
            flip.evidence or NONE,
        )
        for row in report.epochs
        for flip in row.every
    )
    heads = ("epoch", "flip", "task", "outcome", "attribution", "evidence")
    return Part(title="Where each change acted", table=Table(heads=heads, rows=rows) if rows else None)


def _glyph(state: str, moved: str) -> str:
    return GLYPHS[state].strip() + {"gained": "+", "lost": "-"}.get(moved, "")
