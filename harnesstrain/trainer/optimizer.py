"""Optimizers as the Python API has them: an object the trainer binds, with `step()`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harnesstrain.core.errors import UsageError
from harnesstrain.core.records.verdict import Verdict
from harnesstrain.stages.promote import Promoted
from harnesstrain.stages.promote.greedy import GreedyMonotonic as Greedy

if TYPE_CHECKING:
    from harnesstrain.stages.promote.base import Optimizer
    from harnesstrain.trainer.trainer import Trainer


class Bound:
    """An optimizer bound to a trainer.  `step()` acts on the loss last recorded by `backward()`."""

    def __init__(self, rule: Optimizer) -> None:
        self._rule = rule
        self._trainer: Trainer | None = None

    @property
    def name(self) -> str:
        """The rule's registered name."""
        return self._rule.name

    def bind(self, trainer: Trainer) -> None:
        """Called by the trainer."""
        self._trainer = trainer

    def decide(self, verdict: Verdict) -> str | None:
        """None to promote, else why not."""
        return self._rule.decide(verdict)

    def step(self) -> Promoted:
        """Promote or reject.  Raises UsageError when no loss was recorded before."""
        if self._trainer is None:
            msg = "this optimizer belongs to no trainer"
            raise UsageError(msg, hint="pass it to Trainer(optimizer=…)")
        return self._trainer.step()


class GreedyMonotonic(Bound):
    """Promote iff the loss is negative."""

    def __init__(self) -> None:
        super().__init__(Greedy())
