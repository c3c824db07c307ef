"""`ht config`: the settings that hold here."""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    keys: Annotated[list[str] | None, typer.Argument(metavar="[KEY]...", help="Only these, or tables.")] = None,
    show_origin: Annotated[bool, typer.Option("--show-origin", help="Say where each value comes from.")] = False,
    config: opt.Config = None,
    given: opt.Set = None,
    json: opt.Json = False,
) -> None:
    """Print KEY = VALUE for every setting.  `*` marks those that change what is measured."""
    import json as codec

    from harnesstrain.cli import output
    from harnesstrain.cli.session import settings_for
    from harnesstrain.core.errors import NotFound

    rows = settings_for(config=config, given=given).explain()
    if keys:
        rows = tuple(row for row in rows if any(row.key == key or row.key.startswith(f"{key}.") for key in keys))
        if not rows:
            msg = f"no setting '{keys[0]}'"
            raise NotFound(msg, hint="`ht config` lists every key")
    if json:
        output.emit_list("settings", [row.model_dump(mode="json") | {"origin": str(row.origin)} for row in rows])
        return
    for row in rows:
        mark = "*" if row.measured else " "
        origin = f"  # {row.origin}" if show_origin else ""
        output.data(f"{mark} {row.key} = {codec.dumps(row.value, ensure_ascii=False)}{origin}")
