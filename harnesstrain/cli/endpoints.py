"""`ht evaluate --endpoint`: the same measurement on several models, in order.  What one lacks, the others keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from harnesstrain.cli import output
from harnesstrain.core.errors import HtError, Incomplete, LlmFailure, Prerequisite
from harnesstrain.core.records.run import CONFIGURED

if TYPE_CHECKING:
    from harnesstrain.measure.context import Context
    from harnesstrain.measure.endpoints import NamedModel

OWN = (Incomplete, LlmFailure, Prerequisite)
"""What may go wrong on one model and not on another, once it is there."""
GRAVEST = (1, 2, 6, 7, 5, 4)
"""Exit codes, the one that counts first: what rerunning cannot mend comes before what it can."""

URL = "HT_LLM_URL"
"""What hints say to correct where the configured model does not answer."""

Measure = Callable[["Context", str | None], None]
"""Measures on the model of a context; given too: the name it was asked for by, None where nobody named one."""


def models_of(context: Context, names: Sequence[str]) -> list[NamedModel]:
    """The models that are named, each once.  Raises NotFound, ConfigError, UsageError before anything is measured."""
    if not names:
        return []
    from harnesstrain.measure.endpoints import named_model

    found = [named_model(context.settings, name, Path.cwd()) for name in names]
    return list({model.name: model for model in found}.values())


@contextmanager
def on_one(context: Context, name: str | None) -> Iterator[Context]:
    """The project on the model that is named; as it is where none is."""
    if name is None:
        yield context
        return
    from harnesstrain.measure.endpoints import on_model

    (model,) = models_of(context, [name])
    with on_model(context, model) as other:
        yield other


def on_each(context: Context, models: Sequence[NamedModel], measure: Measure) -> None:
    """Measure on each model in order; without any, on the configured one.

    A model that cannot be reached, or whose run stays incomplete, is told at once, and the next one begins.  Raised in
    the end: one model's error as it is; of several models, the gravest, with `failed` naming each.
    """
    if not models:
        measure(context, None)
        return
    failed: dict[str, HtError] = {}
    seen: dict[str, str] = {}
    for model in models:
        try:
            _on(context, model, measure, seen)
        except _NotHere as wrapped:
            if context.stop.is_set() or len(models) == 1:
                raise wrapped.error from None
            failed[model.name] = wrapped.error
            output.say(f"endpoint {model.name}: {wrapped.error.message}")
    if failed:
        raise _together(failed, len(models))


class _NotHere(Exception):
    """An error of one model."""

    def __init__(self, error: HtError) -> None:
        super().__init__(error.message)
        self.error = error


def _on(context: Context, model: NamedModel, measure: Measure, seen: dict[str, str]) -> None:
    from harnesstrain.measure.endpoints import on_model

    with on_model(context, model) as other:
        try:
            endpoint = other.devices.endpoint
        except HtError as error:
            if error.hint and model.name != CONFIGURED:
                error.hint = error.hint.replace(
                    URL, "--endpoint" if "://" in model.name else f"[endpoints.{model.name}]"
                )
            raise _NotHere(error) from error
        first = seen.setdefault(endpoint.fingerprint, model.name)
        same = f", the same as {first}" if first != model.name else ""
        context.bus.emit("model.opened", f"endpoint {model.name}: {endpoint.model} on {endpoint.engine}{same}")
        try:
            measure(other, model.name)
        except OWN as error:
            raise _NotHere(error) from error


def _together(failed: dict[str, HtError], models: int) -> HtError:
    gravest = min(failed.values(), key=lambda error: GRAVEST.index(error.exit_code))
    what = f"{len(failed)} of {output.counted(models, 'endpoint')} {'is' if len(failed) == 1 else 'are'}"
    said = [{"endpoint": name, **error.payload()} for name, error in failed.items()]
    msg = f"{what} not measured in full: {', '.join(failed)}"
    return type(gravest)(msg, hint=gravest.hint, failed=said)
