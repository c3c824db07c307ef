"""`ht show`: one record, whole."""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    name: Annotated[str, typer.Argument(metavar="ID|eN|@|RUN:TASK", help="Any id prefix, an epoch, a rollout.")],
    transcript: Annotated[bool, typer.Option("--transcript", help="A candidate's kept transcript instead.")] = False,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Show a run, rollout, candidate, verdict, certificate, promotion, memo or epoch."""
    from harnesstrain.cli import output
    from harnesstrain.cli.session import store_only
    from harnesstrain.cli.showing import record_of, render, transcript_of

    with store_only(config=config) as store:
        found = record_of(store, name)
        if transcript:
            output.data(transcript_of(store, found))
        elif json:
            output.emit(found.kind, {"id": found.id, "record": found.fields, **found.more})
        else:
            for line in render(found):
                output.data(line)
