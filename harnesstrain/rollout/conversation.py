"""Messages of one episode, each kept once, addressed by handles.

A whole list and its prefix form are the same conversation, hence the same digests and the same request.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harnesstrain.core.errors import PolicyFailure
from harnesstrain.llm.requests import Conversation, tools_digest


@dataclass(frozen=True)
class Said:
    """A conversation as far as it went, and the handle that stands for it."""

    handle: str
    conversation: Conversation


class Conversations:
    """Every conversation of one episode.  Thread-safe."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any] | list[Any]] = {}
        """Each distinct message (and tool-schema list) by digest, for the trace."""
        self._by_handle: dict[str, Conversation] = {}
        self._lock = threading.Lock()

    def continued(self, prefix: str | None, messages: Sequence[dict[str, Any]]) -> Conversation:
        """The conversation `prefix` + `messages`, kept nowhere.  Raises PolicyFailure for an unknown handle."""
        if prefix is None:
            return Conversation(messages)
        with self._lock:
            before = self._by_handle.get(prefix)
        if before is None:
            msg = f"unknown conversation handle {prefix!r}"
            raise PolicyFailure(msg, hint="use a handle that llm.complete returned in this episode")
        return before.extended(messages)

    def say(self, prefix: str | None, messages: Sequence[dict[str, Any]]) -> Said:
        """`continued`, kept under a new handle."""
        conversation = self.continued(prefix, messages)
        with self._lock:
            for key, message in zip(conversation.added_digests, conversation.added, strict=True):
                self.kept.setdefault(key, message)
            handle = f"h{len(self._by_handle) + 1}"
            self._by_handle[handle] = conversation
        return Said(handle, conversation)

    def keep_tools(self, tools: Sequence[dict[str, Any]]) -> str | None:
        """Keep a request's tool schemas; returns their digest, or None when there are none."""
        if not tools:
            return None
        key = tools_digest(tools)
        with self._lock:
            self.kept.setdefault(key, list(tools))
        return key
