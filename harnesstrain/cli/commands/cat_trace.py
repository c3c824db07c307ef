"""`ht cat-trace`: a rollout's steps as JSON lines."""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    rollout: Annotated[
        str, typer.Argument(metavar="ROLLOUT|RUN:TASK", help="A rollout id, or a run or a version, and a task.")
    ],
    messages: Annotated[bool, typer.Option("--messages", help="Write the messages out instead of digests.")] = False,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Print every step of a rollout, one JSON object a line (with --json: one object)."""
    import sys

    from harnesstrain.cli import output
    from harnesstrain.cli.session import store_only
    from harnesstrain.cli.traces import rollout_named, step_objects

    with store_only(config=config) as store:
        found = rollout_named(store, rollout, config)
        trace = store.trace(found.id)
    rows = step_objects(trace, messages=messages)
    if json:
        output.emit_list("trace", rows, rollout=found.id, task=found.task, log=trace.log)
        return
    import json as codec

    for row in rows:
        sys.stdout.write(codec.dumps(row, ensure_ascii=True) + "\n")
