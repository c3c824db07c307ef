"""Any record, for `ht show`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from harnesstrain.cli.tables import columns, flip_lines
from harnesstrain.cli.traces import rollout_of, step_objects
from harnesstrain.core.errors import NotFound, UsageError
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import latest_attempts

if TYPE_CHECKING:
    from harnesstrain.store import Store


class Shown(Record):
    """A record and what belongs to it."""

    kind: str
    id: str
    fields: dict[str, Any]
    more: dict[str, Any] = {}
    """run: `rollouts`; rollout: `steps`."""


def record_of(store: Store, name: str) -> Shown:
    """The record a name stands for.  Raises NotFound, Ambiguous, UsageError."""
    if match := re.fullmatch(r"e(\d+)", name):
        epoch = store.epoch(int(match.group(1)))
        return Shown(kind="epoch", id=name, fields=epoch.model_dump(mode="json"))
    if ":" in name and not name.startswith("id:"):
        return _rollout(store, rollout_of(store, name).id)
    found = store.resolve(name.removeprefix("id:"))
    if found.kind == "rollout":
        return _rollout(store, found.id)
    more: dict[str, Any] = {}
    if found.kind == "run":
        rollouts = latest_attempts(store.rollouts(found.id))
        more["rollouts"] = [rollout.model_dump(mode="json") for rollout in rollouts]
    return Shown(kind=found.kind, id=found.id, fields=store.get(found.kind, found.id), more=more)


def transcript_of(store: Store, shown: Shown) -> str:
    """A candidate's or a memo's transcript.  Raises UsageError (another record), NotFound (none was kept)."""
    if shown.kind not in ("candidate", "memo"):
        msg = f"a {shown.kind} has no transcript"
        raise UsageError(msg, hint="name a candidate or a memo; `ht log` lists candidates")
    digest = shown.fields.get("transcript")
    if not digest:
        msg = f"no transcript was kept of {shown.kind} {shown.id[:8]}"
        raise NotFound(msg)
    return store.blob(digest).decode("utf-8", "replace")


def render(shown: Shown) -> list[str]:
    """Lines for people."""
    lines = [f"{shown.kind} {shown.id}"]
    for key, value in shown.fields.items():
        if value in (None, "", [], {}) or key == "id":
            continue
        if shown.kind == "verdict" and key in ("gained", "lost"):
            text = "\n".join(flip_lines(value))
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        first, *rest = text.splitlines() or [""]
        lines.append(f"{key:14} {first}")
        lines += [f"{'':14} {line}" for line in rest]
    if rollouts := shown.more.get("rollouts"):
        rows = [
            (
                r["task"],
                f"s{r['seed']}",
                r["outcome"] + (f" ({r['reason']})" if r["reason"] else ""),
                f"{r['llm_calls']} calls",
                r["id"][:8],
                r["detail"],
            )
            for r in rollouts
        ]
        lines += ["", *columns(rows)]
        cached = sum(r["from_caches"] for r in rollouts)
        lines += [f"{cached} of {len(rollouts)} served from caches"] if cached else []
    for step in shown.more.get("steps", []):
        lines += ["", *_step(step)]
    return lines


def _rollout(store: Store, identifier: str) -> Shown:
    rollout = store.rollout(identifier)
    steps = step_objects(store.trace(identifier), messages=False) if rollout.trace else []
    return Shown(kind="rollout", id=identifier, fields=rollout.model_dump(mode="json"), more={"steps": steps})


def _step(step: dict[str, Any]) -> list[str]:
    head = f"step {step['index']} {step['kind']} ({step['source']}, {step['duration']:.2f} s)"
    match step["kind"]:
        case "llm":
            body = [step["content"] or "", step["tool_calls"] or "", step["error"] or ""]
        case "note" | "submit":
            body = [step["note"] or ""]
        case _:
            body = [step["action"] or "", f"exit {step['exit_code']}", step["stdout"] or "", step["stderr"] or ""]
    text = [line for part in body if part for line in part.splitlines()]
    return [head, *(f"    {line}" for line in text)]
