"""Optimizers as the Python API has them: an object the trainer binds, with `step()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from harnesstrain.core.errors import UsageError
from harnesstrain.core.records.verdict import Verdict
from harnesstrain.stages.promote import Promoted
from harnesstrain.stages.promote.greedy import GreedyMonotonic as Greedy

if TYPE_CHECKING:
    from harnesstrain.stages.promote.base import Optimizer as Rule


class Steps(Protocol):
    """What an optimizer is bound to."""

    def step(self) -> Promoted:
        """Act on the loss last recorded."""


class Optimizer:
    """An optimizer.  `step()` acts on the loss last recorded by `loss.backward()`.

    Give it a rule, or subclass it: a `name`, and a `decide(verdict)` that returns None to promote or says why not.
    """

    name = "custom"

    def __init__(self, rule: Rule | None = None) -> None:
        self._rule = rule
        self._bound: Steps | None = None
        if rule is not None:
            self.name = rule.name

    def bind(self, trainer: Steps) -> None:
        """Called by the trainer."""
        self._bound = trainer

    def decide(self, verdict: Verdict) -> str | None:
        """None to promote the verdict's candidate, else one sentence that says why not."""
        if self._rule is None:
            msg = f"{type(self).__name__} decides nothing"
            raise UsageError(msg, hint="override decide(verdict)")
        return self._rule.decide(verdict)

    def step(self) -> Promoted:
        """Promote or reject.  Raises UsageError when no loss was recorded before, Unmeasurable never."""
        if self._bound is None:
            msg = "this optimizer belongs to no trainer"
            raise UsageError(msg, hint="pass it to Trainer(optimizer=…)")
        return self._bound.step()


class GreedyMonotonic(Optimizer):
    """Promote iff the loss is negative."""

    def __init__(self) -> None:
        super().__init__(Greedy())
