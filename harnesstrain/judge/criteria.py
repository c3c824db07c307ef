"""The built-in criteria.

strict-pareto   a baseline-solved cell lost: +inf; else -(cells gained); none of either: secondary metrics in order
total-solves    baseline solved - candidate solved over the compared cells; equal: secondary metrics in order

Both break exact ties by `secondary.py`: a win is a small negative loss, a defeat a small positive one, no difference is
0 and rejected as "no change".  Moves between unsolved outcomes count for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from harnesstrain.core.records.verdict import Flip, Verdict
from harnesstrain.judge.base import Loss, Tally
from harnesstrain.judge.bracket import NAMED, judged
from harnesstrain.judge.comparison import Comparison
from harnesstrain.judge.secondary import tie_break


class StrictPareto:
    """No regression, at least one gain."""

    name = "strict-pareto"

    def judge(self, comparison: Comparison) -> Verdict:
        """See the module's table."""
        return judged(self, comparison)

    def loss(self, tally: Tally) -> Loss:
        """+inf with a loss, -(gained) with gains alone, else the tie-break."""
        if tally.lost:
            also = f", though it gained {len(tally.gained)}" if tally.gained else ""
            return Loss(value=math.inf, sentence=f"lost {named(tally.lost)}{also}")
        if tally.gained:
            return Loss(value=-float(len(tally.gained)), sentence=f"gained {named(tally.gained)}, lost nothing")
        return tie_break(tally, "same solves")


class TotalSolves:
    """More solves than the baseline, whichever they are."""

    name = "total-solves"

    def judge(self, comparison: Comparison) -> Verdict:
        """See the module's table."""
        return judged(self, comparison)

    def loss(self, tally: Tally) -> Loss:
        """lost - gained, which is baseline solved - candidate solved; the tie-break when equal."""
        net = len(tally.lost) - len(tally.gained)
        if net == 0:
            swaps = f" ({len(tally.gained)} gained, {len(tally.lost)} lost)" if tally.gained else ""
            return tie_break(tally, f"same number of solves{swaps}")
        parts = [
            f"gained {named(tally.gained)}" if tally.gained else "",
            f"lost {named(tally.lost)}" if tally.lost else "",
        ]
        return Loss(value=float(net), sentence=", ".join(part for part in parts if part))


def named(flips: Sequence[Flip]) -> str:
    """The tasks of some flips for a sentence: the first few by name, with the seed where a task flips on several."""
    tasks = [flip.task for flip in flips]
    words = [f.task if tasks.count(f.task) == 1 else f"{f.task}#{f.seed}" for f in flips[:NAMED]]
    more = f" and {len(flips) - NAMED} more" if len(flips) > NAMED else ""
    return ", ".join(words) + more
