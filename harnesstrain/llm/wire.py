"""Records to and from OpenAI chat JSON.  Used by the client (outgoing) and by the front (incoming)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harnesstrain.core.errors import TransportFailure
from harnesstrain.core.records.llm import Endpoint, LlmRequest, Reply, ToolCall, Usage

OWN_FIELD = "harnesstrain"
"""Field under which our front publishes what the OpenAI format has no place for."""
MOST = 2**48
"""Tokens that are believed of one call."""


def request_body(request: LlmRequest, model: str) -> dict[str, Any]:
    """The JSON body of `POST /chat/completions`.  Settings that are not set are left out."""
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": model,
        "messages": list(request.messages),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
        "max_tokens": sampling.max_tokens,
        "stream": False,
    }
    if sampling.top_k is not None:
        body["top_k"] = sampling.top_k
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if sampling.reasoning_effort is not None:
        body["reasoning_effort"] = sampling.reasoning_effort
    if request.tools:
        body["tools"] = list(request.tools)
    if request.tool_choice is not None:
        body["tool_choice"] = request.tool_choice
    return body


def reply_from(body: Any, duration: float) -> Reply:
    """The reply in the body of a chat completion; `duration` in seconds unless our front says its own.

    Raises TransportFailure when the body is not a chat completion.
    """
    try:
        choice = body["choices"][0]
        message = choice["message"]
        calls = tuple(_tool_call(index, call) for index, call in enumerate(message.get("tool_calls") or ()))
        ids, logprobs = _tokens(choice)
        own = body.get(OWN_FIELD)
        return Reply(
            content=_text(message.get("content")),
            reasoning=_text(message.get("reasoning_content") or message.get("reasoning")),
            tool_calls=calls,
            finish_reason=str(choice.get("finish_reason") or ("tool_calls" if calls else "stop")),
            usage=usage_from(body.get("usage")),
            token_ids=ids,
            logprobs=logprobs,
            duration=float(own["duration"]) if isinstance(own, Mapping) and "duration" in own else duration,
        )
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise TransportFailure(
            f"the endpoint answered with something that is not a chat completion ({type(error).__name__})",
            hint="check that the URL names an OpenAI-compatible /v1 endpoint",
        ) from None


def usage_from(body: Any) -> Usage:
    """Token counts of a reply; whatever the server leaves out is 0."""
    if not isinstance(body, Mapping):
        return Usage()
    prompt = body.get("prompt_tokens_details")
    completion = body.get("completion_tokens_details")
    cached = prompt.get("cached_tokens") if isinstance(prompt, Mapping) else body.get("prompt_cache_hit_tokens")
    reasoning = completion.get("reasoning_tokens") if isinstance(completion, Mapping) else body.get("reasoning_tokens")
    return Usage(
        prompt=_count(body.get("prompt_tokens")),
        cached=_count(cached),
        completion=_count(body.get("completion_tokens")),
        reasoning=_count(reasoning),
    )


def completion_body(reply: Reply, endpoint: Endpoint, ident: str) -> dict[str, Any]:
    """The body of a chat completion, from a reply."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content or (None if reply.tool_calls else "")}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [_call_body(call) for call in reply.tool_calls]
    choice: dict[str, Any] = {
        "index": 0,
        "message": message,
        "finish_reason": reply.finish_reason,
        "logprobs": _logprobs_body(reply),
    }
    if reply.token_ids is not None:
        choice["token_ids"] = list(reply.token_ids)
    return {
        "id": ident,
        "object": "chat.completion",
        "created": 0,
        "model": endpoint.model,
        "system_fingerprint": endpoint.fingerprint,
        "choices": [choice],
        "usage": usage_body(reply.usage),
        OWN_FIELD: {"duration": reply.duration},
    }


def completion_chunks(reply: Reply, endpoint: Endpoint, ident: str, *, usage: bool) -> Iterator[dict[str, Any]]:
    """The same reply as the chunks of a stream.  `usage`: end with a chunk that carries the token counts."""
    head = {
        "id": ident,
        "object": "chat.completion.chunk",
        "created": 0,
        "model": endpoint.model,
        "system_fingerprint": endpoint.fingerprint,
    }

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]}

    yield chunk({"role": "assistant", "content": ""})
    if reply.reasoning:
        yield chunk({"reasoning_content": reply.reasoning})
    if reply.content:
        yield chunk({"content": reply.content})
    for index, call in enumerate(reply.tool_calls):
        yield chunk({"tool_calls": [{"index": index, **_call_body(call)}]})
    yield chunk({}, reply.finish_reason)
    if usage:
        yield {**head, "choices": [], "usage": usage_body(reply.usage)}


def usage_body(usage: Usage) -> dict[str, Any]:
    """Token counts in the OpenAI form."""
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def estimate_tokens(messages: Sequence[Mapping[str, Any]]) -> int:
    """A rough count for endpoints that offer none: a token per four characters, and four per message."""
    total = 0
    for message in messages:
        content = message.get("content")
        length = len(content) if isinstance(content, str) else len(json.dumps(content)) if content else 0
        calls = message.get("tool_calls")
        if calls:
            length += len(json.dumps(calls))
        total += 4 + (length + 3) // 4
    return total


def _text(value: Any) -> str:
    """Text of a content field: a string, null, or a list of parts."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return "".join(part.get("text") or "" for part in value)


def _tool_call(index: int, call: Mapping[str, Any]) -> ToolCall:
    function = call["function"]
    arguments = function.get("arguments")
    if arguments is None:
        arguments = ""
    elif not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(id=str(call.get("id") or f"call_{index}"), name=str(function["name"]), arguments=arguments)


def _call_body(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _tokens(choice: Mapping[str, Any]) -> tuple[tuple[int, ...] | None, tuple[float, ...] | None]:
    """Token ids and logprobs of a choice, as far as the server gives all of them."""
    ids = choice.get("token_ids") or choice.get("response_token_ids")
    block = choice.get("logprobs")
    entries = block.get("content") if isinstance(block, Mapping) else None
    logprobs = None
    if isinstance(entries, list) and entries:
        values = [entry.get("logprob") for entry in entries]
        if all(isinstance(value, int | float) for value in values):
            logprobs = tuple(float(value) for value in values)
        if not ids:
            ids = [entry.get("id") for entry in entries]
    if isinstance(ids, list) and ids and all(isinstance(value, int) for value in ids):
        return tuple(ids), logprobs
    return None, logprobs


def _logprobs_body(reply: Reply) -> dict[str, Any] | None:
    if reply.logprobs is None:
        return None
    ids = reply.token_ids if reply.token_ids is not None else (None,) * len(reply.logprobs)
    pairs = zip(ids, reply.logprobs, strict=False)
    return {
        "content": [
            {
                "token": "" if ident is None else f"token_id:{ident}",
                "id": ident,
                "logprob": value if math.isfinite(value) else None,
                "bytes": None,
                "top_logprobs": [],
            }
            for ident, value in pairs
        ]
    }


def _count(value: Any) -> int:
    """A count that can be stored and added to others; 0 for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        return 0
    return int(min(value, MOST))
