"""`ht report`: what happened, and may I believe it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    compare: Annotated[str | None, typer.Option("--compare", metavar="BASE..CAND", help="Versions or run ids.")] = None,
    md: Annotated[bool, typer.Option("--md", help="Markdown.")] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="One page of HTML, `-` to stdout; needs harnesstrain[report]."),
    ] = None,
    full: Annotated[
        Path | None, typer.Option("--full", metavar="DIR", help="That page, and one for every rollout in it.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write to this file instead of stdout.")] = None,
    endpoint: opt.Endpoint = None,
    no_pager: opt.NoPager = False,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Which tasks flipped, at what cost, under which certificates.  Reads the store alone."""
    from harnesstrain.cli import output, pages, paging, runs
    from harnesstrain.cli.reporting import render
    from harnesstrain.cli.session import opened
    from harnesstrain.core.errors import UsageError
    from harnesstrain.stages.report import ReportSpec, build, to_json, to_markdown, to_text
    from harnesstrain.stages.report.sections import parts, title

    forms = [name for name, given in (("--md", md), ("--json", json), ("--html", html), ("--full", full)) if given]
    if len(forms) > 1 or (out and (html or full)):
        msg = f"{' and '.join([*forms, *(['--out'] if out else [])])} are forms of one report"
        raise UsageError(msg, hint="give one of them")
    if endpoint is not None and compare is None:
        msg = "--endpoint chooses among the runs of --compare"
        raise UsageError(msg, hint=f"`ht report --compare BASE..CAND --endpoint {endpoint}`")
    with opened(config=config) as context:
        spec = ReportSpec()
        if compare is not None:
            pair = runs.runs_of(context, compare, endpoint)
            spec = ReportSpec(base_run=pair.base, cand_run=pair.cand)
        paged = bool(html or full or json)
        report = build(context.store, spec, pages.patch_of(context.repo), acted=paged)
        if full is not None:
            beside = pages.write_folder(full, context.store, report)
            output.say(f"{output.counted(beside.rollouts, 'rollout')} beside the report, {beside.size / 1e6:.1f} MB")
            if beside.lost:
                output.say(f"warning: {beside.lost} of them have no trace to show; each says why")
            output.data(str(full / pages.INDEX))
    if full is not None:
        return
    if html is not None:
        from harnesstrain.stages.report.html import to_html

        if pages.is_stdout(html):
            sys.stdout.write(to_html(report))
        else:
            pages.write(html, to_html(report))
            output.data(str(html))
        return
    if out is None or pages.is_stdout(out):
        if json:
            output.emit("report", to_json(report))
        elif (width := paging.terminal_width()) is not None and not md:
            paging.show(render(title(report), parts(report), width), pager=not no_pager)
        else:
            output.data((to_markdown(report) if md else to_text(report)).rstrip("\n"))
        return
    if json:
        text = output.encoded(output.envelope("report", to_json(report)))
    else:
        text = to_markdown(report) if md else to_text(report)
    pages.write(out, text)
    if json:
        output.emit("written", {"path": str(out)})
    else:
        output.data(str(out))
