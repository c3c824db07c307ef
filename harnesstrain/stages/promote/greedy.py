"""greedy-monotonic: promote iff the verdict selects the candidate, that is iff its loss is negative."""

from __future__ import annotations

from harnesstrain.core.records.verdict import Verdict


class GreedyMonotonic:
    """Every promotion is an improvement over the baseline it was measured against."""

    name = "greedy-monotonic"

    def decide(self, verdict: Verdict) -> str | None:
        """Promote when selected with a negative loss."""
        return None if verdict.selected and verdict.loss < 0 else verdict.sentence
