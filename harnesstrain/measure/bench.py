"""Devices opened from settings: the model, the sandbox, and the regime that both determine."""

from __future__ import annotations

from dataclasses import dataclass

from harnesstrain.core.records.llm import Endpoint
from harnesstrain.core.records.run import Regime
from harnesstrain.core.records.sandbox import Capabilities
from harnesstrain.llm.cached import CachedModel
from harnesstrain.llm.connect import connect
from harnesstrain.llm.vetted import VettedModel
from harnesstrain.measure.context import Context
from harnesstrain.measure.endpoint import connect_spec
from harnesstrain.measure.sandboxes import open_for
from harnesstrain.measure.trust import Ceiling, vetted
from harnesstrain.rollout.bench import Bench


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
    sandbox = open_for(settings)
    try:
        sandbox.sweep()
        can = sandbox.capabilities()
        model = connect(connect_spec(settings, context.state, context.environ))
    except BaseException:
        sandbox.close()
        raise
    sampling = settings.llm.sampling.record()
    try:
        within, trust = vetted(model, sampling, context.store)
    except BaseException:
        model.close()
        sandbox.close()
        raise
    cache = settings.measure.cache
    cached = CachedModel(
        within,
        context.store.llm_cache() if cache != "off" else None,
        read=cache in ("on", "read"),
        write=cache in ("on", "write"),
    )
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
    bench = Bench(
        model=cached,
        sandbox=sandbox,
        regime=regime,
        limits=regime.limits,
        isolated=not settings.sandbox.allow_unisolated,
        model_deadline=settings.llm.deadline,
    )
    ceiling = Ceiling(trust.limit, context.bus)
    return Devices(bench=bench, endpoint=endpoint, capabilities=can, model=within, ceiling=ceiling)
