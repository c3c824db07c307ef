"""`ht show`: one record, whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harnesstrain.cli import options as opt

if TYPE_CHECKING:
    from harnesstrain.core.errors import UsageError


def command(
    name: Annotated[
        str, typer.Argument(metavar="ID|eN|RUN:TASK|REV", help="Any id prefix, an epoch, a rollout, a version.")
    ],
    transcript: Annotated[bool, typer.Option("--transcript", help="A candidate's kept transcript instead.")] = False,
    no_pager: opt.NoPager = False,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Show a run, rollout, candidate, verdict, promotion, memo, epoch, certificate, regime, panel, task or endpoint.

    A version (`@`, a git revision) stands for its newest run.
    """
    from harnesstrain.cli import output, paging
    from harnesstrain.cli.session import store_only
    from harnesstrain.cli.showing import record_of, render, transcript_of
    from harnesstrain.core.errors import Ambiguous, UsageError

    with store_only(config=config) as store:
        try:
            found = record_of(store, name, config)
        except UsageError as unknown:
            if isinstance(unknown, Ambiguous) or ":" in name:
                raise
            found = record_of(store, _newest_run(name, config, unknown))
        if transcript:
            paging.show([transcript_of(store, found)], pager=not no_pager)
        elif json:
            output.emit(found.kind, {"id": found.id, "record": found.fields, **found.more})
        else:
            paging.show(render(found, paging.terminal_width()), pager=not no_pager)


def _newest_run(name: str, config: Path | None, unknown: UsageError) -> str:
    """The newest run of the version `name`.  Raises `unknown` when it is no version, NotFound when it has no run."""
    from harnesstrain.cli import revisions, runs
    from harnesstrain.cli.session import opened
    from harnesstrain.core.errors import NotFound

    with opened(config=config) as context:
        try:
            revisions.commit_of(context, name)
        except NotFound as error:
            raise (error if name.startswith("@") else unknown) from None
        return runs.run_of(context, name)
