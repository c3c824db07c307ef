"""A run's regime against the one in use, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harnesstrain.core.errors import NotFound
from harnesstrain.core.records.run import Run
from harnesstrain.judge.gate import trust
from harnesstrain.measure.context import Context

SHOWN = 24
"""Characters of a value in a sentence."""


def changed(context: Context, run: Run) -> dict[str, tuple[Any, Any]]:
    """The fields in which the regime in use differs from a run's: its value and the present one."""
    return context.store.regime(run.regime).differing(context.devices.bench.regime)


def in_words(context: Context, run: Run, fields: Mapping[str, tuple[Any, Any]]) -> str:
    """The fields that differ, each with what it means.  `fields`: from `changed`."""
    return "; ".join(_sentence(context, run, field, fields) for field in fields)


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


def _sentence(context: Context, run: Run, field: str, fields: Mapping[str, tuple[Any, Any]]) -> str:
    then, now = fields[field]
    match field:
        case "sandbox.image" if "sandbox.kind" in fields:
            return f"{field} differs: the kind changed"
        case "sandbox.image" if context.store.regime(run.regime).sandbox.kind in ("local", "process"):
            return f"{field} differs: this machine's system files changed"
        case "sandbox.image":
            return f"{field} differs: the images changed"
        case "sandbox.pins":
            why = "the kind changed" if "sandbox.kind" in fields else "this version pins other things"
            return f"{field} differs ({then}, now {now}): {why}"
        case "endpoint":
            return f"{field} differs: {_models(context, then)}"
        case "deterministic":
            return f"{field} differs: the model {_repeats(now)}{_since(context, fields)}"
        case _:
            return f"{field} differs ({_short(then)}, now {_short(now)})"


def _models(context: Context, fingerprint: str) -> str:
    """The model of then and that of now; where their names are equal, in what they differ."""
    now = context.devices.endpoint
    try:
        then = context.store.endpoint(fingerprint)
    except NotFound:
        return f"endpoint {fingerprint[:8]} then, {now.model} now"
    if then.model != now.model:
        return f"{then.model} then, {now.model} now"
    if then.engine != now.engine:
        return f"{then.model} on {then.engine} then, on {now.engine} now"
    left, right = ({"context_length": one.context_length, **one.identity} for one in (then, now))
    unequal = [key for key in sorted({*left, *right}) if left.get(key) != right.get(key)]
    what = ", ".join(f"another {key} ({_short(left.get(key))}, now {_short(right.get(key))})" for key in unequal)
    return f"{now.model} with {what}"


def _repeats(now: bool) -> str:
    return "repeats itself" if now else "is not known to repeat itself"


def _since(context: Context, fields: Mapping[str, tuple[Any, Any]]) -> str:
    """Where a certificate of the same model says so: that it was made since."""
    if "endpoint" in fields or any(field.startswith("sampling.") for field in fields):
        return ""
    sampling, certificates = context.devices.bench.regime.sampling, context.store.certificates(kind="model")
    return "" if trust(context.devices.endpoint, sampling, certificates).certificate is None else ", as certified since"


def _short(value: Any) -> str:
    text = "unset" if value is None else str(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
