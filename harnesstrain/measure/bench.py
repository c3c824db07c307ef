"""Devices opened from settings: the model, the sandbox, and the regime that both determine."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass

from harnesstrain.core.errors import LlmFailure, Prerequisite, TransportFailure
from harnesstrain.core.records.llm import Endpoint
from harnesstrain.core.records.run import Regime
from harnesstrain.core.records.sandbox import Capabilities
from harnesstrain.llm.base import Model
from harnesstrain.llm.cached import CachedModel
from harnesstrain.llm.connect import connect
from harnesstrain.llm.vetted import VettedModel
from harnesstrain.measure.context import Context
from harnesstrain.measure.endpoint import connect_spec
from harnesstrain.measure.sandboxes import open_for
from harnesstrain.measure.trust import Ceiling, vetted
from harnesstrain.rollout.bench import Bench

READING, WRITING = ("on", "read"), ("on", "write")
"""Values of the setting measure.cache under which caches are read, and written."""


@dataclass(frozen=True)
class Devices:
    """What a run is measured with."""

    bench: Bench
    endpoint: Endpoint
    capabilities: Capabilities
    model: VettedModel
    """What `bench.model` asks when its cache has no answer."""
    ceiling: Ceiling
    """How many rollouts may run at once."""

    def close(self) -> None:
        """Close model and sandbox."""
        try:
            self.bench.model.close()
        finally:
            self.bench.sandbox.close()


def open_devices(context: Context) -> Devices:
    """Open model and sandbox as the settings say; what dead drivers left of sandboxes is removed.

    A model certificate decides whether the regime counts as deterministic, and how many requests run at once.
    Raises Prerequisite (no model server, no weights, no sandbox), Unsupported (not isolated and not allowed to be).
    """
    settings = context.settings
    with ExitStack() as opened:
        sandbox = opened.enter_context(closing(open_for(settings)))
        sandbox.sweep()
        wanted = connect_spec(settings, context.state, context.environ)
        bus = context.bus
        model = opened.enter_context(closing(connect(wanted, lambda said: bus.emit("model.waiting", said))))
        sampling = settings.llm.sampling.record()
        _answered(model)
        within, trust = vetted(model, sampling, context.store)
        endpoint = within.endpoint()
        regime = Regime(
            endpoint=endpoint.fingerprint,
            deterministic=endpoint.deterministic,
            sampling=sampling,
            context_length=endpoint.context_length,
            sandbox=sandbox.identity(),
            limits=settings.sandbox.limits(),
            budgets=settings.budgets.record(),
            grading=settings.measure.grading,
        )
        use = context.settings.measure.cache
        bench = Bench(
            model=_cached(context, within),
            sandbox=sandbox,
            regime=regime,
            limits=regime.limits,
            isolated=not settings.sandbox.allow_unisolated,
            model_deadline=settings.llm.deadline,
            step_cache=context.store.step_cache() if use != "off" else None,
            verify_cache=context.store.verify_cache() if use != "off" else None,
            cache_read=use in READING,
            cache_write=use in WRITING,
        )
        devices = Devices(
            bench=bench,
            endpoint=endpoint,
            capabilities=sandbox.capabilities(),
            model=within,
            ceiling=Ceiling(trust.limit, context.bus),
        )
        opened.pop_all()
        return devices


def _cached(context: Context, model: Model) -> CachedModel:
    use = context.settings.measure.cache
    return CachedModel(
        model,
        context.store.llm_cache() if use != "off" else None,
        read=use in READING,
        write=use in WRITING,
    )


def _answered(model: Model) -> Endpoint:
    """What the model is.  One that cannot be reached now, or speaks another protocol, is a prerequisite, not noise."""
    try:
        return model.endpoint()
    except TransportFailure as failure:
        hint = "start it, or correct HT_LLM_URL; `ht serve-llm --detach` serves one here"
        raise Prerequisite(failure.message, hint=hint) from failure
    except LlmFailure as failure:
        hint = failure.hint or "HT_LLM_URL is to name an OpenAI-compatible endpoint; it ends in /v1"
        raise Prerequisite(failure.message, hint=hint) from failure
