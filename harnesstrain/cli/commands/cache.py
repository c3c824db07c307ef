"""`ht cache`: what was recorded to be used again."""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt

app = typer.Typer(help="Caches: stats, gc.", no_args_is_help=True, rich_markup_mode=None)


@app.command("stats")
def stats(config: opt.Config = None, json: opt.Json = False) -> None:
    """Entries, bytes, hits and misses of each cache."""
    from harnesstrain.cli import output
    from harnesstrain.cli.session import store_only
    from harnesstrain.cli.tables import columns

    with store_only(config=config) as store:
        found = store.cache_stats()
    if json:
        output.emit_list("caches", [one.model_dump(mode="json") | {"rate": one.rate} for one in found])
        return
    rows = [
        (one.name, str(one.entries), str(one.bytes), str(one.hits), str(one.misses), str(one.broken)) for one in found
    ]
    for line in columns(rows, ("cache", "entries", "bytes", "hits", "misses", "broken")):
        output.data(line)


@app.command("gc")
def gc(
    max_mb: Annotated[float, typer.Option("--max-mb", min=0, help="Keep at most this many megabytes a cache.")],
    dry_run: opt.DryRun = False,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Remove the least recently used entries.  They are measured again when they are needed."""
    from harnesstrain.cli import output
    from harnesstrain.cli.session import store_only

    with store_only(config=config) as store:
        if dry_run:
            over = {one.name: max(0, one.bytes - int(max_mb * 1e6)) for one in store.cache_stats()}
            output.emit("gc", {"over": over, "dry_run": True}) if json else output.data(
                ", ".join(f"{name}: {excess} bytes over" for name, excess in over.items())
            )
            return
        gone = store.cache_gc(int(max_mb * 1e6))
    output.emit("gc", {"entries": gone, "dry_run": False}) if json else output.say(f"{gone} entries removed")
