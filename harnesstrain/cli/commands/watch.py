"""`ht watch`: what is going on now, live, from the store alone."""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    interval: Annotated[float, typer.Option("--interval", min=0.1, max=3600, help="Seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="One look.")] = False,
    until_done: Annotated[
        bool | None,
        typer.Option("--until-done/--forever", help="End when nobody is at work; default: not in a terminal."),
    ] = None,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Look on while an epoch or an evaluation runs, in any other terminal.

    In a terminal: the whole screen, until you press q.  In a pipe: one line per change, until nobody is at work; with
    --json one object per change.  --until-done exits 5 when what was begun is not finished.  Never writes.
    """
    import sys

    from harnesstrain.cli.onlooking import onlook
    from harnesstrain.cli.output import animated
    from harnesstrain.cli.session import settings_for

    settings = settings_for(config=config)
    screen = animated(sys.stdout) and not (json or once)
    done = until_done if until_done is not None else not screen and not sys.stdout.isatty()
    code = onlook(settings, interval=interval, once=once, until_done=done, screen=screen, as_json=json)
    if code:
        raise SystemExit(code)
