"""`ht quickstart`: the whole loop on this machine, command by command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    directory: Annotated[Path, typer.Argument(help="Where the harness repo goes; made when it is not there.")] = Path(
        "quickstart"
    ),
    n: Annotated[int, typer.Option("--n", min=1, help="Epochs.")] = 8,
    set_: Annotated[list[str] | None, typer.Option("--set", "-s", help="KEY=VALUE, for every command.")] = None,
) -> None:
    """Train a harness around a real frozen model.  Shows each command before it runs; rerunning goes on.

    Needs no GPU, no Docker and no key.  The model's file (1.1 GB) is fetched once.
    """
    from harnesstrain.cli.walkthrough import walk

    walk(directory, epochs=n, given=tuple(set_ or ()))
