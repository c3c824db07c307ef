"""From what a command was told to a Model: an explicit URL, else the running server, else an engine in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import ConfigDict, Field

from harnesstrain.core.records.base import Record
from harnesstrain.llm.base import EngineSpec, Model
from harnesstrain.llm.choice import chosen
from harnesstrain.llm.state import alive, read_state


class Way(StrEnum):
    """How a model is reached."""

    URL = "url"
    SERVER = "server"
    IN_PROCESS = "in_process"


class ConnectSpec(Record):
    """What is known about the model that is wanted."""

    model_config = ConfigDict(hide_input_in_errors=True)

    url: str | None = None
    """An explicit base URL; wins over everything."""
    state: Path | None = None
    """Where a running server's state file would be; usually `.ht`."""
    engine: str = "auto"
    """Started in this process when there is neither URL nor server."""
    model: str | None = None
    """The model's name at the URL, or the engine's model: a name or a path."""
    api_key: str | None = Field(default=None, repr=False, exclude=True)
    """For the URL: the key itself.  Never shown, dumped or stored."""
    context_length: int | None = None
    """Tokens.  A running server of ours decides by itself; another one is not expected to take more than it says."""
    max_running: int | None = None
    """Requests at once; None: what the endpoint takes."""
    script: Path | None = None
    """For the scripted engine: its rules file."""
    deterministic: bool = False
    """Ask the engine for its deterministic settings."""
    options: dict[str, str] = Field(default_factory=dict)
    """Engine-specific settings, by name."""
    timeout: float = Field(default=600.0, gt=0)
    """Seconds for one attempt of a call."""
    deadline: float = Field(default=900.0, gt=0)
    """Seconds for a call with all its attempts."""

    def engine_spec(self) -> EngineSpec:
        """What is asked of the engine in this process."""
        return EngineSpec(
            engine=self.engine,
            model=self.model,
            context_length=self.context_length,
            max_running=self.max_running,
            deterministic=self.deterministic,
            script=self.script,
            api_key=self.api_key,
            options=self.options,
        )


@dataclass(frozen=True)
class Route:
    """Where a model will be found.  Nothing was started or asked yet."""

    way: Way
    detail: str
    """The URL, or the engine's name."""


def route(spec: ConnectSpec) -> Route:
    """Which way `connect` would go."""
    if spec.url is not None:
        return Route(Way.URL, spec.url)
    if spec.state is not None:
        server = read_state(spec.state)
        if server is not None and alive(server):
            return Route(Way.SERVER, server.url)
    return Route(Way.IN_PROCESS, chosen(spec.engine_spec()).engine)


def connect(spec: ConnectSpec, tell: Callable[[str], None] | None = None) -> Model:
    """The model.  The caller closes it; closing ends an engine in this process, and leaves a server running.

    `tell` gets a line when an HTTP endpoint is waited for.

    Raises UsageError, Prerequisite or NotFound when it cannot be had.  An HTTP endpoint is not asked anything yet:
    `endpoint()` does that.
    """
    found = route(spec)
    if found.way is Way.IN_PROCESS:
        from harnesstrain.llm.server import start_model

        return start_model(spec.engine_spec())
    from harnesstrain.llm.client import OpenAIModel
    from harnesstrain.llm.waiting import Waiting

    own = found.way is Way.SERVER
    return OpenAIModel(
        found.detail,
        model=None if own else spec.model,
        api_key=None if own else spec.api_key,
        context_length=None if own else spec.context_length,
        max_running=spec.max_running,
        timeout=spec.timeout,
        deadline=spec.deadline,
        waiting=Waiting(tell),
    )
