"""How servers are asked for more than the OpenAI format has: token ids, logprobs, a cold evaluation.

What a server refuses is left out from then on.  None of it is part of what the endpoint is: it asks for more to be
told, not for another reply.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from harnesstrain.llm.transport import Transport

_TOLD: Mapping[str, Mapping[str, Any]] = {
    "vllm": {"return_token_ids": True},
    "sglang": {"return_token_ids": True},
}
"""By owner: fields that ask for token ids, beside `logprobs`."""

_FLUSHES = 20
"""Tries to flush a cache that can be flushed only while the server is idle."""


class Inspection:
    """The ways of one server, richest first."""

    def __init__(self, transport: Transport, owner: str, own: bool) -> None:
        """`owner`: `owned_by` of the model's entry.  `own`: whether our own front answers."""
        self._transport = transport
        self._owner = owner
        self._own = own
        self._lock = threading.Lock()
        self._refused = 0

    def ways(self, *, cold: bool) -> list[tuple[int, dict[str, Any]]]:
        """Rank and body fields of each way that was not refused yet; the last asks for nothing.

        For a server whose cache is flushed as a whole, `cold` flushes it now.
        """
        cooling: dict[str, Any] = self._cold() if cold else {}
        scored: dict[str, Any] = {"logprobs": True, **cooling}
        ways = [{**scored, **_TOLD.get(self._owner, {})}, scored, cooling, {}]
        with self._lock:
            return [(rank, fields) for rank, fields in enumerate(ways) if rank >= self._refused]

    def settle(self, rank: int) -> None:
        """The server took the way of this rank; richer ones are not tried again."""
        with self._lock:
            self._refused = max(self._refused, rank)

    def _cold(self) -> dict[str, Any]:
        if self._own or self._owner == "llamacpp":
            return {"cache_prompt": False}
        if self._owner == "vllm":
            return {"cache_salt": uuid4().hex}
        if self._owner == "sglang":
            place = f"{self._transport.url.removesuffix('/v1')}/flush_cache"
            for _ in range(_FLUSHES):
                if self._transport.answers(place):
                    break
                time.sleep(0.05)
        return {}
