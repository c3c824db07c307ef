"""What an episode may still spend.  Steps and tokens are exact; time is recorded time, so a replay decides alike."""

from __future__ import annotations

import threading

from harnesstrain.core.records.llm import Usage
from harnesstrain.core.records.rollout import Reason
from harnesstrain.core.records.run import Budgets


class Meter:
    """Counts what one episode spends.  Thread-safe: subagents of a harness may call at once."""

    def __init__(self, budgets: Budgets, task_timeout: float | None = None) -> None:
        self.budgets = budgets
        self.time_limit = (budgets.time if task_timeout is None else task_timeout) * budgets.time_multiplier
        """Recorded seconds."""
        self.calls = 0
        self.actions = 0
        self.time = 0.0
        self.usage = Usage()
        self._lock = threading.Lock()

    def admit_call(self) -> Reason | None:
        """Count one model call, or say which budget forbids it."""
        with self._lock:
            if self.calls >= self.budgets.steps:
                return Reason.STEP_LIMIT
            if self.usage.total >= self.budgets.tokens:
                return Reason.TOKEN_LIMIT
            if self.time >= self.time_limit:
                return Reason.TIME_LIMIT
            self.calls += 1
            return None

    def admit_action(self) -> Reason | None:
        """Count one environment action, or say which budget forbids it.  Actions cost no tokens."""
        with self._lock:
            if self.actions >= self.budgets.actions:
                return Reason.STEP_LIMIT
            if self.time >= self.time_limit:
                return Reason.TIME_LIMIT
            self.actions += 1
            return None

    def charge(self, seconds: float, usage: Usage | None = None) -> None:
        """Charge recorded seconds, and tokens for a model call."""
        with self._lock:
            self.time += seconds
            if usage is not None:
                self.usage = self.usage + usage

    def remaining_time(self) -> float:
        """Recorded seconds left; 0 or less when a model call beside spent them."""
        with self._lock:
            return self.time_limit - self.time
