"""`ht export`: records as JSON lines, one rollout as an ATIF trajectory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    kind: Annotated[
        str | None, typer.Argument(help="run, rollout, candidate, verdict, promotion, epoch, memo, …")
    ] = None,
    atif: Annotated[
        str | None,
        typer.Option("--atif", metavar="ROLLOUT|RUN:TASK", help="This rollout as an ATIF-v1.8 trajectory instead."),
    ] = None,
    check_atif: Annotated[
        Path | None, typer.Option("--check-atif", metavar="FILE", help="Say whether a file is a valid trajectory.")
    ] = None,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Print every record of a kind, oldest first, one JSON object a line (with --json: one object).

    Or one rollout as an ATIF trajectory, for other programs.
    """
    from harnesstrain.cli import exporting
    from harnesstrain.core.errors import UsageError

    if [kind, atif, check_atif].count(None) != 2:
        msg = "`ht export` takes one of KIND, --atif and --check-atif"
        raise UsageError(msg, hint="`ht export rollout` prints every rollout")
    if kind is not None:
        exporting.records(kind, config=config, as_json=json)
    elif atif is not None:
        exporting.trajectory(atif, config=config, as_json=json)
    elif check_atif is not None:
        exporting.check_trajectory(check_atif, as_json=json)
