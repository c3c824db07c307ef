"""greedy-monotonic: promote iff the verdict selects the candidate, that is iff its loss is negative."""

from __future__ import annotations

from harnesstrain.core.records.verdict import Decision, Verdict


class GreedyMonotonic:
    """Every promotion is an improvement over the baseline it was measured against."""

    name = "greedy-monotonic"

    def decide(self, verdict: Verdict) -> str | None:
        """Promote when selected with a negative loss."""
        if verdict.decision is Decision.UNMEASURABLE:
            return f"unmeasurable: {verdict.sentence}"
        if not verdict.selected or verdict.loss >= 0:
            return f"rejected: {verdict.sentence}"
        return None
