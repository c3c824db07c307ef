"""`ht rev-parse`: names into commits."""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    names: Annotated[list[str], typer.Argument(metavar="REV|RANGE|ID|-...", help="Names to resolve.")],
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Print the commit that each name stands for; a range gives two lines."""
    from harnesstrain.cli import output, revisions
    from harnesstrain.cli.session import opened

    with opened(config=config) as context:
        found = [commit for name in revisions.arguments(names) for commit in revisions.commits_of(context, name)]
    if json:
        output.emit_list("commits", list(found))
        return
    for commit in found:
        output.data(commit)
