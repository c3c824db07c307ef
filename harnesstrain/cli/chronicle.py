"""`ht log` as lines: one per candidate, epoch or verdict made by hand, then the curve of solves with its promotions."""

from __future__ import annotations

from collections.abc import Sequence

from harnesstrain.cli.reporting import style_of, wrapped
from harnesstrain.cli.styled import Line, Piece, clipped, line, padded, width_of
from harnesstrain.cli.tables import log_cells, run_cells
from harnesstrain.stages.report.history import LogRow, ceiling, comparable, curve, sparkline
from harnesstrain.stages.report.records import EpochRow
from harnesstrain.store.base import RunSummary

NARROW = 72
"""Columns below which what a row says of itself goes below it."""
LABEL = "solved "


def lines_of(rows: Sequence[LogRow], runs: Sequence[RunSummary], limit: int, width: int | None) -> list[Line]:
    """The newest rows first, then runs; at most `limit`.  `width`: of the terminal; None: nothing is cut."""
    cells = [*map(log_cells, rows), *map(run_cells, runs)][:limit]
    if not cells:
        return []
    widths = [max(width_of(row[at]) for row in cells) for at in range(len(cells[0]) - 1)]
    lines: list[Line] = []
    for row in cells:
        *short, last = row
        pieces = [Piece(f"{padded(cell, wide)}  ", style_of(cell)) for cell, wide in zip(short, widths, strict=True)]
        if width is None or not last:
            lines.append([*pieces, Piece(last)])
        elif width >= NARROW:
            lines.append([*pieces, Piece(clipped(last, max(8, width - sum(widths) - 2 * len(widths))))])
        else:
            lines.append([Piece(f"{cell}  ", style_of(cell)) for cell in short if cell])
            lines += [line("    ", text) for text in wrapped(last, width - 4)]
    return lines


def curve_lines(epochs: Sequence[EpochRow], width: int | None) -> list[Line]:
    """Solves of the baseline, and below them a ▲ wherever it is a promoted candidate; nothing before the first run.

    Where a terminal is too narrow, the newest points.
    """
    points = curve(epochs)
    if not points:
        return []
    alike = comparable(epochs)
    marks = promotions(alike)
    top = ceiling(epochs)
    since = f" since e{alike[0].number}" if len(alike) < len(epochs) else ""
    ends = f" {points[0]} → {points[-1]} of {top}{since}"
    room = len(points) if width is None else max(8, width - len(LABEL) - len(ends))
    lines = [line(LABEL, (sparkline(points, top)[-room:], "green"), ends)]
    if "▲" in marks:
        lines.append(line(" " * len(LABEL), (marks[-room:].rstrip(), "green")))
    return lines


def promotions(epochs: Sequence[EpochRow]) -> str:
    """Below each point of the curve: ▲ where the baseline was promoted since the point before it, else a space."""
    marks = ""
    promoted = False
    for row in epochs:
        if row.base_solved is not None:
            marks += "▲" if promoted else " "
            promoted = False
        promoted = promoted or row.state == "promoted"
    return marks + "▲" * (promoted and epochs[-1].state == "promoted" and epochs[-1].solved is not None)
