"""The steps of one episode and the digests that roll over them.  Order is the order of arrival."""

from __future__ import annotations

import threading
from typing import Any

from harnesstrain.core.digests import digest, roll
from harnesstrain.core.records.rollout import Step, StepKind

CHAIN_START = digest({"chain": 1})
"""Where every action chain starts."""


class Recorder:
    """Collects steps.  A step's index is reserved when its request arrives, and filled when it is answered."""

    def __init__(self) -> None:
        self._steps: dict[int, Step] = {}
        self._next = 0
        self._lock = threading.Lock()
        self.chain = CHAIN_START
        """Rolling digest over the environment actions so far."""
        self.requests = CHAIN_START
        """Rolling digest over the model requests so far."""
        self.valid = 0
        self.noted = 0

    def reserve(self) -> int:
        """The index of the step that has just arrived."""
        with self._lock:
            index = self._next
            self._next += 1
            return index

    def add(self, step: Step) -> None:
        """Record an answered step."""
        with self._lock:
            self._steps[step.index] = step

    def extend_chain(self, action: dict[str, Any]) -> str:
        """Roll `action` into the chain; returns the chain digest after it."""
        with self._lock:
            self.chain = roll(self.chain, action)
            return self.chain

    def extend_requests(self, request_key: str) -> None:
        """Roll a model request into the request digest."""
        with self._lock:
            self.requests = roll(self.requests, request_key)

    def note_validity(self, valid: object) -> None:
        """Count a harness's `note {"valid": bool}`."""
        if isinstance(valid, bool):
            with self._lock:
                self.noted += 1
                self.valid += int(valid)

    def steps(self) -> tuple[Step, ...]:
        """All answered steps, by index."""
        with self._lock:
            return tuple(self._steps[index] for index in sorted(self._steps))

    def acted(self) -> bool:
        """Whether any environment action was recorded."""
        actions = (StepKind.RUN, StepKind.READ, StepKind.WRITE)
        with self._lock:
            return any(step.kind in actions for step in self._steps.values())
