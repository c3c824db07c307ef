"""Which runs a command means, where versions were measured on several models or panels: the configured one's first.

Two models' runs are never taken together: each pair of runs has one regime.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from harnesstrain.core.errors import Ambiguous, HtError, NotFound
from harnesstrain.core.ids import SHORTEST, is_hex
from harnesstrain.core.records.run import CONFIGURED, Run

if TYPE_CHECKING:
    from harnesstrain.measure.context import Context

T = TypeVar("T")


def on_endpoint(context: Context, runs: Sequence[Run], endpoint: str | None) -> list[Run]:
    """The runs on a model: as it was named when they were made, its own name, or a prefix of its fingerprint."""
    if endpoint is None:
        return list(runs)
    name = _shown(endpoint)
    return [run for run in runs if _is(context, run, name)]


def of_one_model(
    context: Context, found: Sequence[T], run_of: Callable[[T], Run], what: str, hint: str | None = None
) -> list[T]:
    """Of what was found, that on the configured model; where there is none of it, all of it.

    Raises Ambiguous where that would be several models.  `what`: what was asked for, in words.
    """
    configured = [one for one in found if run_of(one).configured]
    if configured:
        return configured
    models = {_fingerprint(context, run_of(one)): run_of(one) for one in found}
    if len(models) < 2:
        return list(found)
    names = [name_of(context, run) for run in models.values()]
    msg = f"{what} was measured on several models: {', '.join(names)}"
    raise Ambiguous(msg, hint=hint or f"--endpoint {shlex.quote(names[0])} chooses one", candidates=names)


def configured_panel(context: Context) -> str:
    """The digest of the configured panel and split; empty, which no run has, when there is no such panel here."""
    from harnesstrain.taskset import load_panel

    chosen = context.settings.panel
    try:
        split = None if chosen.split == "all" else chosen.split
        return load_panel(chosen.chosen, context.settings.root).select(split=split).panel.digest
    except HtError:
        return ""


def of_one_panel(context: Context, found: Sequence[T], run_of: Callable[[T], Run]) -> list[T]:
    """Of what was found, that on the configured panel and split; where there is none of it, all of it."""
    if len({run_of(one).panel for one in found}) < 2:
        return list(found)
    panel = configured_panel(context)
    return [one for one in found if run_of(one).panel == panel] or list(found)


def name_of(context: Context, run: Run) -> str:
    """A name by which --endpoint finds the model of a run."""
    return run.asked_as[0] if run.asked_as else CONFIGURED


def unmeasured(context: Context, what: str, runs: Sequence[Run], endpoint: str | None, asked: str) -> HtError:
    """That `what` has no such runs.  `runs`: those that there are.  `asked`: the range or version, for the hint."""
    names = list(dict.fromkeys(name_of(context, run) for run in runs))
    if endpoint is None:
        return NotFound(what, hint=f"`ht evaluate {asked}` measures both")
    others = f"; there are runs on {', '.join(names)}" if names else ""
    return NotFound(
        f"{what} on '{endpoint}'{others}",
        hint=f"`ht evaluate {asked} --endpoint {shlex.quote(endpoint)}` measures both",
    )


def _is(context: Context, run: Run, name: str) -> bool:
    if name == CONFIGURED:
        return run.configured
    if name in run.asked_as:
        return True
    fingerprint = _fingerprint(context, run)
    if len(name) >= SHORTEST and is_hex(name) and fingerprint.startswith(name):
        return True
    try:
        return context.store.endpoint(fingerprint).model == name
    except NotFound:
        return False


def _fingerprint(context: Context, run: Run) -> str:
    """Of the model of a run; the regime's own digest where the store does not know it."""
    try:
        return context.store.regime(run.regime).endpoint
    except NotFound:
        return run.regime


def _shown(endpoint: str) -> str:
    from harnesstrain.measure.endpoints import shown_url

    return shown_url(endpoint) if "://" in endpoint else endpoint
