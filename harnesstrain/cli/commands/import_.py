"""`ht import`: what other programs measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harnesstrain.cli import options as opt

app = typer.Typer(help="Runs of other programs, to be compared: harbor.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _root() -> None:
    """Runs of other programs, to be compared."""


@app.command("harbor")
def harbor(
    jobs: Annotated[list[Path], typer.Argument(metavar="JOB...", help="Folders of Harbor jobs.")],
    include: opt.Include = None,
    exclude: opt.Exclude = None,
    dry_run: opt.DryRun = False,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Record jobs of Harbor as runs, one for each agent.  Prints their ids; importing again changes nothing.

    Several jobs are cut to the tasks and attempts that all have, so that `ht judge RUN..RUN` can compare them.
    """
    from harnesstrain.cli import importing

    importing.harbor(
        tuple(jobs),
        include=tuple(include or ()),
        exclude=tuple(exclude or ()),
        dry_run=dry_run,
        config=config,
        as_json=json,
    )
