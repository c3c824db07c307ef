"""Any record, for `ht show`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harnesstrain.cli.particulars import page
from harnesstrain.cli.styled import Line
from harnesstrain.cli.traces import rollout_named, step_objects
from harnesstrain.core.errors import NotFound, UsageError
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import latest_attempts
from harnesstrain.core.records.verdict import Epoch
from harnesstrain.store.base import Found
from harnesstrain.store.kinds import KINDS

if TYPE_CHECKING:
    from harnesstrain.store import Store


class Shown(Record):
    """A record and what belongs to it."""

    kind: str
    id: str
    fields: dict[str, Any]
    more: dict[str, Any] = {}
    """run: `rollouts`; rollout: `steps`."""
    about: dict[str, Any] = {}
    """What else the store knows of it, for people."""


def record_of(store: Store, name: str, config: Path | None = None) -> Shown:
    """The record a name stands for.  Raises NotFound, Ambiguous, UsageError."""
    if match := re.fullmatch(r"e(\d+)", name):
        epoch = store.epoch(int(match.group(1)))
        return Shown(kind="epoch", id=name, fields=epoch.model_dump(mode="json"), about=_of_epoch(store, epoch))
    if ":" in name and not name.startswith("id:"):
        return _rollout(store, rollout_named(store, name, config).id)
    found = store.resolve(name.removeprefix("id:"))
    if found.kind == "rollout":
        return _rollout(store, found.id)
    more: dict[str, Any] = {}
    if found.kind == "run":
        rollouts = latest_attempts(store.rollouts(found.id))
        more["rollouts"] = [rollout.model_dump(mode="json") for rollout in rollouts]
    fields = store.get(found.kind, found.id)
    return Shown(kind=found.kind, id=found.id, fields=fields, more=more, about={**more, **_about(store, found, fields)})


def _about(store: Store, found: Found, fields: dict[str, Any]) -> dict[str, Any]:
    """What the store knows of a record that the record itself does not say."""
    match found.kind:
        case "run":
            judged = [v for v in store.verdicts() if found.id in (v.base_run, v.cand_run)]
            model = _model(store, store.regime(fields["regime"]).endpoint)
            return {"complete": store.is_complete(found.id), "model": model, "verdicts": _plain(judged)}
        case "candidate":
            commit = fields["commit"]
            return {"verdicts": _plain(v for v in store.verdicts() if commit is not None and v.cand_commit == commit)}
        case "regime":
            runs = [one.id for one in store.runs() if one.regime == found.id]
            return {"model": _model(store, fields["endpoint"]), "runs": runs}
        case "panel":
            return {"runs": [one.id for one in store.runs() if one.panel == found.id]}
        case "endpoint":
            return {"certificates": _plain(one for one in store.certificates() if one.endpoint == found.id)}
        case _:
            return {}


def _of_epoch(store: Store, epoch: Epoch) -> dict[str, Any]:
    about: dict[str, Any] = {}
    if epoch.candidate is not None:
        about["candidate"] = store.candidate(epoch.candidate).hypothesis
    if epoch.verdict is not None:
        about["verdict"] = store.verdict(epoch.verdict).sentence
    if epoch.base_run and epoch.cand_run:
        about["pair"] = f"{epoch.base_run[:8]}..{epoch.cand_run[:8]}"
    return about


def _model(store: Store, fingerprint: str) -> str:
    """The name of an endpoint's model, where the store knows it."""
    try:
        return store.endpoint(fingerprint).model
    except NotFound:
        return ""


def _plain(records: Iterable[Record]) -> list[dict[str, Any]]:
    return [record.model_dump(mode="json") for record in records]


def transcript_of(store: Store, shown: Shown) -> str:
    """A candidate's or a memo's transcript.  Raises UsageError (another record), NotFound (none was kept)."""
    if shown.kind not in ("candidate", "memo"):
        msg = f"{'an' if shown.kind[0] in 'aeiou' else 'a'} {shown.kind} has no transcript"
        raise UsageError(msg, hint="name a candidate or a memo; `ht log` lists candidates")
    digest = shown.fields.get("transcript")
    if not digest:
        msg = f"no transcript was kept of {shown.kind} {shown.id[:8]}"
        raise NotFound(msg)
    return store.blob(digest).decode("utf-8", "replace")


def render(shown: Shown, width: int | None = None) -> list[Line]:
    """Lines for people.  `width`: of the terminal; None: it is none."""
    return page(shown.kind, shown.id, {**_defaults(shown.kind), **shown.fields}, shown.about, width)


def _defaults(kind: str) -> dict[str, Any]:
    """What a record of an older version does not say."""
    fields = KINDS[kind].model.model_fields
    found = {name: one.get_default(call_default_factory=True) for name, one in fields.items() if not one.is_required()}
    return {name: one.model_dump(mode="json") if isinstance(one, Record) else one for name, one in found.items()}


def _rollout(store: Store, identifier: str) -> Shown:
    rollout = store.rollout(identifier)
    trace = store.trace(identifier) if rollout.trace else None
    return Shown(
        kind="rollout",
        id=identifier,
        fields=rollout.model_dump(mode="json"),
        more={"steps": step_objects(trace, messages=False) if trace is not None else []},
        about={"trace": trace},
    )
