"""`ht export`: records as JSON lines."""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    kind: Annotated[str, typer.Argument(help="run, rollout, candidate, verdict, promotion, epoch, memo, …")],
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Print every record of a kind, oldest first, one JSON object a line (with --json: one object)."""
    import json as codec
    import sys

    from harnesstrain.cli import output
    from harnesstrain.cli.session import store_only

    with store_only(config=config) as store:
        if json:
            output.emit_list(kind, list(store.export(kind)))
            return
        for record in store.export(kind):
            sys.stdout.write(codec.dumps(record, ensure_ascii=True) + "\n")
