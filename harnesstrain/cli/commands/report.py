"""`ht report`: what happened, and may I believe it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    compare: Annotated[str | None, typer.Option("--compare", metavar="BASE..CAND", help="Versions or run ids.")] = None,
    md: Annotated[bool, typer.Option("--md", help="Markdown.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write to this file instead of stdout.")] = None,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Which tasks flipped, at what cost, under which certificates.  Reads the store alone."""
    from harnesstrain.cli import output, runs
    from harnesstrain.cli.session import opened
    from harnesstrain.core.errors import Prerequisite
    from harnesstrain.stages.report import ReportSpec, build, to_json, to_markdown, to_text

    with opened(config=config) as context:
        spec = ReportSpec()
        if compare is not None:
            pair = runs.runs_of(context, compare)
            spec = ReportSpec(base_run=pair.base, cand_run=pair.cand)
        report = build(context.store, spec)
    if json:
        output.emit("report", to_json(report))
        return
    text = to_markdown(report) if md else to_text(report)
    if out is None:
        output.data(text.rstrip("\n"))
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        msg = f"cannot write {out}: {error.strerror}"
        raise Prerequisite(msg, hint="check the path and the disk") from error
    output.data(str(out))
