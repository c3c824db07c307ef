"""What `ht import` prints."""

from __future__ import annotations

from pathlib import Path

from harnesstrain.cli import output
from harnesstrain.cli.session import opened
from harnesstrain.core.ids import short


def harbor(
    jobs: tuple[Path, ...],
    *,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    dry_run: bool,
    config: Path | None,
    as_json: bool,
) -> None:
    """Import jobs of Harbor: a line on each run, its id on stdout."""
    from harnesstrain.stages.export.taking import TakeSpec, take

    spec = TakeSpec(jobs=jobs, include=include, exclude=exclude, dry_run=dry_run)
    with opened(config=config, dry_run=dry_run) as context:
        taken = take(context.store, spec)
    for one in taken:
        what = "would be recorded" if dry_run else "recorded"
        agent = f"{one.agent} {one.version}" + (f" with {one.model}" if one.model else "")
        output.say(
            f"{one.job}: {agent}: {one.solved} of {one.cells} solved, {one.infra} not measured; "
            f"{output.counted(one.recorded, 'rollout')} {what} as run {short(one.run)}"
        )
        for note in one.notes:
            output.say(f"note: {note}")
        if not as_json:
            output.data(one.run)
    if as_json:
        output.emit_list("imported", list(taken), dry_run=dry_run)
