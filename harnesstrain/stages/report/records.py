"""The report as data.  What a renderer shows is here and nowhere else."""

from __future__ import annotations

from pydantic import Field

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.verdict import Excluded, Flip, Levers
from harnesstrain.judge.statistics import Interval
from harnesstrain.judge.transitions import Transition
from harnesstrain.stages.report.changes import Changes
from harnesstrain.stages.report.flips import FlipDiffs
from harnesstrain.stages.report.matrix import Matrix
from harnesstrain.stages.report.models import ModelMatrix
from harnesstrain.stages.report.noise import Noise
from harnesstrain.stages.report.regimes import Regimes
from harnesstrain.stages.report.spending import Spending

REPORT_SCHEMA = 1


class ModelShown(Record):
    """The frozen model."""

    engine: str
    model: str
    fingerprint: str
    deterministic: bool


class Header(Record):
    """What was measured, under what."""

    base_commit: str
    cand_commit: str | None
    """None: only a baseline was measured."""
    base_run: str
    cand_run: str | None
    panel: str
    """Name."""
    panel_digest: str
    split: str | None
    tasks: int
    seeds: tuple[int, ...]
    regime: str
    """Digest."""
    model: ModelShown | None
    """None: the store does not know the regime's endpoint."""
    sandbox: str = ""
    """Kind and network mode."""
    grading: str = ""
    sampling: str = ""
    """Temperature, seed, completion tokens, in words."""
    command: str = ""
    """What makes this report again."""


class Certification(Record):
    """How much of the baseline's panel was shown to be deterministic."""

    certified: int
    """Cells whose chain was reproduced, and those that executed nothing."""
    cells: int
    results: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Cells by result: exact, equivalent, no_chain, forked, not_certified."""
    gradings: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Graded cells by what grading again showed: same, outcome, other, impossible, never."""
    gains: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """The same, of what the candidate solved and the baseline did not."""


class EpochRow(Record):
    """One turn of the loop."""

    number: int
    state: str
    candidate: str | None = None
    """Candidate id."""
    commit: str | None = None
    hypothesis: str = ""
    solved: int | None = None
    """By the candidate, over all of its cells."""
    base_solved: int | None = None
    cells: int | None = None
    """Cells measured of the candidate, else of the baseline."""
    unmeasurable: int = 0
    """Of `cells`, those that the infrastructure failed."""
    not_needed: int = 0
    """Cells of the candidate that could not change the verdict and were not measured."""
    interval: Interval | None = None
    """95 % Wilson interval of solved/cells; None where only a part was measured."""
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    flips: tuple[Flip, ...] = ()
    """Gained, then lost, each with what it rests on."""
    later: tuple[Flip, ...] = ()
    """Of a promoted change: the flips of cells that its verdict did not need, and that were measured since."""
    verdict: str | None = None
    reason: str = ""
    measured_on: str = ""
    """Panel and model, as digests: only what was measured on the same makes one curve.  Empty: nothing was measured."""

    @property
    def every(self) -> tuple[Flip, ...]:
        """All flips, gained before lost."""
        return tuple(sorted((*self.flips, *self.later), key=lambda flip: not flip.gained))


class VerdictShown(Record):
    """What was decided, or, when nobody judged, what the comparison alone says."""

    id: str | None
    criterion: str | None
    decision: str | None
    loss: float | None
    sentence: str
    gained: tuple[Flip, ...]
    lost: tuple[Flip, ...]
    hollow: tuple[Flip, ...]
    p_value: float
    detectable: int
    proven_unchanged: int
    compared: int
    """Cells measured on both sides."""
    not_needed: int = 0
    """Cells that could not change the verdict and were not measured."""


class Measured(Record):
    """A run outside the training split, e.g. holdout."""

    run: str
    commit: str
    split: str
    solved: int
    cells: int
    unmeasurable: int
    complete: bool
    interval: Interval
    not_needed: int = 0
    """Cells that an early decision left out: then the interval is of a chosen part."""


class Moved(Record):
    """The first and the newest harness version of the lineage, compared on one split."""

    split: str
    """With the panel's name before it where the store has several."""
    chosen: bool = False
    """Whether epochs were judged on these tasks: the loop chose by them."""
    base_commit: str
    cand_commit: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    compared: int
    p_value: float


class Ancestor(Record):
    """One promotion."""

    old: str
    new: str
    state: str
    epoch: int | None
    hypothesis: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    verdict: str | None


class Helped(Record):
    """A change that flipped something, and where it acted."""

    epoch: int
    state: str
    """Of the epoch."""
    hypothesis: str
    flips: FlipDiffs


class MemoShown(Record):
    """The estimator's running diagnosis."""

    text: str
    epoch: int | None
    author: str


class Report(Record):
    """What happened, and whether to believe it.  A function of the store's records alone: no clock, no host."""

    schema_version: int = REPORT_SCHEMA
    header: Header
    certification: Certification
    epochs: tuple[EpochRow, ...] = ()
    verdict: VerdictShown | None = None
    base: Levers
    cand: Levers | None = None
    excluded: tuple[Excluded, ...] = ()
    unmeasurable: tuple[Excluded, ...] = ()
    flips: FlipDiffs = FlipDiffs()
    helped: tuple[Helped, ...] = ()
    """The newest changes that flipped something, newest last; the compared one is in `flips`."""
    """Where each flipped cell parts."""
    transitions: tuple[Transition, ...] = ()
    holdout: tuple[Measured, ...] = ()
    moved: tuple[Moved, ...] = ()
    """What the whole lineage gained on other splits."""
    lineage: tuple[Ancestor, ...] = ()
    memo: MemoShown | None = None
    matrix: Matrix = Matrix()
    spending: Spending | None = None
    noise: Noise = Noise()
    regimes: Regimes | None = None
    """None: the store does not know the reported regime."""
    models: ModelMatrix | None = None
    """None: this panel was measured on one model only."""
    changes: Changes | None = None
    """The harness diff; None: there is no candidate, or no repo to ask."""
    loose: int = 0
    """Rollouts of the compared runs that were not isolated."""
    warnings: tuple[str, ...] = ()
    """What limits belief: not isolated, not deterministic, not certified, incomplete."""
