"""A loss: a criterion's judgement of a candidate, which can be recorded and acted on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harnesstrain.core.records.candidate import Candidate
from harnesstrain.core.records.verdict import Decision, Verdict

if TYPE_CHECKING:
    from harnesstrain.trainer.trainer import Trainer


class Loss:
    """Negative selects the candidate; +inf is a regression that the criterion never accepts."""

    def __init__(self, trainer: Trainer, verdict: Verdict, candidate: Candidate, epoch: int) -> None:
        self.verdict = verdict
        self.candidate = candidate
        self.epoch = epoch
        self._trainer = trainer

    @property
    def value(self) -> float:
        """The loss itself, a float."""
        return self.verdict.loss

    @property
    def measurable(self) -> bool:
        """Whether the infrastructure let the criterion judge."""
        return self.verdict.decision is not Decision.UNMEASURABLE

    def backward(self) -> None:
        """Record the verdict.  Doing it again changes nothing."""
        self._trainer.record(self)

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        return f"Loss({self.value:g}, epoch={self.epoch}, {self.verdict.decision.value}: {self.verdict.sentence})"
