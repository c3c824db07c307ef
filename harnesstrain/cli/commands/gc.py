"""`ht gc`: remove what nothing names."""

from __future__ import annotations

from harnesstrain.cli import options as opt


def command(dry_run: opt.DryRun = False, config: opt.Config = None, json: opt.Json = False) -> None:
    """Remove files that no record names, and worktrees that nobody uses.  --dry-run lists what `ht fsck` finds."""
    from harnesstrain.cli import output
    from harnesstrain.cli.session import opened

    with opened(config=config, dry_run=dry_run) as context:
        if dry_run:
            orphans = [found.subject for found in context.store.fsck(deep=False) if found.kind == "orphan"]
            if json:
                output.emit_list("gc", orphans, dry_run=True)
            for path in [] if json else orphans:
                output.data(path)
            return
        gone = context.store.gc()
    if json:
        output.emit("gc", {**gone.model_dump(mode="json"), "dry_run": False})
        return
    output.say(f"{gone.files} files, {gone.bytes} bytes, {gone.leases} leases")
