"""A rollout and its trace → an ATIF trajectory.

A model call is an agent step with its reply, tool calls and tokens.  What the harness does in the environment, and its
submission, are agent steps without a model call (`llm_call_count` 0).  Messages that the harness adds are system or
user steps, each once, where they first appear; results it reports for the model's tool calls stand with those calls.
"""

from __future__ import annotations

import json
from typing import Any

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import Rollout, StepKind, Trace
from harnesstrain.core.records.rollout import Step as Exchange
from harnesstrain.stages.export.atif import VERSION, Trajectory
from harnesstrain.stages.export.messages import calls_of, clean, content_of

Draft = dict[str, Any]


class About(Record):
    """What is known of a rollout beside its trace."""

    harness: str
    """The harness's name."""
    commit: str
    """Its version."""
    model: str | None = None


def trajectory_of(rollout: Rollout, trace: Trace, about: About) -> Trajectory:
    """The trajectory of a rollout.  Total: whatever a harness said is written in a form that the format allows."""
    steps = _Writer(trace, about).steps()
    if not steps:
        steps = [{"source": "system", "message": "nothing was exchanged"}]
    for number, step in enumerate(steps, start=1):
        step["step_id"] = number
    usage = rollout.usage
    agent: Draft = {"name": about.harness, "version": about.commit, "model_name": about.model}
    tools = next((step.tools for step in trace.steps if step.tools), None)
    if tools is not None and all(isinstance(tool, dict) for tool in trace.messages.get(tools, [])):
        agent["tool_definitions"] = clean(trace.messages.get(tools, [])) or None
    draft: Draft = {
        "schema_version": VERSION,
        "session_id": rollout.run,
        "trajectory_id": rollout.id,
        "agent": agent,
        "steps": steps,
        "notes": rollout.detail or None,
        "final_metrics": {
            "total_prompt_tokens": usage.prompt,
            "total_completion_tokens": usage.completion,
            "total_cached_tokens": usage.cached,
            "total_steps": len(steps),
        },
        "extra": {
            "task": rollout.task,
            "task_digest": rollout.task_digest,
            "seed": rollout.seed,
            "attempt": rollout.attempt,
            "outcome": rollout.outcome.value,
            "reason": rollout.reason,
            "reward": rollout.reward,
            "rewards": rollout.rewards,
            "recorded_time": rollout.recorded_time,
        },
    }
    return Trajectory.model_validate_json(json.dumps(clean(draft)))


class _Writer:
    """Turns exchanges into steps, in order."""

    def __init__(self, trace: Trace, about: About) -> None:
        self._trace = trace
        self._about = about
        self._steps: list[Draft] = []
        self._said: list[tuple[str, ...]] = []
        """The conversations so far: the messages of the newest request of each."""
        self._calls: dict[str, Draft] = {}
        """Steps by the ids of the tool calls that wait for a result."""

    def steps(self) -> list[Draft]:
        """Every step, without its number."""
        for exchange in self._trace.steps:
            if exchange.kind is StepKind.LLM:
                self._hear(exchange)
                self._reply(exchange)
            elif exchange.kind is StepKind.NOTE:
                self._note(exchange)
            elif exchange.kind in (StepKind.STAGE, StepKind.VERIFY):
                self._drive(exchange)
            else:
                self._act(exchange)
        return self._steps

    def _hear(self, exchange: Exchange) -> None:
        """Steps for the messages of a request that were not in the conversation it goes on from."""
        best, shared = None, 0
        for number, before in enumerate(self._said):
            common = _common(before, exchange.messages)
            if common > shared:
                best, shared = number, common
        goes_on = best is not None and shared == len(self._said[best])
        if goes_on and best is not None:
            self._said[best] = exchange.messages
        else:
            self._said.append(exchange.messages)
        for place, key in enumerate(exchange.messages[shared:]):
            message = self._trace.messages.get(key)
            if isinstance(message, dict) and not (goes_on and place == 0 and message.get("role") == "assistant"):
                self._message(message)

    def _message(self, message: Draft) -> None:
        role = message.get("role")
        content = content_of(message.get("content"))
        if role == "tool" and self._answered(str(message.get("tool_call_id")), content):
            return
        if role == "assistant":
            calls = message.get("tool_calls")
            self._steps.append(
                {
                    "source": "agent",
                    "message": content,
                    "llm_call_count": 0,
                    "is_copied_context": True,
                    "tool_calls": calls_of(calls, self._prefix()) if isinstance(calls, list) and calls else None,
                }
            )
            return
        source = "system" if role in ("system", "developer") else "user"
        extra = None if role in ("system", "user") else {"role": str(role)}
        self._steps.append({"source": source, "message": content, "extra": extra})

    def _answered(self, call: str, content: Any) -> bool:
        """Put a tool message with the step that holds its call; False when there is none."""
        step = self._calls.pop(call, None)
        if step is None:
            return False
        observation = step.setdefault("observation", {"results": []})
        observation["results"].append({"source_call_id": call, "content": content})
        return True

    def _reply(self, exchange: Exchange) -> None:
        usage = exchange.usage
        calls = json.loads(exchange.tool_calls) if exchange.tool_calls else []
        step: Draft = {
            "source": "agent",
            "message": content_of(exchange.content),
            "model_name": self._about.model,
            "reasoning_content": exchange.reasoning,
            "tool_calls": calls_of(calls, self._prefix()) or None,
            "metrics": {
                "prompt_tokens": usage.prompt,
                "completion_tokens": usage.completion,
                "cached_tokens": usage.cached,
                "extra": {"reasoning_tokens": usage.reasoning} if usage.reasoning else None,
            }
            if usage
            else None,
            "llm_call_count": 1,
            "extra": _facts(exchange, finish_reason=exchange.finish_reason),
        }
        for call in step["tool_calls"] or ():
            self._calls[call["tool_call_id"]] = step
        self._steps.append(step)

    def _act(self, exchange: Exchange) -> None:
        """A step for something the harness did by itself."""
        name = self._prefix()
        arguments = json.loads(exchange.action) if exchange.action else {}
        kind = arguments.pop("kind", exchange.kind.value)
        if exchange.kind is StepKind.SUBMIT and exchange.note is not None:
            arguments = {"message": exchange.note}
        step: Draft = {
            "source": "agent",
            "message": "",
            "llm_call_count": 0,
            "tool_calls": [{"tool_call_id": name, "function_name": kind, "arguments": arguments}],
        }
        if exchange.kind is not StepKind.SUBMIT:
            printed = (exchange.stdout or b"") + (exchange.stderr or b"")
            facts = _facts(
                exchange,
                exit_code=exchange.exit_code,
                timed_out=exchange.timed_out or None,
                truncated=exchange.truncated or None,
                stderr_bytes=len(exchange.stderr) if exchange.stderr else None,
            )
            result = {"source_call_id": name, "content": printed.decode("utf-8", "replace"), "extra": facts}
            step["observation"] = {"results": [result]}
        self._steps.append(step)

    def _drive(self, exchange: Exchange) -> None:
        """A step for what was done between the steps of the task: not by the harness."""
        name = json.loads(exchange.action or "{}").get("step", "")
        said = (exchange.stdout or exchange.stderr or b"").decode("utf-8", "replace")
        message = f"{exchange.kind.value} step '{name}'" + (f": {said}" if said else "")
        self._steps.append({"source": "system", "message": message})

    def _note(self, exchange: Exchange) -> None:
        """A note stands with the step before it."""
        try:
            note = json.loads(exchange.note or "null")
        except ValueError:
            note = exchange.note
        if not self._steps:
            self._steps.append({"source": "system", "message": ""})
        step = self._steps[-1]
        step["extra"] = step.get("extra") or {}
        step["extra"].setdefault("notes", []).append(note)

    def _prefix(self) -> str:
        return f"step-{len(self._steps) + 1}"


def _common(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    """How many messages two conversations share from their start."""
    if left == right[: len(left)]:
        return len(left)
    return next((at for at, (one, two) in enumerate(zip(left, right, strict=False)) if one != two), len(right))


def _facts(exchange: Exchange, **more: Any) -> Draft:
    """What the record says of a step and the format has no key for."""
    facts = {"source": exchange.source.value, "duration_sec": exchange.duration, "error": exchange.error, **more}
    return {key: value for key, value in facts.items() if value is not None}
