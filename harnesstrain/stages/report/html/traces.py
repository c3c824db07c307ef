"""Rollouts as pages of their own, beside the report."""

from __future__ import annotations

from collections.abc import Iterator

from harnesstrain.core.records.base import Record
from harnesstrain.stages.report.html.page import environment
from harnesstrain.stages.report.records import Report
from harnesstrain.stages.report.source import Records
from harnesstrain.stages.report.traces import trace_pages


class HtmlFile(Record):
    """A file of a report in a folder."""

    name: str
    """Of the file, within the folder of traces: the rollout's id and `.html`."""
    html: str
    problem: str = ""
    """Why it shows no steps; empty when it does."""


def trace_files(records: Records, report: Report, *, back: str) -> Iterator[HtmlFile]:
    """A page for every rollout that the report links to, made as it is asked for.  `back`: the report, seen from there.

    Same records, same bytes.  Raises Prerequisite when the extra `report` is not installed.
    """
    template = environment().get_template("trace.html.j2")
    for page in trace_pages(records, report):
        html = template.render(page=page, back=back) + "\n"
        yield HtmlFile(name=f"{page.rollout}.html", html=html, problem=page.problem)
