"""The transition table and the headline, as the template shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harnesstrain.core.records.base import Record
from harnesstrain.judge.transitions import Transition
from harnesstrain.stages.report.records import Report


class Flow(Record):
    """The transition table: baseline outcomes as rows, candidate outcomes as columns."""

    heads: tuple[str, ...]
    rows: tuple[FlowRow, ...]


class FlowRow(Record):
    """One baseline outcome."""

    name: str
    cells: tuple[FlowCell, ...]


class FlowCell(Record):
    """One place of the table."""

    count: int
    tasks: tuple[str, ...]
    same: bool
    """Both sides ended so."""
    shade: int
    """0 to 4, by its share of all cells."""
    kind: str
    """gained, lost, or empty."""


def flow(transitions: Sequence[Transition]) -> Flow:
    """The transition table, outcomes in the order in which they first appear (best first)."""
    heads = _ordered(one.cand for one in transitions)
    names = _ordered(one.base for one in transitions)
    every = sum(len(one.cells) for one in transitions)
    found = {(one.base, one.cand): one.cells for one in transitions}
    order = [*names, *(head for head in heads if head not in names)]
    columns = tuple(sorted(heads, key=order.index))
    rows = [
        FlowRow(name=name, cells=tuple(_flow_cell(name, head, found.get((name, head), ()), every) for head in columns))
        for name in names
    ]
    return Flow(heads=columns, rows=tuple(rows))


def _flow_cell(base: str, cand: str, tasks: Sequence[str], every: int) -> FlowCell:
    shade = min(4, 1 + int(4 * len(tasks) / every)) if tasks else 0
    kind = "gained" if cand == "solved" != base else "lost" if base == "solved" != cand else ""
    return FlowCell(count=len(tasks), tasks=tuple(tasks), same=base == cand, shade=shade, kind=kind)


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def compared(report: Report) -> str:
    """The epoch whose change is compared, and its hypothesis; empty when it is none."""
    shown = report.verdict
    row = next((row for row in report.epochs if shown and shown.id and row.verdict == shown.id), None)
    return f"e{row.number} “{row.hypothesis}”" if row else ""


def headline(report: Report) -> str:
    """Title of the page and of its window."""
    head = report.header
    if name := compared(report):
        return f"{head.panel}, {name}"
    cand = f" → {head.cand_commit[:8]}" if head.cand_commit else ""
    return f"{head.panel}: {head.base_commit[:8]}{cand}"
