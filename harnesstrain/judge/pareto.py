"""strict-pareto: a baseline-solved cell lost: +inf; else -(cells gained); none of either: secondary metrics in order.

A tie-break (see secondary.py) won is a small negative loss, one lost a small positive loss, no difference is 0 and
rejected as "no change".  Moves between unsolved outcomes count for nothing.
"""

from __future__ import annotations

import math

from harnesstrain.core.records.verdict import Verdict
from harnesstrain.judge.base import Loss, Tally
from harnesstrain.judge.bracket import judged, named
from harnesstrain.judge.comparison import Comparison
from harnesstrain.judge.secondary import tie_break


class StrictPareto:
    """No regression, at least one gain."""

    name = "strict-pareto"

    def judge(self, comparison: Comparison) -> Verdict:
        """See the module."""
        return judged(self, comparison)

    def loss(self, tally: Tally) -> Loss:
        """+inf with a loss, -(gained) with gains alone, else the tie-break."""
        if tally.lost:
            also = f", though it gained {len(tally.gained)}" if tally.gained else ""
            return Loss(value=math.inf, sentence=f"lost {named(tally.lost)}{also}")
        if tally.gained:
            return Loss(value=-float(len(tally.gained)), sentence=f"gained {named(tally.gained)}, lost nothing")
        return tie_break(tally, "same solves")
