"""`ht init`: a new harness repo."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def command(
    directory: Annotated[Path, typer.Argument(help="An empty or new directory.")] = Path(),
    demo: Annotated[bool, typer.Option("--demo", help="With the demo panel and a queue of patches to try.")] = False,
    dry_run: opt.DryRun = False,
    json: opt.Json = False,
) -> None:
    """Make a harness repo: baseline harness, ht.toml, program.md, first commit.  Prints its path."""
    from harnesstrain.cli import output
    from harnesstrain.core.resources import shipped
    from harnesstrain.harness.template import create

    source = shipped("bootstrap")
    start = source / "project"
    files = sorted(path for path in start.rglob("*") if path.is_file())
    extra = {path.relative_to(start).as_posix(): path.read_bytes() for path in files}
    if demo:
        extra["ht.toml"] = (source / "demo" / "ht.toml").read_bytes()
        extra |= {f"patches/{path.name}": path.read_bytes() for path in sorted((source / "patches").glob("*.patch"))}
    place = directory.absolute()
    if dry_run:
        text = f"would make a harness repo in {place}"
        output.emit("plan", {"text": text}) if json else output.data(text)
        return
    commit = create(place, extra=extra)
    output.emit("harness", {"path": str(place), "commit": commit}) if json else output.data(str(place))
    there = f"cd {'-- ' if str(directory).startswith('-') else ''}{shlex.quote(str(directory))}"
    output.say(f"baseline {commit[:8]}; next: `{there}` and `ht evaluate`")
