"""The steps of one episode and the digests that roll over them.  Order is the order of arrival."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from harnesstrain.core.digests import digest, roll
from harnesstrain.core.records.rollout import Source, Step, StepKind

CHAIN_START = digest({"chain": 1})
"""Where every action chain starts."""
ACTIONS = (StepKind.RUN, StepKind.READ, StepKind.WRITE)
"""Kinds of steps that act on the environment."""


class Recorder:
    """Collects steps.  A step's index is reserved when its request arrives, and filled when it is answered."""

    def __init__(self) -> None:
        self._steps: dict[int, Step | Callable[[], Step]] = {}
        self._next = 0
        self._lock = threading.Lock()
        self._chain = CHAIN_START
        self._ran: list[str] = []
        self._ran_at: dict[int, tuple[str, ...]] = {}
        self.valid = 0
        self.noted = 0

    def reserve(self) -> int:
        """The index of the step that has just arrived."""
        with self._lock:
            index = self._next
            self._next += 1
            if self._ran:
                self._ran_at[index] = tuple(self._ran)
                self._ran.clear()
            return index

    def ran(self, names: Sequence[str]) -> None:
        """Keep what a message says about the changed code that ran before it: it belongs to the next step."""
        with self._lock:
            self._ran.extend(names)

    def add(self, step: Step) -> None:
        """Record an answered step."""
        with self._lock:
            self._steps[step.index] = step

    def add_later(self, index: int, make: Callable[[], Step]) -> None:
        """Record an answered step that is made when the steps are asked for: naming all its messages takes long."""
        with self._lock:
            self._steps[index] = make

    def extend_chain(self, action: str) -> str:
        """Roll an action's digest into the chain; returns the chain digest after it."""
        with self._lock:
            self._chain = roll(self._chain, action)
            return self._chain

    def note_validity(self, valid: object) -> None:
        """Count a harness's `note {"valid": bool}`."""
        if isinstance(valid, bool):
            with self._lock:
                self.noted += 1
                self.valid += int(valid)

    def steps(self) -> tuple[Step, ...]:
        """All answered steps, by index."""
        with self._lock:
            found = [step if isinstance(step, Step) else step() for _, step in sorted(self._steps.items())]
            self._steps = {step.index: step for step in found}
            if not self._ran_at and not self._ran:
                return tuple(found)
            return tuple(self._told(step, last=step is found[-1]) for step in found)

    def _told(self, step: Step, *, last: bool) -> Step:
        """A step with what ran before it, and after it when it is the last one."""
        after = tuple(self._ran) if last else ()
        return step.model_copy(update={"ran": self._ran_at.get(step.index, ()), "ran_after": after})

    @property
    def cached(self) -> int:
        """Model replies that came from the cache."""
        return sum(step.kind is StepKind.LLM and step.source is Source.CACHE for step in self.steps())

    @property
    def chain(self) -> str | None:
        """Rolling digest over the environment actions; None when there was none."""
        return self._chain if any(step.kind in ACTIONS for step in self.steps()) else None

    @property
    def requests(self) -> str:
        """Rolling digest over the answered model requests, in order of arrival whatever the order of answers."""
        head = CHAIN_START
        for step in self.steps():
            if step.kind is StepKind.LLM and step.request_digest is not None:
                head = roll(head, step.request_digest)
        return head
