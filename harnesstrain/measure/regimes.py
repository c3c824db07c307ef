"""A run's regime against the one in use, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harnesstrain.core.errors import NotFound
from harnesstrain.core.records.run import Run
from harnesstrain.measure.context import Context
from harnesstrain.measure.resuming import as_settings as as_settings
from harnesstrain.measure.resuming import resume as resume

SHOWN = 24
"""Characters of a value in a sentence."""


def changed(context: Context, run: Run) -> dict[str, tuple[Any, Any]]:
    """The fields in which the regime in use differs from a run's: its value and the present one."""
    return context.store.regime(run.regime).differing(context.devices.bench.regime)


def in_words(context: Context, run: Run, fields: Mapping[str, tuple[Any, Any]]) -> str:
    """The fields that differ, each with what it means.  `fields`: from `changed`."""
    return "; ".join(_sentence(context, run, field, then, now) for field, (then, now) in fields.items())


def earlier(context: Context, run: Run) -> Run | None:
    """The newest run of the same version and panel, when it was made under another regime; else None.

    A run on the same model counts before newer ones on the configured one; runs on models that were asked for by name
    do not count.
    """
    alike = [one for one in context.store.runs() if (one.commit, one.panel) == (run.commit, run.panel)]
    if {one.regime for one in alike} <= {run.regime}:
        return None
    endpoint = context.devices.endpoint.fingerprint
    found = [one for one in alike if context.store.regime(one.regime).endpoint == endpoint]
    found = found or [one for one in alike if one.configured]
    return found[-1] if found and found[-1].regime != run.regime else None


def _sentence(context: Context, run: Run, field: str, then: Any, now: Any) -> str:
    match field:
        case "sandbox.image" if context.store.regime(run.regime).sandbox.kind in ("local", "process"):
            return f"{field} differs: this machine's system files changed"
        case "sandbox.image":
            return f"{field} differs: the images changed"
        case "sandbox.pins":
            return f"{field} differs ({then}, now {now}): this version pins other things"
        case "endpoint":
            return f"{field} differs: {_model(context, then)} then, {context.devices.endpoint.model} now"
        case "deterministic":
            return f"{field} differs: the model {'repeats' if now else 'does not repeat'} itself, as certified since"
        case _:
            return f"{field} differs ({_short(then)}, now {_short(now)})"


def _model(context: Context, fingerprint: str) -> str:
    try:
        return context.store.endpoint(fingerprint).model
    except NotFound:
        return f"endpoint {fingerprint[:8]}"


def _short(value: Any) -> str:
    text = "unset" if value is None else str(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
