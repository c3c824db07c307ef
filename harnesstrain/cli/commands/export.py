"""`ht export`: records as JSON lines, as tables, or one rollout as an ATIF trajectory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    kind: Annotated[
        str | None, typer.Argument(help="run, rollout, candidate, verdict, promotion, epoch, memo, …")
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option("--parquet", metavar="DIR|FILE", help="Write tables as Parquet: all or KIND's."),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="DIR|FILE|-", help="Write tables as CSV; - is stdout, with a KIND.")
    ] = None,
    run: Annotated[
        list[str] | None, typer.Option("--run", metavar="RUN", help="Of tables: only these runs, rollouts and steps.")
    ] = None,
    atif: Annotated[
        str | None,
        typer.Option("--atif", metavar="ROLLOUT|RUN:TASK", help="This rollout as an ATIF-v1.8 trajectory instead."),
    ] = None,
    check_atif: Annotated[
        Path | None, typer.Option("--check-atif", metavar="FILE", help="Say whether a file is a valid trajectory.")
    ] = None,
    dry_run: opt.DryRun = False,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Print every record of a kind, oldest first, one JSON object a line (with --json: one object).

    Or write flat tables for DuckDB, pandas and spreadsheets: runs, rollouts, steps, candidates, verdicts, flips,
    excluded, epochs, promotions, memos, certificates, panels, caches; one file each.  A file that is there is replaced.

    Or one rollout as an ATIF trajectory, for other programs.
    """
    from harnesstrain.cli import exporting, frames
    from harnesstrain.core.errors import UsageError

    if parquet is not None or csv is not None:
        if [parquet, csv, atif, check_atif].count(None) != 3:
            msg = "`ht export` takes one of --parquet, --csv, --atif and --check-atif"
            raise UsageError(msg, hint="`ht export --parquet out` writes every table")
        target, form = (parquet, "parquet") if parquet is not None else (csv, "csv")
        assert target is not None
        frames.write_tables(kind, target, form, runs=run or (), config=config, dry_run=dry_run, as_json=json)
        return
    if run or dry_run:
        raise UsageError("--run and --dry-run are for tables", hint="`ht export rollouts --parquet out --run ID`")
    if [kind, atif, check_atif].count(None) != 2:
        msg = "`ht export` takes one of KIND, --atif and --check-atif"
        raise UsageError(msg, hint="`ht export rollout` prints every rollout, `ht export --parquet out` writes tables")
    if kind is not None:
        exporting.records(kind, config=config, as_json=json)
    elif atif is not None:
        exporting.trajectory(atif, config=config, as_json=json)
    elif check_atif is not None:
        exporting.check_trajectory(check_atif, as_json=json)
