"""From a conversation to prompt text: ChatML with tools, the way Qwen2.5 was trained.

The template is the project's own: the one inside the official model file has a typo in its tool part.  Control tokens
are set between turns by the engine and are never read out of message text, so text cannot open a turn.
Two requests that are equal in canonical form (key order, Unicode composition) give the same prompt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from harnesstrain.core.digests import digest, normalise
from harnesstrain.core.errors import BadRequest
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import LlmRequest
from harnesstrain.llm.embedded.toolcalls import calls_in, without_calls

TURN_START, TURN_END = "<|im_start|>", "<|im_end|>"
"""The control tokens around a turn."""

DEFAULT_SYSTEM = "You are a helpful assistant."
"""Said when a conversation has no system message and the model has no sentence of its own."""

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}

_KEYS = (
    "type",
    "function",
    "name",
    "arguments",
    "description",
    "parameters",
    "properties",
    "required",
    "items",
    "enum",
)
_RANK = {key: rank for rank, key in enumerate(_KEYS)}

_TOOLS_HEAD = (
    "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
)
_TOOLS_TAIL = (
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
    '<tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n'
    "</tool_call>"
)


class Prompt(Record):
    """A rendered conversation: closed turns, then the open assistant turn that the model continues."""

    turns: tuple[str, ...]
    """`role\\ntext` of each closed turn, without control tokens."""
    forced: str = ""
    """How the reply must begin (a required tool call); part of the reply."""

    @property
    def text(self) -> str:
        """The whole prompt as one text, control tokens written out."""
        closed = "".join(f"{TURN_START}{turn}{TURN_END}\n" for turn in self.turns)
        return f"{closed}{TURN_START}assistant\n{self.forced}"


def render(request: LlmRequest, system: str = DEFAULT_SYSTEM) -> Prompt:
    """The prompt of a request.  `system` is said when the conversation does not begin with a system message.

    Raises BadRequest: no messages, an unknown role, content that is not text, a tool without a function.
    """
    try:
        plain = normalise({"messages": request.messages, "tools": request.tools, "choice": request.tool_choice})
    except TypeError as error:
        raise BadRequest(f"the request is not plain JSON: {error}") from error
    messages, tools, choice = list(plain["messages"]), plain["tools"], plain["choice"]
    if not messages:
        raise BadRequest("the request has no messages", hint="send at least one")
    offered = [] if choice == "none" else [_function(tool) for tool in tools]
    first = system
    if _role(messages[0]) == "system":
        first = _text(messages.pop(0))
    if offered:
        first += _TOOLS_HEAD + "".join("\n" + _json(tool) for tool in offered) + _TOOLS_TAIL
    turns = [f"system\n{first}"]
    results: list[str] = []
    for message in messages:
        role = _role(message)
        if role == "tool":
            results.append(f"<tool_response>\n{_text(message)}\n</tool_response>")
            continue
        if results:
            turns.append("\n".join(["user", *results]))
            results = []
        turns.append(f"assistant\n{_assistant(message)}" if role == "assistant" else f"{role}\n{_text(message)}")
    if results:
        turns.append("\n".join(["user", *results]))
    return Prompt(turns=tuple(turns), forced=_forced(choice, offered))


def template_digest(system: str = DEFAULT_SYSTEM) -> str:
    """Digest (64 hex) of what the template does: its rendering of conversations that use every part of it."""
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"b": 1, "a": [true, null]}'}}
    asked: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]}
    called = {"role": "assistant", "content": "z", "tool_calls": [call, call]}
    silent = {"role": "assistant", "content": None, "tool_calls": [call]}
    answers = [{"role": "tool", "content": "r"}, {"role": "tool", "content": None}]
    probes = [
        LlmRequest(messages=(asked,)),
        LlmRequest(messages=({"role": "system", "content": "s"}, asked, called, *answers, silent), tools=(tool,)),
        LlmRequest(messages=(asked, {"role": "developer", "content": "s"}), tools=(tool,), tool_choice="required"),
        LlmRequest(messages=(asked,), tools=(tool,), tool_choice={"type": "function", "function": {"name": "f"}}),
    ]
    return digest([TURN_START, TURN_END, [render(probe, system) for probe in probes]])


def _role(message: Any) -> str:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in ROLES:
        raise BadRequest(f"unknown message role {role!r}", hint=f"roles: {', '.join(ROLES)}")
    return ROLES[role]


def _text(message: Mapping[str, Any]) -> str:
    """Message content as text: None is empty, text parts are joined."""
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_part(part) for part in content)
    raise BadRequest(f"message content must be text, not {type(content).__name__}")


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    kind = part.get("type") if isinstance(part, dict) else type(part).__name__
    raise BadRequest(f"this model reads text only, not a content part of type {kind!r}")


def _assistant(message: Mapping[str, Any]) -> str:
    """An earlier reply.  Content that already holds exactly these calls is kept as the model wrote it."""
    content, calls = _text(message), message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise BadRequest("tool_calls must be a list")
    if not calls:
        return content
    wanted = [_call(call) for call in calls]
    written = [_json({"name": call.name, "arguments": _arguments(call.arguments)}) for call in calls_in(content)]
    if wanted == written:
        return content
    said = without_calls(content) if written else content
    return "\n".join([*([said] if said else []), *(f"<tool_call>\n{call}\n</tool_call>" for call in wanted)])


def _call(call: Any) -> str:
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise BadRequest("a tool call needs a function with a name")
    return _json({"name": function["name"], "arguments": _arguments(function.get("arguments"))})


def _arguments(arguments: Any) -> Any:
    """Arguments as a JSON value; text that is not JSON stays text, so that a model sees its own mistake."""
    if arguments is None:
        return {}
    if not isinstance(arguments, str):
        return arguments
    try:
        return normalise(json.loads(arguments))
    except (ValueError, TypeError, RecursionError):
        return arguments


def _function(tool: Any) -> dict[str, Any]:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise BadRequest("a tool needs a function with a name")
    return {"type": "function", "function": function}


def _forced(choice: Any, offered: Sequence[Mapping[str, Any]]) -> str:
    """The beginning that makes the reply a tool call when one is required."""
    if choice in (None, "none", "auto"):
        return ""
    if not offered:
        raise BadRequest("tool_choice asks for a tool but none is offered")
    if choice == "required":
        return '<tool_call>\n{"name": "'
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if name not in [tool["function"]["name"] for tool in offered]:
        raise BadRequest(f"tool_choice names a tool that is not offered: {name!r}")
    return f'<tool_call>\n{{"name": {_json(name)}, "arguments": '


def _json(value: Any) -> str:
    """JSON in one canonical order: the usual keys of tools and schemas first, the rest by name."""
    return json.dumps(_ordered(value), ensure_ascii=False)


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value, key=lambda key: (_RANK.get(key, len(_RANK)), key))}
    if isinstance(value, list):
        return [_ordered(item) for item in value]
    return value
