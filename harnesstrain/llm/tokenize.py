"""Token counts from an endpoint, in whichever way it offers."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from harnesstrain.core.errors import BadRequest, Refused, TransportFailure
from harnesstrain.llm.transport import Patience, Transport
from harnesstrain.llm.wire import estimate_tokens

_PATIENCE = Patience(attempt=30.0, deadline=60.0, absent=10.0)

_PER_MESSAGE = 4
"""Tokens a chat template is taken to add to a message, where only plain text can be counted."""


class Counter:
    """Counts prompt tokens.  Finds out once which way the server offers, then keeps to it.

    Ways, best first: `/tokenize` with messages (our front, vLLM); `/apply-template` and `/tokenize` with the text
    (llama-server); `/tokenize` with the plain text, plus four tokens per message (sglang); an estimate of one token per
    four characters and four per message.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._root = transport.url.removesuffix("/v1")
        self._lock = threading.Lock()
        self._way: int | None = None

    def count(self, model: str, messages: Sequence[Mapping[str, Any]]) -> int:
        """Prompt tokens of `messages`.  Raises LlmFailure when the way that worked before fails now."""
        ways = (self._by_messages, self._by_template, self._by_text)
        with self._lock:
            way = self._way
        if way is not None:
            return ways[way](model, messages) if way < len(ways) else estimate_tokens(messages)
        for index, attempt in enumerate(ways):
            try:
                found = attempt(model, messages)
            except (BadRequest, Refused):
                continue
            except TransportFailure as error:
                if error.extra.get("garbled"):
                    continue
                raise
            with self._lock:
                self._way = index
            return found
        with self._lock:
            self._way = len(ways)
        return estimate_tokens(messages)

    def _by_messages(self, model: str, messages: Sequence[Mapping[str, Any]]) -> int:
        body = {"model": model, "messages": list(messages), "add_generation_prompt": True}
        return _number(self._transport.post(f"{self._root}/tokenize", body, patience=_PATIENCE).body)

    def _by_template(self, model: str, messages: Sequence[Mapping[str, Any]]) -> int:
        rendered = self._transport.post(
            f"{self._root}/apply-template", {"messages": list(messages)}, patience=_PATIENCE
        ).body
        if not isinstance(rendered, dict) or not isinstance(rendered.get("prompt"), str):
            raise BadRequest("the endpoint renders no template")
        body = {"content": rendered["prompt"], "add_special": False, "parse_special": True}
        return _number(self._transport.post(f"{self._root}/tokenize", body, patience=_PATIENCE).body)

    def _by_text(self, model: str, messages: Sequence[Mapping[str, Any]]) -> int:
        text = "\n".join(_plain(message) for message in messages)
        found = self._transport.post(f"{self._root}/tokenize", {"model": model, "prompt": text}, patience=_PATIENCE)
        return _number(found.body) + _PER_MESSAGE * len(messages)


def _number(body: Any) -> int:
    """The count in an answer of /tokenize.  Raises BadRequest when there is none: another way may do."""
    if isinstance(body, dict):
        count, tokens = body.get("count"), body.get("tokens")
        if isinstance(count, int) and count >= 0:
            return count
        if isinstance(tokens, list) and tokens:
            return len(tokens)
    raise BadRequest("the endpoint counts no tokens")


def _plain(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content if isinstance(part, Mapping))
    calls = message.get("tool_calls")
    return f"{message.get('role')}\n{content or ''}{calls if calls else ''}"
