"""The protocol of a criterion (registry group `criteria`), and what a rule needs to be one."""

from __future__ import annotations

from typing import Protocol

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.verdict import Flip, Verdict
from harnesstrain.judge.comparison import Comparison, Pair


class Criterion(Protocol):
    """Judges a comparison into a verdict.  Constructed without arguments; pure."""

    name: str
    """Enters the verdict's id; say parameters in it, e.g. `mcnemar@0.05`."""

    def judge(self, comparison: Comparison) -> Verdict:
        """The verdict.  A negative loss selects the candidate."""


class Tally(Record):
    """What a rule counts: the flips, and the pairs that both sides measured."""

    gained: tuple[Flip, ...]
    lost: tuple[Flip, ...]
    pairs: tuple[Pair, ...]
    """Both sides measured.  A flip supposed for an open cell has no pair here."""
    deterministic: bool = True


class Loss(Record):
    """A rule's answer."""

    value: float
    """Negative selects; 0: no change; +inf: never."""
    sentence: str
    """Why, in one sentence without the decision."""
    primary: bool = True
    """False when secondary metrics were asked: cells that were not measured could have changed them."""
    doubt: str = ""
    """Why the rule cannot decide from what is known, in one sentence; the verdict is then unmeasurable."""


class Rule(Protocol):
    """A loss over a tally.  `judge.bracket.judged` makes a criterion of it, infrastructure noise included.

    Monotone: a further gain never raises the loss, a further loss never lowers it.
    """

    name: str

    def loss(self, tally: Tally) -> Loss:
        """The loss of one fully known tally."""
