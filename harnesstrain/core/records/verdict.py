"""Verdicts and what follows from them."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import Usage

NOT_NEEDED = "not_needed"
"""Reason of a cell that could not change the decision any more, and was not measured."""


class Decision(StrEnum):
    """What a verdict says.  `unchanged` never promotes; `unmeasurable` is never a rejection."""

    SELECTED = "selected"
    REJECTED = "rejected"
    UNMEASURABLE = "unmeasurable"


class Flip(Record):
    """A (task, seed) whose outcome differs between baseline and candidate."""

    task: str
    seed: int
    gained: bool
    """True: unsolved → solved."""
    base_outcome: str
    cand_outcome: str
    attribution: str | None = None
    """attributed, collateral, or None when not traced."""
    evidence: str = ""
    """What the attribution rests on, in one sentence: the first changed line that ran, and where the two sides part."""


class Levers(Record):
    """Secondary measurements of one side over the compared cells."""

    solved: int
    cells: int
    llm_calls: int = 0
    actions: int = 0
    usage: Usage = Field(default_factory=Usage)
    recorded_time: float = 0.0
    first_try_valid: int = 0
    first_try_total: int = 0

    @property
    def first_try_rate(self) -> float | None:
        """Share of replies acted on without repair; None when nothing was noted."""
        return self.first_try_valid / self.first_try_total if self.first_try_total else None

    @property
    def tokens_per_solve(self) -> float | None:
        """Prompt and completion tokens per solved cell; None without a solve."""
        return self.usage.total / self.solved if self.solved else None


class Excluded(Record):
    """A cell left out of the comparison, and why."""

    task: str
    seed: int
    reason: str
    """forked, not_certified, missing, not_needed."""
    detail: str = ""


class Verdict(Record):
    """A criterion's judgement of candidate against baseline."""

    id: str
    """digest(base run, candidate run, criterion, inputs)."""
    base_run: str
    cand_run: str
    base_commit: str
    cand_commit: str
    regime: str
    criterion: str
    decision: Decision
    loss: float
    """Negative selects the candidate; +inf: a regression under strict-pareto."""
    sentence: str
    """The criterion's reason, one sentence."""
    gained: tuple[Flip, ...] = ()
    lost: tuple[Flip, ...] = ()
    hollow: tuple[Flip, ...] = ()
    """Moves between unsolved outcomes: no improvement, but listed."""
    excluded: tuple[Excluded, ...] = ()
    unmeasurable: tuple[Excluded, ...] = ()
    base: Levers
    cand: Levers
    p_value: float
    """Exact one-sided McNemar over the discordant pairs."""
    detectable: int
    """Fewest clean gains that would reach p <= 0.05 on this panel; 0 when it cannot."""
    proven_unchanged: int = 0
    """Cells served wholly from caches: same requests, same actions."""
    certificates: tuple[str, ...] = ()
    """Ids of the env certificates it rests on.  Later ones do not change it."""
    certified: bool = False
    """Whether cells without a certificate were left out."""
    base_attempts: int = 0
    """Rollouts of the baseline's run when this was judged, in order of commit.  Later retries do not change it."""
    cand_attempts: int = 0
    inputs: str = ""
    """Digest of the rollouts' measurements, so that `ht verify` can derive this verdict again."""

    @property
    def selected(self) -> bool:
        """Whether the optimizer may promote."""
        return self.decision is Decision.SELECTED

    @property
    def not_needed(self) -> int:
        """Cells that were left unmeasured because they could not change the decision."""
        return sum(one.reason == NOT_NEEDED for one in self.excluded)


class Promotion(Record):
    """A compare-and-swap of the harness branch.  Recorded before (`intended`) and after (`done`)."""

    id: str
    verdict: str | None
    branch: str
    old: str
    new: str
    state: str
    """intended, done, refused."""
    reason: str = ""


class Memo(Record):
    """The estimator's running diagnosis.  The newest one is read before the next proposal."""

    id: str
    text: str
    epoch: int | None = None
    verdict: str | None = None
    author: str = ""
    """Estimator name."""
    usage: Usage = Field(default_factory=Usage)
    """What writing it took."""
    transcript: str | None = None
    """Digest of the kept transcript (a blob of the store)."""


class Epoch(Record):
    """One turn of the loop, and how far it came."""

    number: int
    base: str
    """Baseline commit."""
    base_run: str | None = None
    candidate: str | None = None
    """Candidate id."""
    cand_run: str | None = None
    verdict: str | None = None
    promotion: str | None = None
    state: str
    """started, skipped, rejected, promoted, unmeasurable, failed, abandoned (the baseline moved meanwhile)."""
    reason: str = ""
    seconds: float = 0.0
    """Wall time spent; for display only."""
