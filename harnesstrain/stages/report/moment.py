"""One moment of a store at work, as data: what `ht watch` shows, and nothing else."""

from __future__ import annotations

from pydantic import computed_field

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import Outcome
from harnesstrain.stages.report.pace import Eta
from harnesstrain.store.base import Holder

RUNNING, WAITING, BROKEN_OFF, NOT_NEEDED = "running", "waiting", "broken off", "not needed"
"""States of a cell without a result.  One with a result has its outcome's name."""
UNSCORABLE = tuple(outcome.value for outcome in Outcome if not outcome.scorable)


class CellNow(Record):
    """One cell of a run that is being measured."""

    task: str
    seed: int
    state: str
    """waiting, running, broken off (its process is gone), not needed, or the outcome of the newest attempt."""
    reason: str = ""
    attempt: int = 0
    """The attempt that `state` is of; 0: none was started."""
    seconds: float | None = None
    """Running: since it was started, by the clock.  With an outcome: recorded seconds."""
    tokens: int = 0
    calls: int = 0
    at: float | None = None
    """When its result was committed, seconds since 1970."""


class RunNow(Record):
    """One run: being measured, broken off, or the last one."""

    run: str
    commit: str
    role: str
    """baseline or candidate of the open epoch, or empty."""
    panel: str
    split: str | None
    model: str
    """The model's name; empty when the store does not know it."""
    state: str
    """measuring, stale (its process is gone), complete, incomplete."""
    cells: tuple[CellNow, ...]
    """In panel order."""
    prompt: int
    """Tokens, over every attempt."""
    cached: int
    """Of `prompt`, those that the model had in its own prefix cache."""
    completion: int
    calls: int
    """Model calls."""
    calls_cached: int
    """Of `calls`, those served from the llm cache."""
    actions: int
    actions_cached: int
    from_caches: int
    """Attempts of which nothing ran but the harness."""
    elapsed: float | None
    """Seconds since its process took the lease; None: nobody measures it."""
    eta: Eta | None
    """About how long it still takes; None: nobody measures it, or nothing is known yet."""
    at_most: bool = False
    """It may be decided before all cells are measured."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def done(self) -> int:
        """Cells with a result."""
        return sum(cell.at is not None for cell in self.cells)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def solved(self) -> int:
        """Cells solved so far."""
        return self.count(Outcome.SOLVED.value)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def running(self) -> int:
        """Cells under way."""
        return self.count(RUNNING)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def unmeasurable(self) -> int:
        """Cells whose newest attempt infrastructure failed."""
        return self.count(*UNSCORABLE)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def tokens(self) -> int:
        """Prompt and completion tokens."""
        return self.prompt + self.completion

    def count(self, *states: str) -> int:
        """Cells in these states."""
        return sum(cell.state in states for cell in self.cells)


class EpochNow(Record):
    """The open epoch."""

    number: int
    state: str
    stage: str
    """What the loop is at, in words."""
    base: str
    """Baseline commit."""
    base_run: str | None
    candidate: str | None
    commit: str | None
    """Of the candidate."""
    hypothesis: str
    cand_run: str | None
    verdict: str | None
    certificates: int = 0
    """Of the baseline's run, while it is being certified."""


class VerdictNow(Record):
    """One of the newest verdicts."""

    id: str
    epoch: int | None
    decision: str
    gained: int
    lost: int
    sentence: str
    hypothesis: str
    at: float
    """Seconds since 1970."""


class Live(Record):
    """Where things stand."""

    state: str
    """measuring; working (a lease is held, and no run); stale (who was at work is gone); idle; nothing (no record)."""
    epoch: EpochNow | None
    """None: none is open."""
    runs: tuple[RunNow, ...]
    """Those that are measured, or were measured last."""
    verdicts: tuple[VerdictNow, ...]
    """The newest ones, newest first."""
    judged: int
    """Verdicts in all."""
    holders: tuple[Holder, ...]
    """Who holds leases."""
    epochs: int
    """Of the whole history."""
    promoted: int

    @property
    def at_work(self) -> bool:
        """Whether somebody is."""
        return self.state in ("measuring", "working")

    @property
    def unfinished(self) -> bool:
        """Nobody is at work, and something was begun and not finished."""
        broken = any(run.state in ("stale", "incomplete") for run in self.runs)
        return not self.at_work and (self.state == "stale" or broken)
