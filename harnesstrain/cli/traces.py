"""Traces for scripts and people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from harnesstrain.core.errors import Ambiguous, NotFound, UsageError
from harnesstrain.core.records.rollout import Rollout, Trace, latest_attempts

if TYPE_CHECKING:
    from harnesstrain.store import Store


def rollout_of(store: Store, name: str) -> Rollout:
    """A rollout by id prefix, or `RUN:TASK` (the newest attempt, first seed).  Raises NotFound, Ambiguous."""
    run, colon, task = name.partition(":")
    if not colon:
        return store.rollout(store.resolve(name, kinds=("rollout",)).id)
    found = store.resolve(run, kinds=("run",))
    for rollout in latest_attempts(store.rollouts(found.id)):
        if rollout.task == task:
            return rollout
    msg = f"run {found.id[:8]} has no rollout of '{task}'"
    raise NotFound(msg, hint=f"`ht show {found.id[:8]}` lists its tasks")


def rollout_named(store: Store, name: str, config: Path | None) -> Rollout:
    """A rollout as `rollout_of` finds it, or of the newest run of a version: `@:TASK`.  Raises NotFound, Ambiguous."""
    try:
        return rollout_of(store, name)
    except Ambiguous:
        raise
    except UsageError:
        version, colon, task = name.partition(":")
        if not colon or version == "id" or _is_run(store, version):
            raise
        return rollout_of(store, f"{_run_of(version, config)}:{task}")


def _is_run(store: Store, name: str) -> bool:
    try:
        return bool(store.resolve(name, kinds=("run",)))
    except UsageError:
        return False


def _run_of(version: str, config: Path | None) -> str:
    from harnesstrain.cli import revisions, runs
    from harnesstrain.cli.session import opened

    with opened(config=config) as context:
        try:
            revisions.commit_of(context, version)
        except NotFound as error:
            if version.startswith("@"):
                raise
            hint = "RUN:TASK takes a run's id, or a version for its newest run: `ht show @:TASK`"
            raise NotFound(f"'{version}' is neither a run nor a version", hint=hint) from error
        return runs.run_of(context, version, complete=True)


def step_objects(trace: Trace, *, messages: bool) -> list[dict[str, Any]]:
    """One plain object per step; bytes as text (invalid UTF-8 replaced)."""
    rows = []
    for step in trace.steps:
        row = step.model_dump(mode="python")
        row["kind"], row["source"] = step.kind.value, step.source.value
        for name in ("stdout", "stderr"):
            row[name] = row[name].decode("utf-8", "replace") if row[name] is not None else None
        if messages:
            row["messages"] = [trace.messages[key] for key in step.messages]
            row["tools"] = trace.messages[step.tools] if step.tools else None
        rows.append(row)
    return rows
