"""`ht cache`: what was recorded to be used again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harnesstrain.cli import options as opt

app = typer.Typer(help="Caches: stats, gc, states, bump, export.", no_args_is_help=True, rich_markup_mode=None)


@app.command("stats")
def stats(config: opt.Config = None, json: opt.Json = False) -> None:
    """Entries, bytes, look-ups and epoch of each cache: llm (model replies), step (actions), verify (grades)."""
    from harnesstrain.cli import output
    from harnesstrain.cli.session import store_only
    from harnesstrain.cli.tables import columns

    with store_only(config=config) as store:
        found = store.cache_stats()
    if json:
        output.emit_list("caches", [one.model_dump(mode="json") | {"rate": one.rate} for one in found])
        return
    rows = [
        (
            *(one.name, str(one.entries), str(one.bytes), str(one.hits), str(one.misses)),
            *("-" if one.rate is None else f"{one.rate:.1%}", str(one.broken), str(one.epoch), str(one.outdated)),
        )
        for one in found
    ]
    header = ("cache", "entries", "bytes", "hits", "misses", "rate", "broken", "epoch", "outdated")
    for line in columns(rows, header):
        output.data(line)


@app.command("gc")
def gc(
    max_mb: Annotated[
        float, typer.Option("--max-mb", min=0, max=10**9, help="Keep at most this many megabytes a cache.")
    ],
    dry_run: opt.DryRun = False,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Remove entries of older epochs, then the least recently used.  They are measured again when they are needed."""
    from harnesstrain.cli import output
    from harnesstrain.cli.session import store_only

    with store_only(config=config) as store:
        gone = store.cache_gc(int(max_mb * 1e6), dry_run=dry_run)
    entries, size = sum(one.entries for one in gone), sum(one.bytes for one in gone)
    if json:
        each = [one.model_dump(mode="json") for one in gone]
        output.emit("gc", {"entries": entries, "bytes": size, "caches": each, "dry_run": dry_run})
        return
    if dry_run:
        for one in gone:
            output.data(f"{one.name}: {one.entries} entries, {one.bytes} bytes, {one.outdated} of older epochs")
        return
    old = sum(one.outdated for one in gone)
    output.say(f"{entries} entries removed" + (f", {old} of older epochs" if old else ""))


@app.command("bump")
def bump(
    cache: Annotated[str, typer.Argument(help="llm, step, verify or all.")] = "all",
    dry_run: opt.DryRun = False,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Raise a cache's epoch: what it holds is used no more, and goes at the next `ht cache gc`.

    For when something changed that no key can know, such as a service that tasks talk to.  States that sandboxes keep
    of earlier steps stay, for all projects; `ht cache states --max-mb 0` removes them.
    """
    from harnesstrain.cli import output
    from harnesstrain.cli.session import store_only

    with store_only(config=config) as store:
        names = [one.name for one in store.cache_stats()] if cache == "all" else [cache]
        raised = store.cache_bump(names, dry_run=dry_run)
    if json:
        output.emit_list("bump", [one.model_dump(mode="json") for one in raised], dry_run=dry_run)
        return
    for one in raised:
        line = f"{one.name}: epoch {one.epoch}, {one.outdated} entries out of reach"
        output.data(line) if dry_run else output.say(line)
    if any(one.name == "step" for one in raised):
        output.say("kept states of sandboxes stay: `ht cache states --max-mb 0` removes those of all projects")


@app.command("export")
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write into; made where it is missing.")],
    dry_run: opt.DryRun = False,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Write each cache as a Parquet file, to be read with DuckDB, polars, pandas or pyarrow."""
    from harnesstrain.cli import output
    from harnesstrain.cli.session import store_only

    with store_only(config=config) as store:
        if dry_run:
            planned = [(one.name, folder / f"{one.name}.parquet", one.entries, 0) for one in store.cache_stats()]
        else:
            made = store.cache_export(folder)
            planned = [(one.name, one.file, one.entries, one.broken) for one in made]
    if json:
        keys = ("name", "file", "entries", "broken")
        items = [dict(zip(keys, (name, str(file), *counts), strict=True)) for name, file, *counts in planned]
        output.emit_list("files", items, dry_run=dry_run)
        return
    for name, file, count, broken in planned:
        output.data(str(file))
        left_out = f", {broken} broken ones left out" if broken else ""
        output.say(f"{name}: {count} entries{left_out}")


@app.command("states")
def states(
    max_mb: Annotated[
        float | None, typer.Option("--max-mb", min=0, max=10**9, help="Remove the longest unused beyond it.")
    ] = None,
    dry_run: opt.DryRun = False,
    json: opt.Json = False,
) -> None:
    """How much the kept states of sandboxes take, of all projects; with --max-mb, make it less.

    A state lets an environment go on from a step without running the commands before it.  Without one they run again.
    """
    from harnesstrain.cli import output
    from harnesstrain.measure.sandboxes import kept_states, shrink_states

    gone = None if max_mb is None else shrink_states(int(max_mb * 1e6), dry_run=dry_run)
    kept = kept_states()
    if json:
        counts = {"entries": gone.count, "bytes": gone.bytes} if gone else None
        output.emit("states", {"entries": kept.count, "bytes": kept.bytes, "removed": counts, "dry_run": dry_run})
        return
    if gone is not None:
        line = f"{gone.count} states, {gone.bytes} bytes"
        output.data(line) if dry_run else output.say(f"{line} removed")
        return
    output.data(f"{kept.count} states, {kept.bytes} bytes")
