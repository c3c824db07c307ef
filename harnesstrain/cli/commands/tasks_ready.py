"""`ht tasks pull` and `ht tasks prebuild`: what a run needs, brought before it starts."""

from __future__ import annotations

from typing import Annotated

import typer

from harnesstrain.cli import options as opt


def pull(
    what: Annotated[
        str, typer.Argument(metavar="NAME|PATH|URL", help="A panel; a directory, archive or rows; a git URL.")
    ],
    origin: Annotated[str | None, typer.Option("--from", help="Take a panel's tasks from this PATH or URL.")] = None,
    path: Annotated[str | None, typer.Option("--path", help="Where in it the tasks lie.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Call a data set without a panel so.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Pull again what is here.")] = False,
    dry_run: opt.DryRun = False,
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Bring a data set into the cache, checked by its digest.  Prints the directory of its tasks."""
    from harnesstrain.cli.datasets import PullSpec, run_pull

    spec = PullSpec(what=what, origin=origin, path=path, name=name, force=force, dry_run=dry_run, config=config)
    run_pull(spec, as_json=json)


def prebuild(
    panel: opt.PanelName = None,
    split: opt.Split = None,
    include: opt.Include = None,
    exclude: opt.Exclude = None,
    jobs: opt.Jobs = None,
    dry_run: opt.DryRun = False,
    config: opt.Config = None,
    given: opt.Set = None,
    json: opt.Json = False,
) -> None:
    """Build or pull every environment of a panel before a run; says what is here already."""
    from harnesstrain.cli.prebuilding import PrebuildSpec, run_prebuild

    spec = PrebuildSpec(
        panel=panel,
        split=split,
        include=tuple(include or ()),
        exclude=tuple(exclude or ()),
        jobs=jobs,
        dry_run=dry_run,
        config=config,
        given=tuple(given or ()),
    )
    run_prebuild(spec, as_json=json)
