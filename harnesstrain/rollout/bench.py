"""What an episode needs besides its cell: a model, a sandbox, a regime.  Shared by every rollout of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from harnesstrain.core.ports import StepCache, VerifyCache
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.harness import Changes, Manifest
from harnesstrain.core.records.rollout import Rollout, Trace
from harnesstrain.core.records.run import Regime
from harnesstrain.core.records.sandbox import Limits
from harnesstrain.core.records.task import Task
from harnesstrain.harness.process import HarnessLimits
from harnesstrain.llm.cached import CachedModel
from harnesstrain.rollout.changes import Starts
from harnesstrain.rollout.flights import Flights
from harnesstrain.sandbox.base import Sandbox


@dataclass(frozen=True)
class Bench:
    """The devices of a run.  Thread-safe, since model and sandbox are."""

    model: CachedModel
    sandbox: Sandbox
    regime: Regime
    limits: Limits = field(default_factory=Limits)
    isolated: bool = True
    """Whether the harness runs in the jail; False only when the user said so."""
    harness_limits: HarnessLimits = field(default_factory=HarnessLimits)
    harness_idle: float = 300.0
    """Seconds of silence after which a harness counts as crashed."""
    harness_time: float = 1800.0
    """Seconds that a harness may take for itself in one episode; waiting for its calls does not count."""
    model_deadline: float = 600.0
    """Seconds one model call may take, retries included."""
    step_cache: StepCache | None = None
    verify_cache: VerifyCache | None = None
    cache_read: bool = True
    """Whether recorded actions and grades are served."""
    cache_write: bool = True
    """Whether actions and grades are recorded, and states kept."""
    flights: Flights = field(default_factory=Flights)
    """Actions and grades that are being made, so that equal ones are made once."""
    starts: Starts = field(default_factory=Starts)
    """What the checkouts of tasks start from."""


@dataclass(frozen=True)
class Cell:
    """One attempt to be made."""

    run: str
    rollout: str
    """Id the rollout will have."""
    task: Task
    seed: int
    attempt: int
    worktree: Path
    """The harness version's files, read-only for the harness."""
    manifest: Manifest
    changes: Changes | None = None
    """What the harness is to watch, if it can; None: nothing."""
    thorough: bool = False
    """Start from no kept state: an earlier attempt drifted."""


class Finished(Record):
    """What an episode returns to the driver, which alone writes records."""

    rollout: Rollout
    trace: Trace
