"""ATIF trajectories → the trace of a rollout.

An agent step is a model call, unless it says that none was made; its tool calls become actions, with what the
environment answered.  System and user steps are messages of the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harnesstrain.core.digests import canonical, digest
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import Usage
from harnesstrain.core.records.rollout import Step, StepKind, Trace
from harnesstrain.stages.export.atif import Content, Result, ToolCall, Trajectory
from harnesstrain.stages.export.atif import Step as Turn
from harnesstrain.stages.export.messages import clean


class Told(Record):
    """A trace and what it adds up to."""

    trace: Trace
    llm_calls: int
    actions: int
    usage: Usage


def trace_of(rollout: str, trajectories: Iterable[Trajectory]) -> Told:
    """The trace of rollout `rollout`: its trajectories, one after the other."""
    reader = _Reader()
    inner = 0
    for trajectory in trajectories:
        inner += len(trajectory.subagent_trajectories or ())
        for turn in trajectory.steps:
            reader.take(turn)
    log = f"{inner} trajectories of subagents are left out\n" if inner else ""
    trace = Trace(rollout=rollout, steps=tuple(reader.steps), messages=reader.messages, log=log)
    return Told(trace=trace, llm_calls=reader.calls, actions=reader.actions, usage=reader.usage)


class _Reader:
    """Takes turns in order."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.messages: dict[str, dict[str, Any] | list[Any]] = {}
        self.calls = 0
        self.actions = 0
        self.usage = Usage()
        self._said: list[str] = []

    def take(self, turn: Turn) -> None:
        """One turn: what it says and does."""
        text = text_of(turn.message)
        if turn.source != "agent":
            self._say({"role": turn.source, "content": text})
            for result in turn.observation.results if turn.observation else ():
                self._say({"role": turn.source, "content": text_of(result.content)})
            return
        made = 1 if turn.llm_call_count is None else turn.llm_call_count
        if made and not turn.is_copied_context:
            self._call(turn, text, made)
        calls = turn.tool_calls or ()
        said: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            functions = [{"name": call.function_name, "arguments": _arguments(call)} for call in calls]
            said["tool_calls"] = [
                {"id": call.tool_call_id, "type": "function", "function": function}
                for call, function in zip(calls, functions, strict=True)
            ]
        self._say(said)
        self._act(turn, {call.tool_call_id: call for call in calls})

    def _call(self, turn: Turn, text: str, made: int) -> None:
        calls = [
            {"id": call.tool_call_id, "name": call.function_name, "arguments": _arguments(call)}
            for call in turn.tool_calls or ()
        ]
        usage = _usage(turn)
        self.calls += made
        self.usage += usage
        self.steps.append(
            Step(
                index=len(self.steps),
                kind=StepKind.LLM,
                messages=tuple(self._said),
                content=text,
                reasoning=turn.reasoning_content,
                tool_calls=canonical(calls).decode() if calls else None,
                usage=usage,
            )
        )

    def _act(self, turn: Turn, calls: dict[str, ToolCall]) -> None:
        """An action for each answer; and for each tool call that got none."""
        results = turn.observation.results if turn.observation else ()
        for result in results:
            self._did(calls.pop(result.source_call_id, None) if result.source_call_id else None, result, turn)
        for call in calls.values():
            self._did(call, None, turn)

    def _did(self, call: ToolCall | None, result: Result | None, turn: Turn) -> None:
        printed = text_of(result.content) if result is not None else ""
        if result is not None:
            role = (
                {"role": "tool", "tool_call_id": result.source_call_id} if result.source_call_id else {"role": "user"}
            )
            self._say({**role, "content": printed})
        if turn.is_copied_context:
            return
        name = call.function_name if call is not None else "observe"
        command = f"{name} {_arguments(call)}" if call is not None else name
        self.actions += 1
        self.steps.append(
            Step(
                index=len(self.steps),
                kind=StepKind.RUN,
                action=canonical({"kind": "run", "command": command}).decode(),
                stdout=printed.encode("utf-8", "replace"),
            )
        )

    def _say(self, message: dict[str, Any]) -> None:
        key = digest(message)
        self.messages.setdefault(key, message)
        self._said.append(key)


def text_of(content: Content | None) -> str:
    """A message as text; pictures and sounds by their path."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text if part.text is not None else f"[{part.type} {_path(part)}]" for part in content)


def _path(part: Any) -> str:
    return part.source.path if part.source is not None else ""


def _arguments(call: ToolCall) -> str:
    return canonical(clean(call.arguments)).decode()


def _usage(turn: Turn) -> Usage:
    metrics = turn.metrics
    if metrics is None:
        return Usage()
    return Usage(
        prompt=metrics.prompt_tokens or 0, cached=metrics.cached_tokens or 0, completion=metrics.completion_tokens or 0
    )
