"""What the conformance check confronts a harness with: scripted models and environments, each with one difficulty."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harnesstrain.core.records.llm import Reply, ToolCall, Usage
from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.harness.protocol import Complete
from harnesstrain.harness.wire import ErrorKind

Say = Callable[[int, Complete], Reply | ErrorKind]
"""The scripted model: (number of the call from 0, its params) to a reply or an error."""


@dataclass(frozen=True)
class Scenario:
    """One difficulty."""

    name: str
    say: Say
    result: RunResult = field(default_factory=lambda: RunResult(exit_code=0, stdout=b"hello\n"))
    """What every command does."""
    content: bytes | None = b"hello\n"
    """What every file holds; None: every file access fails."""
    calls: int = 12
    """Model calls before the budget is over."""
    hang_up: bool = False
    """Close the harness's stdin after `initialize`."""


def tool_call(params: Complete, name: str | None = None, arguments: str | None = None) -> Reply:
    """A reply that calls a tool: the named one, or the first that is offered, with arguments made from its schema.

    When none is offered, the call is written into the text, in a form that many harnesses read.
    """
    offered = params.tools[0].get("function", {}) if params.tools else {}
    chosen = name or str(offered.get("name", "run"))
    written = arguments if arguments is not None else json.dumps(_arguments(offered.get("parameters", {})))
    if not params.tools:
        call = {"tool": chosen, "name": chosen, "action": chosen, "command": "echo hello"}
        return text(json.dumps({**call, "arguments": {"command": "echo hello"}}) if arguments is None else written)
    return Reply(
        tool_calls=(ToolCall(id="call_1", name=chosen, arguments=written),),
        finish_reason="tool_calls",
        usage=Usage(prompt=10, completion=5),
    )


def text(content: str, finish_reason: str = "stop") -> Reply:
    """A reply without tool calls."""
    return Reply(content=content, finish_reason=finish_reason, usage=Usage(prompt=10, completion=5))


def _arguments(schema: Any) -> dict[str, Any]:
    """The least that a tool's JSON schema asks for."""
    properties = schema.get("properties", {}) if isinstance(schema, Mapping) else {}
    made = {"string": "echo hello", "integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}
    return {
        name: made.get(str(facts.get("type", "string")), "echo hello")
        for name, facts in properties.items()
        if isinstance(facts, Mapping) and name in schema.get("required", list(properties))
    }


def _work_then_submit(number: int, params: Complete) -> Reply:
    """One action, the same as a fenced command, then `submit` for ever."""
    names = [tool.get("function", {}).get("name") for tool in params.tools]
    if number == 1 and not params.tools:
        return text("I run it again.\n\n```bash\necho hello\n```")
    if number >= 2 and (not names or "submit" in names):
        return tool_call(params, "submit")
    return tool_call(params)


def _overflow_first(number: int, params: Complete) -> Reply | ErrorKind:
    return ErrorKind.CONTEXT_OVERFLOW if number == 0 else _work_then_submit(number - 1, params)


SCENARIOS = (
    Scenario("a model that calls tools", _work_then_submit),
    Scenario("a model that only talks", lambda *_: text("I think that we should look at the files first.")),
    Scenario("empty replies", lambda *_: text("")),
    Scenario("cut-off replies", lambda *_: text('{"command": "echo hel', "length")),
    Scenario("broken tool arguments", lambda _, params: tool_call(params, arguments='{"command": "echo')),
    Scenario("arguments of the wrong type", lambda _, params: tool_call(params, arguments="[1, 2]")),
    Scenario("an unknown tool", lambda _, params: tool_call(params, "no_such_tool", "{}")),
    Scenario("context_overflow once", _overflow_first),
    Scenario("context_overflow always", lambda *_: ErrorKind.CONTEXT_OVERFLOW),
    Scenario(
        "output that is not UTF-8",
        _work_then_submit,
        result=RunResult(exit_code=0, stdout=b"\xff\xfe\x00caf\xe9\n", stderr=b"\x80"),
        content=b"\xff\xfe\x00",
    ),
    Scenario(
        "truncated output of a command that timed out",
        _work_then_submit,
        result=RunResult(exit_code=124, stdout=b"x" * 200_000, timed_out=True, truncated=True),
    ),
    Scenario("failing commands", _work_then_submit, result=RunResult(exit_code=127, stderr=b"not found\n")),
    Scenario("files that cannot be read or written", _work_then_submit, content=None),
    Scenario("a budget that ends at once", _work_then_submit, calls=0),
    Scenario("a driver that hangs up", _work_then_submit, hang_up=True),
)
"""All of them, in order."""
