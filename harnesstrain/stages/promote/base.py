"""The protocol of an optimizer: the registry group `optimizers`."""

from __future__ import annotations

from typing import Protocol

from harnesstrain.core.records.verdict import Verdict


class Optimizer(Protocol):
    """Turns verdicts into promotions.  Constructed without arguments."""

    @property
    def name(self) -> str:
        """Registered name."""

    def decide(self, verdict: Verdict) -> str | None:
        """None to promote the verdict's candidate, else one sentence that says why not."""
