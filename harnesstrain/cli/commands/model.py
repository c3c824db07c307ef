"""`ht model`: the files of the embedded engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harnesstrain.cli import options as opt

app = typer.Typer(
    help="Model files of the embedded engine: pull, list, verify.", no_args_is_help=True, rich_markup_mode=None
)
Name = Annotated[str | None, typer.Argument(help="Model name; default: the one the quickstart uses.")]


@app.command("pull")
def pull(
    name: Name = None,
    file: Annotated[Path | None, typer.Option("--file", help="Take it from this file.")] = None,
    source: Annotated[list[str] | None, typer.Option("--source", help="hub or index; default: both.")] = None,
    dry_run: opt.DryRun = False,
    progress: opt.Progress = "auto",
    json: opt.Json = False,
) -> None:
    """Bring a model's file into the cache, checked by its content.  Prints its path."""
    from harnesstrain.cli import output
    from harnesstrain.cli.pulling import shown
    from harnesstrain.llm.models.catalogue import DEFAULT
    from harnesstrain.llm.models.pull import SOURCES, check, listing
    from harnesstrain.llm.models.pull import pull as fetch

    wanted = name or DEFAULT
    if dry_run:
        check(wanted, file=file, sources=tuple(source or SOURCES))
        (known,) = [one for one in listing() if one.name == wanted]
        text = f"{wanted}: {known.size} bytes" + (", here already" if known.path else "")
        output.emit("plan", {"text": text}) if json else output.data(text)
        return
    with shown(progress) as observer:
        found = fetch(wanted, file=file, sources=tuple(source or SOURCES), progress=observer)
    output.emit("model", found) if json else output.data(str(found.path))


@app.command("list")
def list_models(json: opt.Json = False) -> None:
    """The models known by name."""
    from harnesstrain.cli import output
    from harnesstrain.cli.tables import columns
    from harnesstrain.llm.models.pull import listing

    models = listing()
    if json:
        output.emit_list("models", list(models))
        return
    rows = [
        (
            one.name + (" *" if one.default else ""),
            f"{one.size / 1e9:.2f} GB",
            one.licence,
            "here" if one.path else "-",
            one.title,
        )
        for one in models
    ]
    for line in columns(rows, ("name", "size", "licence", "file", "title")):
        output.data(line)


@app.command("verify")
def verify(name: Name = None, json: opt.Json = False) -> None:
    """Hash a cached file again.  Prints its path; exits 6 when it is missing or damaged."""
    from harnesstrain.cli import output
    from harnesstrain.llm.models.catalogue import DEFAULT
    from harnesstrain.llm.models.pull import verify as check

    found = check(name or DEFAULT)
    output.emit("model", found) if json else output.data(str(found.path))
    output.say(f"sha256 {found.sha256}")
