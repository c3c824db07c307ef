"""attributed-pareto: as strict-pareto, but only flips that the change explains count at once.

Any other flip (collateral, or not traced) counts when the same task flips the same way on another seed of the two runs.
When the task did something else on its other seeds, the flip was noise.  Without another seed a gain does not count,
and a loss leaves the verdict unmeasurable: one more seed settles it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from harnesstrain.core.records.verdict import Flip, Verdict
from harnesstrain.judge.attribution import ATTRIBUTED
from harnesstrain.judge.base import Loss, Tally
from harnesstrain.judge.bracket import judged, named
from harnesstrain.judge.comparison import Comparison
from harnesstrain.judge.secondary import tie_break


class AttributedPareto:
    """No regression, and at least one gain that the change explains."""

    name = "attributed-pareto"

    def judge(self, comparison: Comparison) -> Verdict:
        """See the module."""
        return judged(self, comparison)

    def loss(self, tally: Tally) -> Loss:
        """+inf with a loss that counts or cannot be told from noise, -(gains that count), else the tie-break."""
        lost = [flip for flip in tally.lost if _counts(flip, tally.lost)]
        gained = [flip for flip in tally.gained if _counts(flip, tally.gained)]
        left = [flip for flip in (*tally.gained, *tally.lost) if flip not in lost and flip not in gained]
        aside = f"; not counted: {named(left)}, which the change does not explain" if left else ""
        if lost:
            also = f", though it gained {len(gained)}" if gained else ""
            return Loss(value=math.inf, sentence=f"lost {named(lost)}{also}{aside}")
        alone = [flip for flip in tally.lost if not _elsewhere(flip, tally)]
        if alone:
            seeds = 1 + max([*(pair.seed for pair in tally.pairs), *(flip.seed for flip in alone)])
            doubt = (
                f"lost {named(alone)}, which the change does not explain; `--seeds {seeds}` tells whether it repeats"
            )
            return Loss(value=math.inf, sentence=doubt, doubt=doubt)
        if gained:
            return Loss(value=-float(len(gained)), sentence=f"gained {named(gained)}, lost nothing{aside}")
        tied = f"no gain that the change explains{aside}" if left else "same solves"
        return tie_break(tally, tied)


def _counts(flip: Flip, alike: Sequence[Flip]) -> bool:
    """Whether the change explains a flip, or it repeats on another seed."""
    repeated = any(other.task == flip.task and other.seed != flip.seed for other in alike)
    return flip.attribution == ATTRIBUTED or repeated


def _elsewhere(flip: Flip, tally: Tally) -> bool:
    """Whether the flip's task was compared on another seed."""
    return any(pair.task == flip.task and pair.seed != flip.seed for pair in tally.pairs)
