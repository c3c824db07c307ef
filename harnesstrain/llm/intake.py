"""What of an OpenAI chat request is understood, and what is refused.

Left out: temperature 0, top_p 1, seed 0, max_tokens 512 (the defaults of `Sampling`).  Fields that would change the
reply and are not supported are refused; fields that cannot change it are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harnesstrain.core.errors import BadRequest
from harnesstrain.core.records.llm import Endpoint, LlmRequest, Sampling

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})

_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (None, 1),
    "best_of": (None, 1),
    "logit_bias": (None, {}),
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
    "repetition_penalty": (None, 1),
    "min_p": (None, 0),
    "response_format": (None, {"type": "text"}),
    "functions": (None, []),
    "audio": (None,),
    "prediction": (None,),
    "echo": (None, False),
}
"""Fields that would change a reply, with the values under which they do not."""


@dataclass(frozen=True)
class Intake:
    """A request as the front will answer it."""

    request: LlmRequest
    stream: bool
    stream_usage: bool
    logprobs: bool
    """Whether they are asked for."""
    cold: bool
    """Whether nothing kept of the prompt may be used (`cache_prompt` false)."""


def parse(data: bytes, endpoint: Endpoint) -> Intake:
    """The request in a body.  Raises BadRequest; its `extra` holds `param`, and `status` where it is not 400."""
    body = decode(data)
    wanted = body.get("model")
    if wanted not in (None, "", endpoint.model):
        raise BadRequest(f"this server serves '{endpoint.model}', not {_quoted(wanted)}", param="model", status=404)
    for name, accepted in _NEUTRAL.items():
        if name in body and body[name] not in accepted:
            raise BadRequest(f"'{name}' is not supported", param=name)
    choice = body.get("tool_choice")
    if choice is not None and not isinstance(choice, str | dict):
        raise BadRequest("'tool_choice' must be a string or an object", param="tool_choice")
    options = body.get("stream_options")
    return Intake(
        request=LlmRequest(
            messages=messages_of(body),
            tools=_tools(body.get("tools")),
            tool_choice=choice,
            sampling=_sampling(body),
        ),
        stream=body.get("stream") is True,
        stream_usage=isinstance(options, dict) and options.get("include_usage") is True,
        logprobs=body.get("logprobs") is True,
        cold=body.get("cache_prompt") is False,
    )


def decode(data: bytes) -> dict[str, Any]:
    """The JSON object in a body.  Raises BadRequest."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON") from None
    if not isinstance(body, dict):
        raise BadRequest("the body is not a JSON object")
    return body


def messages_of(body: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """The messages of a request, checked.  Raises BadRequest."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("'messages' must be a list of at least one message", param="messages")
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, dict):
            raise BadRequest(f"'{where}' is not an object", param=where)
        if message.get("role") not in _ROLES:
            raise BadRequest(f"'{where}.role' must be one of {', '.join(sorted(_ROLES))}", param=f"{where}.role")
        _check_content(message.get("content"), f"{where}.content")
        calls = message.get("tool_calls")
        if calls is not None and (not isinstance(calls, list) or not all(_is_call(call) for call in calls)):
            raise BadRequest(f"'{where}.tool_calls' is not a list of function calls", param=f"{where}.tool_calls")
    return tuple(messages)


def _check_content(content: Any, where: str) -> None:
    if content is None or isinstance(content, str):
        return
    parts = content if isinstance(content, list) else None
    if parts is None or not all(isinstance(part, dict) for part in parts):
        raise BadRequest(f"'{where}' must be text, null or a list of parts", param=where)
    for part in parts:
        if part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise BadRequest(f"'{where}' holds a part that is not text", param=where)


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def _tools(tools: Any) -> tuple[dict[str, Any], ...]:
    if tools is None:
        return ()
    if not isinstance(tools, list) or not all(_is_call(tool) for tool in tools):
        raise BadRequest("'tools' must be a list of function tools", param="tools")
    return tuple(tools)


def _sampling(body: Mapping[str, Any]) -> Sampling:
    stop = body.get("stop")
    if isinstance(stop, str):
        stop = [stop]
    if stop is not None and (not isinstance(stop, list) or not all(isinstance(item, str) and item for item in stop)):
        raise BadRequest("'stop' must be text or a list of texts", param="stop")
    effort = body.get("reasoning_effort")
    if effort is not None and not isinstance(effort, str):
        raise BadRequest("'reasoning_effort' must be text", param="reasoning_effort")
    default = Sampling()
    limit_name = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    limit = _whole(body, limit_name, default.max_tokens, low=1)
    top_k = _whole(body, "top_k", -1, low=-1)
    return Sampling(
        temperature=_real(body, "temperature", default.temperature, high=100.0),
        top_p=_real(body, "top_p", default.top_p, high=1.0),
        top_k=top_k if top_k > 0 else None,
        seed=_whole(body, "seed", default.seed),
        max_tokens=limit,
        stop=tuple(stop or ()),
        reasoning_effort=effort,
    )


def _real(body: Mapping[str, Any], name: str, default: float, *, high: float) -> float:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= high:
        raise BadRequest(f"'{name}' must be a number from 0 to {high:g}", param=name)
    return float(value)


def _whole(body: Mapping[str, Any], name: str, default: int, *, low: int | None = None) -> int:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**63:
        raise BadRequest(f"'{name}' must be a whole number", param=name)
    if low is not None and value < low:
        raise BadRequest(f"'{name}' must be at least {low}", param=name)
    return value


def _quoted(value: Any) -> str:
    text = str(value)
    return f"'{text[:80]}'" if text.isprintable() else "that"
