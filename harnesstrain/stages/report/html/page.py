"""A report into the template.  Same report, same bytes: no clock, no host, no path."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from harnesstrain.core.errors import Prerequisite
from harnesstrain.core.ids import short
from harnesstrain.stages.report import levers
from harnesstrain.stages.report.cost_parts import served
from harnesstrain.stages.report.history import MARKS, ceiling
from harnesstrain.stages.report.html import cells
from harnesstrain.stages.report.html.glossary import GLOSSARY
from harnesstrain.stages.report.matrix import GLYPHS, MEANING
from harnesstrain.stages.report.plain import plain
from harnesstrain.stages.report.promoted import gained, lost
from harnesstrain.stages.report.records import Report
from harnesstrain.stages.report.sections import parts
from harnesstrain.stages.report.summary import checks, summary

if TYPE_CHECKING:
    from jinja2 import Environment

TABLES = ("Not compared", "Other splits", "Models", "What limits each task")
"""Titles of parts that the page shows as every other form does."""


def to_html(report: Report, *, traces: str | None = None) -> str:
    """One page with everything in it.  `traces`: the folder of the rollouts' own pages, relative to this one.

    Raises Prerequisite when the extra `report` is not installed.
    """
    page = environment().get_template("report.html.j2")
    return page.render(**_facts(report), traces=traces) + "\n"


def environment() -> Environment:
    """Templates: every value is escaped, and stripped of what no page should hold; an unknown name is an error."""
    try:
        import jinja2
    except ImportError as missing:
        raise _missing("jinja2") from missing
    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters.update(short=short, number=levers.number, percent=levers.percent, words=levers.words)
    made.globals.update(
        style=_raw("style.css"), script=_raw("script.js"), policy=_policy(), MARKS=MARKS, GLYPHS=GLYPHS, MEANING=MEANING
    )
    return made


def _facts(report: Report) -> dict[str, Any]:
    try:
        from harnesstrain.stages.report.html.figures import dumbbells, shapes, solve_curve
    except ImportError as missing:
        raise _missing("altair") from missing
    try:
        curve = solve_curve(report.epochs, ceiling(report.epochs))
        bells = dumbbells(report.spending.tasks) if report.spending else None
    except ImportError as missing:
        raise _missing(missing.name or "altair") from missing
    every = {part.title: part for part in parts(report)}
    return {
        "report": report,
        "head": report.header,
        "title": cells.headline(report),
        "summary": summary(report),
        "checks": checks(report),
        "curve": _figure(curve),
        "bells": _figure(bells),
        "gained": gained,
        "words": GLOSSARY,
        "compared": cells.compared(report),
        "lost": lost,
        "shapes": shapes(report.epochs),
        "levers": levers.levers(report.spending) if report.spending else (),
        "task_levers": levers.TASK_LEVERS,
        "change": levers.change,
        "flow": cells.flow(report.transitions),
        "noise": served(report.noise.served),
        "measured": every["What was measured"],
        "tables": [every[title] for title in TABLES if title in every],
    }


def _figure(figure: Any) -> Any:
    """A chart, marked as safe: it was drawn from escaped text."""
    from markupsafe import Markup

    return {"wide": Markup(figure.wide), "narrow": Markup(figure.narrow)} if figure else None


def _shown(value: Any) -> Any:
    if value is None:
        return levers.NONE
    return plain(value) if type(value) is str else value


def _missing(name: str) -> Prerequisite:
    return Prerequisite(f"{name} is not installed", hint="`pip install 'harnesstrain[report]'`")


@cache
def _file(name: str) -> str:
    return (resources.files("harnesstrain.stages.report.html") / name).read_text(encoding="utf-8")


def _raw(name: str) -> Any:
    """A file of ours that goes into the page as it is."""
    from markupsafe import Markup

    return Markup(_file(name))


def _policy() -> str:
    """What the page may do: show itself.  Only our own script runs, whatever a text says."""
    seal = base64.b64encode(hashlib.sha256(_file("script.js").encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{seal}'; img-src data:; base-uri 'none'"
