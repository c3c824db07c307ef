"""The scripted model with other ways to count tokens: the embedded engine's tokenizer, or a mere glance."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from harnesstrain.core.ports import StopSignal
from harnesstrain.core.records.llm import Endpoint, LlmRequest, Reply
from harnesstrain.llm.base import EngineSpec, Model
from harnesstrain.llm.engines.embedded import EmbeddedEngine
from harnesstrain.llm.engines.scripted import ScriptedEngine
from harnesstrain.llm.script import load_script
from harnesstrain.llm.scripted import ScriptedModel


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


class GlancingModel(ScriptedModel):
    """Takes a hundred tokens for every message: what it costs itself does not grow with the conversation."""

    busy = 0.0
    """Seconds of processor time that all of them took to answer."""
    _lock_busy = threading.Lock()

    def complete_until(self, request: LlmRequest, stop: StopSignal) -> Reply:
        """What the script says."""
        before = time.thread_time()
        try:
            return super().complete_until(request, stop)
        finally:
            with GlancingModel._lock_busy:
                GlancingModel.busy += time.thread_time() - before

    def count_tokens(self, messages: Sequence[Mapping[str, Any]]) -> int:
        """A hundred a message."""
        return 100 * len(messages)


class GlancingEngine:
    """Starts a GlancingModel."""

    def start(self, spec: EngineSpec) -> Model:
        """Read the rules."""
        assert spec.script is not None
        return GlancingModel(load_script(spec.script))
