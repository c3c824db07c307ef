"""`ht status`: what is going on now."""

from __future__ import annotations

from harnesstrain.cli import options as opt


def command(config: opt.Config = None, json: opt.Json = False) -> None:
    """The baseline, the running commands, the last epoch, the model server."""
    from harnesstrain.cli import output
    from harnesstrain.cli.begun import broken_off
    from harnesstrain.cli.choosing import configured_panel
    from harnesstrain.cli.session import opened
    from harnesstrain.cli.tables import status_lines
    from harnesstrain.stages.report.history import status
    from harnesstrain.stages.serve import status as serving

    with opened(config=config) as context:
        branch = context.settings.harness.branch or context.repo.branch()
        head = context.repo.branch_head(branch)
        facts = status(context.store, head, panel=configured_panel(context))
        begun = broken_off(context, facts)
        facts = facts.model_copy(update={"resumed_by": begun.commands})
        server = serving(context.state)
        holders = context.store.holders()
        changed = context.repo.dirty()
    if json:
        output.emit(
            "status",
            {
                **facts.model_dump(mode="json"),
                "branch": branch,
                "baseline": head,
                "server": server.model_dump(mode="json"),
                "holders": [holder.model_dump(mode="json", exclude={"detail"}) for holder in holders],
                "dirty": list(changed),
            },
        )
        return
    output.data(
        f"baseline  {branch} at {head[:8]}" + (f", {output.counted(len(changed), 'file')} changed" if changed else "")
    )
    for line in (*status_lines(facts), *begun.lines):
        output.data(line)
    for holder in holders:
        state = "stale" if holder.stale else "running"
        output.data(f"{state:9} {holder.name} by pid {holder.pid} on {holder.host} for {holder.age:.0f} s")
    if any(not holder.stale for holder in holders):
        output.say("hint: `ht watch` looks on")
    output.data(f"server    {server.condition.value}" + (f" {server.url}" if server.url else ""))
