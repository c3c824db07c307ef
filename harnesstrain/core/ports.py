"""Protocols that a higher floor injects into a lower one: `store` implements them, `llm` and `rollout` use them."""

from __future__ import annotations

from typing import Protocol

from harnesstrain.core.records.cache import GradeEntry, StepEntry
from harnesstrain.core.records.llm import Reply


class LlmCache(Protocol):
    """Completions by the exact input that produced them.  Reads fail open: a broken entry is a miss."""

    def get(self, key: str) -> Reply | None:
        """The recorded reply for a request key (64 hex), or None."""

    def put(self, key: str, reply: Reply) -> None:
        """Record a live reply.  The first writer of a key wins."""


class StepCache(Protocol):
    """Environment actions by rolling digest: sandbox, limits, environment, then every action.  Reads fail open."""

    def get(self, key: str) -> StepEntry | None:
        """What the last action of the chain `key` (64 hex) did, or None."""

    def put(self, key: str, entry: StepEntry) -> None:
        """Record a live action.  The first writer of a key wins."""


class VerifyCache(Protocol):
    """Grades by verifier and final state.  Reads fail open."""

    def get(self, key: str) -> GradeEntry | None:
        """The recorded grade for a verify key (64 hex), or None."""

    def put(self, key: str, entry: GradeEntry) -> None:
        """Record a live grade.  The first writer of a key wins."""


class StopSignal(Protocol):
    """Asked between units of work; `threading.Event` is one."""

    def is_set(self) -> bool:
        """Whether work should stop (drain)."""
