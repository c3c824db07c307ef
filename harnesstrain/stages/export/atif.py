"""ATIF-v1.8, the trajectory format of Harbor, as strict records: unknown keys, wrong types and broken rules are errors.

Versions 1.0 to 1.8 are read; what is written is 1.8.  Keys that are not given are left out, never null.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator

from harnesstrain.core.errors import ConfigError
from harnesstrain.core.records.base import Record

VERSION: Literal["ATIF-v1.8"] = "ATIF-v1.8"
"""What is written."""

MAX_BYTES = 512 * 1024 * 1024
"""Size of a trajectory file, at most."""

Version = Literal[
    "ATIF-v1.0",
    "ATIF-v1.1",
    "ATIF-v1.2",
    "ATIF-v1.3",
    "ATIF-v1.4",
    "ATIF-v1.5",
    "ATIF-v1.6",
    "ATIF-v1.7",
    "ATIF-v1.8",
]
Free = dict[str, Any]


def _time(text: str) -> str:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"'{text}' is no ISO 8601 time") from None
    return text


class Part(Record):
    """The base of every object of the format."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class ImageSource(Part):
    """Where an image lies."""

    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    path: str


class AudioSource(Part):
    """Where a sound lies."""

    media_type: Literal[
        "audio/wav", "audio/mpeg", "audio/mp4", "audio/aac", "audio/ogg", "audio/flac", "audio/webm", "audio/aiff"
    ]
    path: str
    duration_sec: float | None = Field(default=None, ge=0)


class ContentPart(Part):
    """One part of a message that is not text alone."""

    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: ImageSource | AudioSource | None = None

    @model_validator(mode="after")
    def _fits(self) -> ContentPart:
        held = {type(None): "text", ImageSource: "image", AudioSource: "audio"}[type(self.source)]
        if held != self.type or (self.text is None) is (self.type == "text"):
            raise ValueError(
                f"a part of type {self.type} has {'its text' if self.type == 'text' else 'its source'} only"
            )
        return self


Content = str | tuple[ContentPart, ...]


class ToolCall(Part):
    """What an agent step asked for."""

    tool_call_id: str
    function_name: str
    arguments: Free
    extra: Free | None = None


class SubagentRef(Part):
    """Where a subagent's own trajectory is."""

    trajectory_id: str | None = None
    trajectory_path: str | None = None
    session_id: str | None = None
    extra: Free | None = None


class Result(Part):
    """One answer of the environment."""

    source_call_id: str | None = None
    """A tool call of the same step."""
    content: Content | None = None
    subagent_trajectory_ref: tuple[SubagentRef, ...] | None = None
    extra: Free | None = None


class Observation(Part):
    """What a step led to."""

    results: tuple[Result, ...]


class Metrics(Part):
    """What the model calls of a step took."""

    prompt_tokens: int | None = None
    """Cached ones included."""
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    completion_token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    extra: Free | None = None


_AGENT_ONLY = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")


class Step(Part):
    """One turn."""

    step_id: int = Field(ge=1)
    """1, 2, 3 …"""
    timestamp: Annotated[str, AfterValidator(_time)] | None = None
    """ISO 8601."""
    source: Literal["system", "user", "agent"]
    message: Content
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    reasoning_content: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    is_copied_context: bool | None = None
    """Not to be learned from."""
    llm_call_count: int | None = Field(default=None, ge=0)
    """0: the step was made without a model."""
    extra: Free | None = None

    @model_validator(mode="after")
    def _holds_together(self) -> Step:
        if self.source != "agent":
            for name in _AGENT_ONLY:
                if getattr(self, name) is not None:
                    raise ValueError(f"a {self.source} step has no {name}: only agent steps do")
        if self.llm_call_count == 0:
            for name in ("metrics", "reasoning_content"):
                if getattr(self, name) is not None:
                    raise ValueError(f"a step without a model call (llm_call_count 0) has no {name}")
        known = {call.tool_call_id for call in self.tool_calls or ()}
        for result in self.observation.results if self.observation else ():
            if result.source_call_id is not None and result.source_call_id not in known:
                raise ValueError(f"source_call_id '{result.source_call_id}' is no tool call of its step")
        return self


class Agent(Part):
    """Who acted."""

    name: str
    version: str
    model_name: str | None = None
    tool_definitions: tuple[Free, ...] | None = None
    """In OpenAI's form."""
    extra: Free | None = None


class FinalMetrics(Part):
    """Totals."""

    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = Field(default=None, ge=0)
    extra: Free | None = None


class Trajectory(Part):
    """One attempt, whole."""

    schema_version: Version = VERSION
    session_id: str | None = None
    trajectory_id: str | None = None
    """Needed, and unique, in embedded ones."""
    agent: Agent
    steps: tuple[Step, ...] = Field(min_length=1)
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    subagent_trajectories: tuple[Trajectory, ...] | None = None
    extra: Free | None = None

    @model_validator(mode="after")
    def _holds_together(self) -> Trajectory:
        for number, step in enumerate(self.steps, start=1):
            if step.step_id != number:
                raise ValueError(f"step_id {step.step_id} where {number} is due: they count from 1 without gaps")
        seen: set[str] = set()
        for inner in self.subagent_trajectories or ():
            if inner.trajectory_id is None:
                raise ValueError("an embedded trajectory has no trajectory_id")
            if inner.trajectory_id in seen:
                raise ValueError(f"two embedded trajectories have the id '{inner.trajectory_id}'")
            seen.add(inner.trajectory_id)
        return self


def read_trajectory(data: bytes, origin: str) -> Trajectory:
    """A trajectory from its JSON.  Raises ConfigError with `origin`, the place in the file, and the rule it breaks."""
    try:
        return Trajectory.model_validate_json(data)
    except ValidationError as error:
        raise ConfigError(f"{origin}: {_first(error)}", hint="ATIF 1.0 to 1.8, without keys of its own") from None


def read_trajectory_file(path: Path) -> Trajectory:
    """A trajectory from its file.  Raises ConfigError."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path} has more than {MAX_BYTES} bytes", hint="split the trajectory")
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"no such file: {path}", hint="name a trajectory.json") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint="check the file") from None
    return read_trajectory(data, str(path))


def write_trajectory(trajectory: Trajectory) -> str:
    """Its JSON, one line, in ASCII.  `read_trajectory` reads it back to an equal record."""
    return json.dumps(plain(trajectory), ensure_ascii=True, allow_nan=False)


def plain(trajectory: Trajectory) -> dict[str, Any]:
    """Its JSON as plain values, without the keys that are not given."""
    return trajectory.model_dump(mode="json", exclude_none=True)


_CHOICES = ("str", "float", "ImageSource", "AudioSource")
"""What pydantic adds to a place to name one of several types."""


def _first(error: ValidationError) -> str:
    """What is wrong first, and where: `steps[2].tool_calls[0].arguments: …`."""
    errors = error.errors(include_url=False, include_input=False)
    around = errors[0]["loc"][:-1]
    found = max((one for one in errors if one["loc"][: len(around)] == around), key=lambda one: len(one["loc"]))
    if len(found["loc"]) <= len(errors[0]["loc"]):
        found = errors[0]
    place = ""
    for part in found["loc"]:
        if isinstance(part, int):
            place += f"[{part}]"
        elif part not in _CHOICES and not part.startswith("tuple["):
            place += f".{part}"
    what = "unknown key" if found["type"] == "extra_forbidden" else str(found["msg"]).removeprefix("Value error, ")
    return f"{place.lstrip('.') or 'the trajectory'}: {what[:1].lower()}{what[1:]}"
