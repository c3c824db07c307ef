"""What a model certificate means for a run: what is claimed, how many requests at once, and the sentinels.

A sentinel is a request whose reply the certificate holds.  A few are asked, uncached, before the first live request
of a run: another reply means that the endpoint serves something else than what was certified.
"""

from __future__ import annotations

from collections.abc import Sequence

from harnesstrain.core.errors import Prerequisite
from harnesstrain.core.events import Bus
from harnesstrain.core.records.gate import Sentinel
from harnesstrain.core.records.llm import Sampling
from harnesstrain.judge.gate import Trust, difference, trust
from harnesstrain.llm.base import Model
from harnesstrain.llm.gate import ask
from harnesstrain.llm.vetted import VettedModel
from harnesstrain.store import Store

ASKED = 2
"""Sentinels that are asked when a run starts."""


class Ceiling:
    """How many rollouts may run at once.  Says once that it lowers what was asked for."""

    def __init__(self, limit: int | None, bus: Bus) -> None:
        """`limit`: certified requests at once; None: no limit."""
        self.limit = limit
        self._bus = bus
        self._told = False

    def of(self, jobs: int, *, tell: bool = True) -> int:
        """`jobs`, or the limit where that is less.

        Rollouts that would only wait for a model call are not started: their harnesses' patience is limited.
        """
        if self.limit is None or jobs <= self.limit:
            return jobs
        if tell and not self._told:
            self._told = True
            message = f"{self.limit} of {jobs} rollouts at once: the model is certified for {self.limit}"
            self._bus.emit("warning", f"{message}; `ht certify model --max-running {jobs}` tests more")
        return self.limit


def vetted(model: Model, sampling: Sampling, store: Store) -> tuple[VettedModel, Trust]:
    """A model within its certificate, and the certificate's say.  Raises LlmFailure, UsageError (it says not what it
    is).
    """
    said = model.endpoint()
    found = trust(said, sampling, store.certificates(kind="model"))
    width = said.max_running if found.limit is None else min(said.max_running, found.limit)
    endpoint = said.model_copy(update={"deterministic": found.deterministic, "max_running": width})
    sentinels = found.sentinels[:ASKED]
    check = (lambda asked: ask_sentinels(asked, sentinels)) if sentinels else None
    return VettedModel(model, endpoint, limit=found.limit, check=check), found


def ask_sentinels(model: Model, sentinels: Sequence[Sentinel]) -> None:
    """Ask each one.  Raises Prerequisite when a reply is another one; LlmFailure when there is none."""
    for sentinel in sentinels:
        unequal = difference(sentinel.reply, ask(model, sentinel.probe.request))
        if unequal is None:
            continue
        name = model.endpoint().model
        place = f"{unequal.field} {unequal.position}"
        message = (
            f"the model '{name}' is not the one that was certified: to '{sentinel.probe.name}' it answers "
            f"'{unequal.observed}' and not '{unequal.reference}' ({place})"
        )
        hint = "serve the certified model again; to go on with this one, `ht certify model --again` and --no-cache"
        raise Prerequisite(message, hint=hint, probe=sentinel.probe.name, field=unequal.field)
