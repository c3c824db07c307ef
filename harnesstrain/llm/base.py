"""The protocols of the room: a Model answers requests, an Engine starts one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pydantic import ConfigDict, Field

from harnesstrain.core.ports import StopSignal
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import Endpoint, LlmRequest, Reply
from harnesstrain.core.records.rollout import Source


class Answer(Record):
    """A reply and where it came from."""

    reply: Reply
    source: Source
    """`live` or `cache`."""
    key: str = ""
    """Request key (64 hex) under which it is or would be cached; empty when the model keeps no cache."""


class Model(Protocol):
    """A frozen model.  Every method may be called from several threads at once."""

    def endpoint(self) -> Endpoint:
        """What it is, as far as its replies are concerned.  Stable for the life of the object.

        Raises LlmFailure when the endpoint cannot be asked.
        """

    def complete(self, request: LlmRequest) -> Reply:
        """One reply, complete, with its duration in seconds.  Blocks.

        Raises ContextOverflow, RateLimited, TransportFailure, BadRequest, Refused or another LlmFailure.
        """

    def count_tokens(self, messages: Sequence[Mapping[str, Any]]) -> int:
        """Prompt tokens of a conversation of OpenAI chat messages, template included."""

    def close(self) -> None:
        """Release what it holds: connections, processes, memory.  Calling it again does nothing."""


@runtime_checkable
class Abortable(Protocol):
    """A model whose running completion can be given up.  Optional; the front uses it when a client goes away."""

    def complete_until(self, request: LlmRequest, stop: StopSignal) -> Reply:
        """Like `complete`, but gives up soon after `stop` is set, with `finish_reason` "abort"."""


@runtime_checkable
class Watched(Protocol):
    """A model that can tell that it will never answer again.  Optional; the server asks now and then."""

    def trouble(self) -> str | None:
        """What is wrong, for good; None while all is well."""


@runtime_checkable
class Inspectable(Protocol):
    """A model that tells more of a reply when asked to.  Optional; the gate compares what it gets."""

    def inspect(self, request: LlmRequest, *, cold: bool = False, stop: StopSignal | None = None) -> Reply:
        """Like `complete`, with token ids and logprobs where they can be had.

        `cold`: evaluated without what is kept of the prompt, as far as the engine knows how to.  `stop`: as in
        `complete_until`.
        """


@runtime_checkable
class Tallied(Protocol):
    """A model that counts how many requests it works on at once.  Optional; it tells the gate what was tested."""

    def crowds(self) -> tuple[int, ...] | None:
        """Requests so far that began as the n-th at once, for n = 1, 2, …; None where that is not known."""


class EngineSpec(Record):
    """What is asked of an engine.  An engine refuses (UsageError) what it cannot honour; it never ignores it."""

    model_config = ConfigDict(hide_input_in_errors=True)

    engine: str = "auto"
    """`auto`, a name in the registry group `engines`, or `module:Class`."""
    model: str | None = None
    """A model name or a path; None: the engine's own default."""
    context_length: int | None = None
    """Tokens, prompt and completion together; None: the engine's default."""
    max_running: int | None = None
    """Requests at once; None: the engine's default."""
    deterministic: bool = False
    """Ask for the engine's deterministic settings."""
    script: Path | None = None
    """scripted: the rules file."""
    url: str | None = None
    """external: the base URL, ending in /v1."""
    api_key: str | None = Field(default=None, repr=False, exclude=True)
    """external: the key itself.  Never shown, dumped or stored."""
    options: dict[str, str] = Field(default_factory=dict)
    """Engine-specific settings, by name."""
    log: Path | None = None
    """Where an engine that starts a process of its own writes that process's output."""


@runtime_checkable
class Checked(Protocol):
    """An engine that can look before it starts.  Optional."""

    def check(self, spec: EngineSpec) -> None:
        """Raise what `start` would refuse, as far as it can be known without starting.  Leaves nothing behind."""


class Engine(Protocol):
    """Something that can start a model.  Registered as a class that is constructed without arguments."""

    def start(self, spec: EngineSpec) -> Model:
        """Start and wait until it answers.  `close()` of the model stops everything that was started.

        Raises UsageError (cannot honour the spec), Prerequisite (something is missing, or it did not come up).
        """
