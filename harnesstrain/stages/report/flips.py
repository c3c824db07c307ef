"""Where the two sides of each flipped cell part, as data."""

from __future__ import annotations

from harnesstrain.core.records.base import Record
from harnesstrain.stages.report.linediff import SideBySide
from harnesstrain.stages.report.steplines import StepLine


class FlipSide(Record):
    """What one side did from where the two part."""

    rollout: str
    run: str
    outcome: str
    reason: str | None = None
    detail: str = ""
    """The evidence of the outcome, in one sentence."""
    reward: float | None = None
    step: int | None = None
    """Where it parts: place in its trace, as `ht show` counts; None when it had ended."""
    followed: tuple[StepLine, ...] = ()
    """The first steps from there on."""
    left: int = 0
    """Steps after those."""
    tail: str = ""
    """The end of the last output, or of the harness's own log after a crash; bounded, and it says so."""
    tail_of: str = ""
    """What `tail` is the end of."""
    problem: str = ""
    """Why there is no trace to read; empty when there is one."""
    command: str
    """Shows the whole of it."""


class Parted(Record):
    """How the two sides part."""

    kind: str
    """request, action, reply, observation, outcome: as `ht diff` says."""
    actor: str
    """Who did something else: harness, model, environment or verifier."""
    sentence: str
    """What differs, in one sentence."""
    differing: SideBySide = SideBySide()
    """The text that differs; no rows where there is none to compare."""


class FlipDiff(Record):
    """One flipped cell: what both sides share, where they part, what followed."""

    task: str
    seed: int
    kind: str
    """gained, lost, or empty where both sides solved it or neither."""
    attribution: str | None = None
    evidence: str = ""
    base: FlipSide
    cand: FlipSide
    shared: int = 0
    """Steps that both sides share before they part; what a harness notes is not counted."""
    prefix: tuple[StepLine, ...] = ()
    """The last of the shared steps, with the candidate's places."""
    folded: int = 0
    """Shared steps before those."""
    parted: Parted | None = None
    """None: a trace is missing; the side says why."""
    command: str
    """Shows both sides of the step in full."""


class FlipDiffs(Record):
    """Every flipped cell of a comparison."""

    shown: tuple[FlipDiff, ...] = ()
    """Gained, then lost, in panel order."""
    left_out: tuple[str, ...] = ()
    """Cells beyond the bound, as `TASK sSEED`."""
    command: str = ""
    """Lists all of them."""
