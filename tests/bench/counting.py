"""The scripted model with the tokenizer of the embedded engine: it says what the script says and counts exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harnesstrain.core.records.llm import Endpoint, LlmRequest, Reply
from harnesstrain.llm.base import EngineSpec, Model
from harnesstrain.llm.engines.embedded import EmbeddedEngine
from harnesstrain.llm.engines.scripted import ScriptedEngine


class CountingModel:
    """Replies of one model, token counts of another."""

    def __init__(self, replies: Model, counts: Model) -> None:
        self._replies = replies
        self._counts = counts

    def endpoint(self) -> Endpoint:
        """The scripted model's."""
        return self._replies.endpoint()

    def complete(self, request: LlmRequest) -> Reply:
        """What the script says."""
        return self._replies.complete(request)

    def count_tokens(self, messages: Sequence[Mapping[str, Any]]) -> int:
        """What the tokenizer says."""
        return self._counts.count_tokens(messages)

    def close(self) -> None:
        """Close both."""
        self._replies.close()
        self._counts.close()


class CountingEngine:
    """Starts both.  `model` names the embedded one."""

    def start(self, spec: EngineSpec) -> Model:
        """Raises Prerequisite when the tokenizer's model cannot be had."""
        counts = EmbeddedEngine().start(EngineSpec(engine="embedded", model=spec.model, max_running=1))
        return CountingModel(ScriptedEngine().start(spec), counts)
