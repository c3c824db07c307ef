"""`ht db`: the store's schema."""

from __future__ import annotations

import typer

from harnesstrain.cli import options as opt

app = typer.Typer(help="The store's schema: check, upgrade.", no_args_is_help=True, rich_markup_mode=None)


@app.command("check")
def check(config: opt.Config = None, json: opt.Json = False) -> None:
    """Say which schema the store has; exits 6 when it is not this version's."""
    from harnesstrain.cli import output
    from harnesstrain.cli.session import settings_for
    from harnesstrain.core.errors import Prerequisite
    from harnesstrain.store import Store

    settings = settings_for(config=config)
    facts = Store.check(settings.store_location, directory=settings.store.path)
    if json:
        output.emit("schema", {**facts.model_dump(mode="json"), "status": facts.status})
    else:
        output.data(f"{facts.status}: schema {facts.found}, this version speaks {facts.head}")
    if facts.status != "current":
        msg = f"the store's schema is {facts.status}"
        raise Prerequisite(msg, hint="`ht db upgrade`" if facts.status == "older" else "upgrade harnesstrain")


@app.command("upgrade")
def upgrade(
    dry_run: opt.DryRun = False,
    yes: bool = typer.Option(False, "--yes", help="Accepted for cron; an upgrade never asks."),
    config: opt.Config = None,
    json: opt.Json = False,
) -> None:
    """Bring the store to this version's schema.  The database is copied first; the copy's path is printed."""
    from harnesstrain.cli import output
    from harnesstrain.cli.session import settings_for
    from harnesstrain.store import Store

    settings = settings_for(config=config)
    location, folder = settings.store_location, settings.store.path
    facts = Store.check(location, directory=folder)
    before, after, backup = facts.found, facts.head, None
    if not dry_run:
        done = Store.upgrade(location, directory=folder)
        before, after, backup = done.before, done.after, done.backup
    if json:
        body = {"target": after, "applied": before != after and not dry_run, "dry_run": dry_run}
        output.emit("upgrade", {**body, "from": before, "backup": str(backup) if backup else None})
        return
    if before == after:
        output.say(f"the schema is {after}; nothing to do")
    elif dry_run:
        output.say(f"would upgrade {before} to {after}")
    else:
        output.say(f"upgraded {before} to {after}")
        if backup:
            output.data(str(backup))
