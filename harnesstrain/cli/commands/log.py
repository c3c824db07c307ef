"""`ht log`: what happened, newest first."""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    limit: Annotated[int, typer.Option("--limit", "-l", min=1, help="Lines shown.")] = 30,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Candidates, epochs and verdicts made by hand, newest first; before the first epoch or candidate, the runs."""
    from harnesstrain.cli import output
    from harnesstrain.cli.session import store_only
    from harnesstrain.cli.tables import columns, log_cells, run_cells
    from harnesstrain.stages.report.history import ceiling, curve, epoch_rows, sparkline
    from harnesstrain.stages.report.history import log as rows_of

    with store_only(config=config) as store:
        rows = rows_of(store)
        epochs = epoch_rows(store)
        loop = any(row.epoch is not None or row.candidate is not None for row in rows)
        runs = [] if loop else store.summaries()
    shown = list(reversed(rows))[:limit]
    truncated = len(rows) > limit
    if json:
        output.emit_list("log", shown, truncated=truncated)
        return
    for line in columns([*map(log_cells, shown), *map(run_cells, reversed(runs))][:limit]):
        output.data(line)
    points = curve(epochs)
    if points:
        top = ceiling(epochs)
        output.data(f"solved {sparkline(points, top)} {points[0]} → {points[-1]} of {top}")
    if truncated:
        output.say(f"only the newest {limit} are shown; --limit shows more")
