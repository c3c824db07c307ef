"""Charts as SVG that follow the page's colours.  Altair says what is shown, vl-convert draws it, without a browser.

Each chart is drawn twice, for a wide and for a narrow screen, so that its letters stay readable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from harnesstrain.core.records.base import Record
from harnesstrain.stages.report.history import comparable
from harnesstrain.stages.report.records import EpochRow
from harnesstrain.stages.report.spending import TaskLevers

WIDE, NARROW = 960, 300
"""Width of the plotted area, pixels."""
INK, MUTED, GRID = "#010101", "#020202", "#030303"
GOOD, BAD, DOUBT, BASE, CAND = "#040404", "#050505", "#060606", "#070707", "#080808"
COLOURS = {
    INK: "ink", MUTED: "muted", GRID: "grid", GOOD: "good", BAD: "bad", DOUBT: "doubt", BASE: "base", CAND: "cand",
}  # fmt: skip
"""Stand-ins that a drawn chart uses, and the page's colours that take their place."""
CROSS = "M-1,-1L1,1M1,-1L-1,1"
"""A shape of strokes."""
STATES = {
    "promoted": ("triangle-up", GOOD, "▲"),
    "selected": ("triangle-up", GOOD, "▲"),
    "rejected": (CROSS, BAD, "×"),
    "unmeasurable": ("diamond", DOUBT, "◆"),
    "skipped": ("circle", MUTED, "●"),
    "failed": ("square", DOUBT, "■"),
    "abandoned": ("circle", MUTED, "●"),
}
"""Shape and colour of an epoch's point, and a letter that looks like it."""
MOST = 40
"""Tasks in one chart."""


class Figure(Record):
    """One chart."""

    wide: str
    """SVG."""
    narrow: str


def solve_curve(epochs: Sequence[EpochRow], top: int) -> Figure | None:
    """Solves of the baseline before each epoch as a line, each candidate as a point with its interval.

    Of the newest epochs that can be compared: a curve over two models or panels would show what no change did.
    """
    epochs = comparable(epochs)
    if not any(row.base_solved is not None for row in epochs):
        return None
    line = [{"epoch": row.number, "solved": row.base_solved} for row in epochs if row.base_solved is not None]
    if epochs[-1].state == "promoted" and epochs[-1].solved is not None:
        line.append({"epoch": epochs[-1].number + 1, "solved": epochs[-1].solved})
    points = [point for row in epochs if (point := _point(row)) is not None]
    if not points:  # the first epoch has just begun
        return None
    return _both(lambda width: _curve(line, points, top, width), "curve")


def shapes(epochs: Sequence[EpochRow]) -> tuple[tuple[str, str, str], ...]:
    """What the points of the curve mean: state, a letter of that shape, its colour."""
    known = {row.state for row in epochs}
    return tuple((name, glyph, COLOURS[colour]) for name, (_, colour, glyph) in STATES.items() if name in known)


def _point(row: EpochRow) -> dict[str, Any] | None:
    shown = _height(row)
    if shown is None or row.state not in STATES:
        return None
    cells = (row.cells or 0) - row.unmeasurable
    band = row.interval
    return {
        "epoch": row.number,
        "solved": shown,
        "state": row.state,
        "low": band.low * cells if band and row.solved is not None else None,
        "high": band.high * cells if band and row.solved is not None else None,
        "whole": not row.not_needed,
        "said": f"e{row.number} {row.state}, {shown} solved",
    }


def _height(row: EpochRow) -> int | None:
    """Solves of the candidate; where it was measured in part, those of the baseline plus and minus its flips."""
    if row.solved is None or not row.not_needed or row.base_solved is None:
        return row.solved if row.solved is not None else row.base_solved
    return row.base_solved + sum(1 if flip.gained else -1 for flip in row.flips)


def _curve(line: list[dict[str, Any]], points: list[dict[str, Any]], top: int, width: int) -> Any:
    import altair as alt

    last = max(one["epoch"] for one in [*line, *points])
    numbered = max(one["epoch"] for one in points)
    x = alt.X(
        "epoch:Q",
        title="epoch",
        scale=alt.Scale(domain=[0.5, last + 0.5], nice=False),
        axis=alt.Axis(values=_ticks(numbered, 15 if width == WIDE else 6), format="d", grid=False),
    )
    y = alt.Y("solved:Q", title="solved", scale=alt.Scale(domain=[0, top]), axis=alt.Axis(tickMinStep=1, format="d"))
    known = [state for state in STATES if any(one["state"] == state for one in points)]
    shape = alt.Shape("state:N", scale=alt.Scale(domain=known, range=[STATES[one][0] for one in known]), legend=None)
    colour = alt.Color("state:N", scale=alt.Scale(domain=known, range=[STATES[one][1] for one in known]), legend=None)
    banded = [one for one in points if one["low"] is not None]
    rules = alt.Chart(_data(banded)).mark_rule(strokeWidth=5, opacity=0.22)
    shown = alt.Chart(_data(points)).mark_point(size=80, strokeWidth=2.5)
    steps = alt.Chart(_data(line)).mark_line(interpolate="step", color=INK, strokeWidth=2)
    fill = alt.Fill("state:N", scale=alt.Scale(domain=known, range=[STATES[one][1] for one in known]), legend=None)
    whole = alt.condition("datum.whole", alt.value(1), alt.value(0.45))
    layers = [
        rules.encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour),
        steps.encode(x=x, y=y),
        shown.encode(x=x, y=y, shape=shape, color=colour, description="said:N", fill=fill, opacity=whole),
    ]
    return alt.layer(*layers).properties(width=width, height=240 if width == WIDE else 200)


def _ticks(last: int, most: int) -> list[int]:
    step = max(1, -(-last // most))
    return [1, *(number for number in range(step, last + 1, step) if number > 1)]


def dumbbells(tasks: Sequence[TaskLevers]) -> Figure | None:
    """Tokens of each compared cell, baseline to candidate; those that changed most first, at most MOST."""
    several = len({one.seed for one in tasks}) > 1
    moved = [
        (f"{one.task} s{one.seed}" if several else one.task, one.base.usage.total, one.cand.usage.total)
        for one in tasks
        if one.cand is not None and one.cand.usage.total != one.base.usage.total
    ]
    moved.sort(key=lambda one: (-abs(one[2] - one[1]), one[0]))
    shown = [{"task": task, "base": base, "cand": cand} for task, base, cand in moved[:MOST]]
    return _both(lambda width: _bells(shown, width), "bells") if shown else None


def _bells(rows: list[dict[str, Any]], width: int) -> Any:
    import altair as alt

    sides = [
        {"task": row["task"], "tokens": row[side], "side": name}
        for row in rows
        for side, name in (("base", "baseline"), ("cand", "candidate"))
    ]
    labels = alt.Axis(labelLimit=180 if width == WIDE else 120)
    y = alt.Y("task:N", sort=[row["task"] for row in rows], title=None, axis=labels)
    scale = alt.Scale(zero=True, nice=True)
    axis = alt.Axis(format=",", tickCount=6 if width == WIDE else 4)
    legend = alt.Legend(title=None, orient="top")
    names = ["baseline", "candidate"]
    colour = alt.Color("side:N", scale=alt.Scale(domain=names, range=[BASE, CAND]), legend=legend)
    shape = alt.Shape("side:N", scale=alt.Scale(domain=names, range=["circle", "diamond"]), legend=legend)
    x = alt.X("base:Q", title="tokens", scale=scale, axis=axis)
    rule = alt.Chart(_data(rows)).mark_rule(color=MUTED, strokeWidth=2)
    dots = alt.Chart(_data(sides)).mark_point(filled=True, size=70, opacity=1)
    layers = [
        rule.encode(y=y, x=x, x2="cand:Q"),
        dots.encode(y=y, x=alt.X("tokens:Q", title="tokens", scale=scale, axis=axis), color=colour, shape=shape),
    ]
    inner = width if width == WIDE else width - 70
    return alt.layer(*layers).properties(width=inner - (140 if width == WIDE else 0), height=alt.Step(20))


def _data(rows: list[dict[str, Any]]) -> Any:
    import altair as alt

    return alt.InlineData(values=rows)


def _both(chart: Callable[[int], Any], name: str) -> Figure:
    return Figure(wide=_drawn(chart(WIDE), f"{name}-w"), narrow=_drawn(chart(NARROW), f"{name}-n"))


def _drawn(chart: Any, name: str) -> str:
    """The chart as SVG: colours of the page, ids that no other chart on the page uses."""
    import vl_convert

    axis = {
        "labelColor": INK,
        "titleColor": INK,
        "domainColor": MUTED,
        "tickColor": MUTED,
        "gridColor": GRID,
        "tickSize": 4,
    }
    config = {
        "background": "transparent",
        "view": {"stroke": None},
        "font": "Arial, Liberation Sans, Helvetica, sans-serif",
        "padding": {"left": 30, "right": 10, "top": 5, "bottom": 5},
        "axis": {**axis, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"},
        "legend": {"labelColor": INK, "labelFontSize": 12, "symbolSize": 80},
    }
    spec = chart.configure(**config).to_dict()
    svg: str = vl_convert.vegalite_to_svg(spec)
    for stand_in, colour in COLOURS.items():
        svg = svg.replace(stand_in, f"var(--{colour})")
    return re.sub(r'(id="|url\(#|href="#)', rf"\1{name}-", svg)
