"""total-solves: baseline solved - candidate solved over the compared cells; equal: secondary metrics in order.

Ties are broken as under strict-pareto: see secondary.py.
"""

from __future__ import annotations

from harnesstrain.core.records.verdict import Verdict
from harnesstrain.judge.base import Loss, Tally
from harnesstrain.judge.bracket import judged, named
from harnesstrain.judge.comparison import Comparison
from harnesstrain.judge.secondary import tie_break


class TotalSolves:
    """More solves than the baseline, whichever they are."""

    name = "total-solves"

    def judge(self, comparison: Comparison) -> Verdict:
        """See the module."""
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
