"""One exchange with a frozen model."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from harnesstrain.core.digests import digest
from harnesstrain.core.records.base import Record
from harnesstrain.core.texts import WholeText


class Sampling(Record):
    """How the next token is chosen.  Part of the regime; a harness may override only what the regime allows."""

    temperature: float = 0.0
    """0 is greedy."""
    top_p: float = 1.0
    top_k: int | None = None
    """None: unlimited."""
    seed: int = 0
    """Added to the rollout's seed by the driver."""
    max_tokens: int = 512
    """Completion tokens per call, at most."""
    stop: tuple[str, ...] = ()
    reasoning_effort: str | None = None
    """Passed through to endpoints that know it."""


class ToolCall(Record):
    """A call the model asked for."""

    id: WholeText
    name: WholeText
    arguments: WholeText
    """Raw JSON text as the model wrote it; not validated."""


class Usage(Record):
    """Token counts of one call or a sum of calls."""

    prompt: int = 0
    cached: int = 0
    """Of `prompt`, tokens the server did not evaluate again."""
    completion: int = 0
    reasoning: int = 0
    """Of `completion`, tokens of reasoning."""

    def __add__(self, other: Usage) -> Usage:
        return Usage.trusted(
            prompt=self.prompt + other.prompt,
            cached=self.cached + other.cached,
            completion=self.completion + other.completion,
            reasoning=self.reasoning + other.reasoning,
        )

    @property
    def total(self) -> int:
        """Prompt plus completion tokens."""
        return self.prompt + self.completion


class Reply(Record):
    """A complete model reply.  Exactly what the LLM cache stores.  Its texts are valid Unicode, whoever made it."""

    content: WholeText = ""
    reasoning: WholeText = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: WholeText = "stop"
    """`stop`, `length`, `tool_calls` or whatever the server says."""
    usage: Usage = Field(default_factory=Usage)
    token_ids: tuple[int, ...] | None = None
    """Completion token ids when the server gives them."""
    logprobs: tuple[float, ...] | None = None
    """One per completion token when the server gives them."""
    duration: float = 0.0
    """Seconds of the live call.  Charged against time budgets on every replay."""


class LlmRequest(Record):
    """The exact input of one completion: messages and tools in OpenAI chat form."""

    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str | dict[str, Any] | None = None
    sampling: Sampling = Field(default_factory=Sampling)


class Endpoint(Record):
    """What a model endpoint is, as far as its replies are concerned.  Never its URL, host or port."""

    engine: str
    """embedded, external, scripted, sglang, vllm, llamacpp."""
    model: str
    """Model name to put in requests."""
    context_length: int
    """Tokens, prompt and completion together."""
    deterministic: bool = False
    """Whether the same request is claimed to give the same reply (certified or by construction)."""
    max_running: int = 1
    """Requests it should be sent at once."""
    capacity: int | None = None
    """Requests it works on at once, where that is more than it should be sent: fewer are certified.  None: as many."""
    identity: dict[str, Any] = Field(default_factory=dict)
    """Everything that can change a reply: engine version, weights digest, template digest, kernel profile …"""

    @property
    def fingerprint(self) -> str:
        """64 hex: keys the LLM cache and enters the regime."""
        return digest({"engine": self.engine, "model": self.model, "context": self.context_length, **self.identity})
