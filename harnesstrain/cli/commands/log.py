"""`ht log`: what happened, newest first."""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    limit: Annotated[int, typer.Option("--limit", "-l", min=1, help="Lines shown.")] = 30,
    no_pager: opt.NoPager = False,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Candidates, epochs and verdicts made by hand, newest first; before the first epoch or candidate, the runs."""
    from harnesstrain.cli import output, paging
    from harnesstrain.cli.chronicle import curve_lines, lines_of
    from harnesstrain.cli.session import store_only
    from harnesstrain.stages.report.history import epoch_rows
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
    width = paging.terminal_width()
    lines = lines_of(shown, runs[::-1], limit, width) + curve_lines(epochs, width)
    paging.show(lines, pager=not no_pager)
    if not lines:
        output.say("nothing was measured yet")
        output.say("hint: `ht evaluate` measures the baseline")
    if truncated:
        output.say(f"only the newest {limit} are shown; --limit shows more")
