"""Traces for scripts and people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harnesstrain.core.errors import NotFound
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
