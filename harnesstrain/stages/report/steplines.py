"""What a step says or does, as plain text: whole, or in one line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from harnesstrain.core.records.base import Record
from harnesstrain.core.records.rollout import Step, StepKind, Trace
from harnesstrain.stages.report.plain import one_line, plain

LINE = 140
"""Characters of a step in one line."""


class StepLine(Record):
    """A step in one line."""

    index: int
    """Its place in the trace, as `ht show` counts."""
    kind: str
    """reply (of the model), or what was done: run, read, write, submit, stage, verify."""
    text: str
    """The first words of the reply, or the command or path."""
    exit_code: int | None = None
    note: str = ""
    """What came of it when that is not an exit code: timed out, an error."""


def step_line(step: Step) -> StepLine:
    """A step in one line."""
    if step.kind is StepKind.LLM:
        return StepLine(index=step.index, kind="reply", text=one_line(reply_text(step), LINE))
    note = "timed out" if step.timed_out else one_line(step.error or "", LINE)
    text = "" if step.kind is StepKind.SUBMIT else one_line(command_text(step), LINE)
    return StepLine(index=step.index, kind=step.kind.value, text=text, exit_code=step.exit_code, note=note)


def reply_text(step: Step) -> str:
    """What the model answered: reasoning, text, tool calls; an answer that did not end by itself says so."""
    calls = [_call(one) for one in _loaded(step.tool_calls, [])]
    reasoning = f"(reasoning) {step.reasoning}" if step.reasoning else ""
    ended = f"(ended: {step.finish_reason})" if step.finish_reason not in (None, "stop", "tool_calls") else ""
    error = f"error: {step.error}" if step.error is not None else ""
    return plain("\n".join(part for part in (reasoning, step.content or "", *calls, ended, error) if part))


def action_text(step: Step) -> str:
    """What was done in the environment, and in which directory and time it had to be."""
    spec = _loaded(step.action, {})
    more: list[str] = []
    if isinstance(spec, Mapping):
        more = [f"in {spec['cwd']}"] if spec.get("cwd") else []
        more += [f"at most {spec['timeout']:g} s"] if isinstance(spec.get("timeout"), int | float) else []
    return command_text(step) + (plain(f"\n({', '.join(more)})") if more else "")


def command_text(step: Step) -> str:
    """What was done in the environment: the command and what it was given, or the file and what was written to it."""
    spec = _loaded(step.action, {})
    if not isinstance(spec, Mapping):
        return plain(step.action or "")
    match spec.get("kind"):
        case "run":
            lines = [str(spec.get("command")), *_given(spec, "stdin")]
        case "read" | "write":
            lines = [str(spec.get("path")), *_given(spec, "content")]
        case _:
            lines = [step.kind.value if step.action is None else step.action]
    return plain("\n".join(lines))


def output_text(step: Step) -> str:
    """What an action gave: exit code, both outputs, and an error."""
    lines = [f"exit {step.exit_code}"] if step.exit_code is not None else []
    lines += ["timed out"] if step.timed_out else []
    lines += [raw.decode("utf-8", "replace").rstrip("\n") for raw in (step.stdout, step.stderr) if raw]
    lines += [f"error: {step.error}"] if step.error is not None else []
    return plain("\n".join(lines))


def messages_text(trace: Trace, names: Sequence[str]) -> str | None:
    """Messages of a request, each under its role; None when there are none."""
    return "\n".join(message_text(trace.messages.get(name)) for name in names) if names else None


def message_text(message: Mapping[str, Any] | Sequence[Any] | None) -> str:
    """One message of a request: its role, its text, and whatever else it carries as JSON."""
    if not isinstance(message, Mapping):
        return plain(_dumped(message))
    more = {key: value for key, value in message.items() if key not in ("role", "content")}
    return plain("\n".join([f"[{message.get('role')}]", *_content(message.get("content")), *_extra(more)]))


def tools_text(trace: Trace, step: Step) -> str:
    """The tool schemas of a request, as JSON over several lines."""
    tools = trace.messages.get(step.tools) if step.tools else None
    return plain(json.dumps(tools, indent=1, sort_keys=True, ensure_ascii=False)) if tools else ""


def tail(text: str, lines: int, characters: int) -> str:
    """The end of a text, at most so much of it, saying how much is left out."""
    every = plain(text).rstrip("\n").split("\n")
    kept = "\n".join(every[-lines:])
    kept = kept if len(kept) <= characters else "…" + kept[-characters:]
    left = len(every) - lines
    return f"… ({left} more line{'s' if left > 1 else ''} before)\n{kept}" if left > 0 else kept


def _content(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return [] if content is None else [_dumped(content)]
    texts = (part.get("text") if isinstance(part, Mapping) else None for part in content)
    return [text if isinstance(text, str) else _dumped(part) for text, part in zip(texts, content, strict=True)]


def _extra(more: Mapping[str, Any]) -> list[str]:
    return [f"{key}: {_dumped(value)}" for key, value in sorted(more.items()) if value not in (None, [], {})]


def _given(spec: Mapping[str, Any], what: str) -> list[str]:
    """Bytes that an action carries."""
    try:
        data = bytes.fromhex(str(spec.get("bytes", "")))
    except ValueError:
        return []
    return [f"({what})", data.decode("utf-8", "replace")] if data else []


def _call(call: Any) -> str:
    if not isinstance(call, Mapping):
        return _dumped(call)
    arguments = call.get("arguments")
    return f"{call.get('name')}({arguments if isinstance(arguments, str) else _dumped(arguments)})"


def _dumped(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _loaded(text: str | None, otherwise: Any) -> Any:
    """JSON that a trace recorded; as text where it is none."""
    try:
        return json.loads(text) if text else otherwise
    except ValueError:
        return [text] if isinstance(otherwise, list) else text
