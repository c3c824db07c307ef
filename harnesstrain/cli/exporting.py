"""What `ht export` prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harnesstrain.cli import output
from harnesstrain.cli.session import settings_for, store_only
from harnesstrain.core.errors import HtError

if TYPE_CHECKING:
    from harnesstrain.core.records.rollout import Rollout
    from harnesstrain.stages.export import About
    from harnesstrain.store import Store

UNNAMED = "harness"
"""What a harness is called when its repo cannot be asked."""


def records(kind: str, *, config: Path | None, as_json: bool) -> None:
    """Every record of a kind."""
    with store_only(config=config) as store:
        if as_json:
            output.emit_list(kind, list(store.export(kind)))
            return
        for record in store.export(kind):
            sys.stdout.write(json.dumps(record, ensure_ascii=True) + "\n")


def trajectory(name: str, *, config: Path | None, as_json: bool) -> None:
    """One rollout as an ATIF trajectory: one line of JSON."""
    from harnesstrain.cli.traces import rollout_named
    from harnesstrain.stages.export import trajectory_of, write_trajectory

    with store_only(config=config) as store:
        rollout = rollout_named(store, name, config)
        made = trajectory_of(rollout, store.trace(rollout.id), _about(store, rollout, config))
    text = write_trajectory(made)
    if as_json:
        output.emit("atif", {"rollout": rollout.id, "trajectory": json.loads(text)})
    else:
        sys.stdout.write(text + "\n")


def check_trajectory(path: Path, *, as_json: bool) -> None:
    """Whether a file is a valid trajectory.  Raises ConfigError with the reason when it is not."""
    from harnesstrain.stages.export.atif import read_trajectory_file

    found = read_trajectory_file(path)
    if as_json:
        output.emit("atif_check", {"path": str(path), "version": found.schema_version, "steps": len(found.steps)})
    else:
        output.data(f"valid {found.schema_version}, {len(found.steps)} steps")


def _about(store: Store, rollout: Rollout, config: Path | None) -> About:
    from harnesstrain.stages.export import About

    run = store.run(rollout.run)
    if run.imported is not None:
        return About(harness=run.imported.agent, commit=run.imported.version, model=run.imported.model)
    model = store.endpoint(store.regime(run.regime).endpoint).model
    return About(harness=_harness(run.commit, config), commit=run.commit, model=model)


def _harness(commit: str, config: Path | None) -> str:
    """The harness's name, as its manifest at that commit says."""
    from harnesstrain.harness.repo import HarnessRepo

    try:
        return HarnessRepo.open(settings_for(config=config).root).manifest(commit).name
    except HtError:
        return UNNAMED
