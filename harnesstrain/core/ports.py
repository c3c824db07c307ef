"""Protocols that a higher floor injects into a lower one: `store` implements them, `llm` and `rollout` use them."""

from __future__ import annotations

from typing import Protocol

from harnesstrain.core.records.llm import Reply


class LlmCache(Protocol):
    """Completions by the exact input that produced them.  Reads fail open: a broken entry is a miss."""

    def get(self, key: str) -> Reply | None:
        """The recorded reply for a request key (64 hex), or None."""

    def put(self, key: str, reply: Reply) -> None:
        """Record a live reply.  The first writer of a key wins."""


class StopSignal(Protocol):
    """Asked between units of work; `threading.Event` is one."""

    def is_set(self) -> bool:
        """Whether work should stop (drain)."""
