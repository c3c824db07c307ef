"""Digests of messages and requests.

The digests here are *exact*: JSON in the order given, no Unicode normalisation.  A chat template renders what it is
given, so two requests that differ in one code point or in the order of a tool schema's keys are different inputs, and
a cache must not take one for the other.

A conversation grows at its end.  `Conversation` keeps the rolling digest of everything so far, so that a request
costs only its new messages; `request_digest` computes the same value from a whole request.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from harnesstrain.core.digests import encoder
from harnesstrain.core.errors import BadRequest
from harnesstrain.core.records.llm import LlmRequest

T = TypeVar("T")

_encode = encoder()

_tools: tuple[object, str] = (None, "")

START = hashlib.sha256(b"conversation").hexdigest()
"""Rolling digest of no messages."""


def exact(value: Any) -> str:
    """sha256 (64 hex) of the JSON text of `value`, in the order given.  Raises BadRequest when it has none."""
    try:
        text = _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequest(f"the request cannot be written as JSON ({error})") from None
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def message_digest(message: Mapping[str, Any]) -> str:
    """Digest of one chat message.  64 hex."""
    return exact(message if isinstance(message, dict) else dict(message))


def link(head: str, digest: str) -> str:
    """The rolling digest after one more message: H(head, digest)."""
    return hashlib.sha256(f"{head}\n{digest}".encode("ascii")).hexdigest()


class Conversation:
    """Messages with their digests.  Immutable: `extended` gives a longer one and leaves this one as it is.

    A longer one holds what it adds and what it continues; the whole list is made when it is asked for.  A replay never
    asks: touching every message at every step would cost more than the step.  Messages must not be changed after they
    were added.
    """

    __slots__ = ("_before", "_digests", "_messages", "added", "added_digests", "head")

    def __init__(self, messages: Iterable[dict[str, Any]] = ()) -> None:
        self._add(None, START, tuple(messages))

    def _add(self, before: Conversation | None, head: str, more: tuple[dict[str, Any], ...]) -> None:
        self._before = before
        self.added = more
        """The messages that it has more than the one it continues."""
        self.added_digests = tuple(message_digest(message) for message in more)
        """One digest for each."""
        for digest in self.added_digests:
            head = link(head, digest)
        self.head = head
        """Rolling digest over all messages."""
        self._messages = None if before is not None else more
        self._digests = None if before is not None else self.added_digests

    @property
    def messages(self) -> tuple[dict[str, Any], ...]:
        """OpenAI chat messages, in order."""
        if self._messages is None:
            self._messages = _joined(self, lambda one: one._messages, lambda one: one.added)
        return self._messages

    @property
    def digests(self) -> tuple[str, ...]:
        """One digest per message."""
        if self._digests is None:
            self._digests = _joined(self, lambda one: one._digests, lambda one: one.added_digests)
        return self._digests

    def extended(self, messages: Iterable[dict[str, Any]]) -> Conversation:
        """This conversation with `messages` after it.  Costs the new messages only."""
        longer = Conversation.__new__(Conversation)
        longer._add(self, self.head, tuple(messages))
        return longer

    def __len__(self) -> int:
        return len(self.digests)


def _joined(
    last: Conversation,
    whole: Callable[[Conversation], tuple[T, ...] | None],
    added: Callable[[Conversation], tuple[T, ...]],
) -> tuple[T, ...]:
    """What the nearest one that has the whole has, and what was added since."""
    parts: list[tuple[T, ...]] = []
    one: Conversation | None = last
    while one is not None:
        known = whole(one)
        parts.append(added(one) if known is None else known)
        one = one._before if known is None else None
    return tuple(itertools.chain.from_iterable(reversed(parts)))


def conversation_head(messages: Sequence[Mapping[str, Any]]) -> str:
    """Rolling digest over `messages`; equals `Conversation(messages).head`."""
    head = START
    for message in messages:
        head = link(head, message_digest(message))
    return head


def tools_digest(tools: Sequence[Mapping[str, Any]]) -> str:
    """Digest of the tool schemas, in order.  64 hex.  Of the same tuple it is asked twice in a row: kept once."""
    global _tools
    known, digest = _tools
    if tools is not known:
        digest = exact(list(tools))
        if type(tools) is tuple:
            _tools = (tools, digest)
    return digest


def request_digest(request: LlmRequest, *, head: str | None = None) -> str:
    """Digest of the exact request: messages, tools, tool choice, sampling with its seed.  64 hex.

    `head` is the rolling digest of the messages, where the caller already has it.
    """
    return exact(
        [
            conversation_head(request.messages) if head is None else head,
            tools_digest(request.tools) if request.tools else None,
            request.tool_choice,
            request.sampling.model_dump(mode="json"),
        ]
    )


def request_key(
    endpoint_fingerprint: str, request: LlmRequest, *, head: str | None = None, sample: int | None = None
) -> str:
    """Key of the LLM cache.  64 hex.

    `sample` numbers the trials of an endpoint that is not deterministic: K trials stay K trials.  It is None for
    deterministic endpoints.
    """
    parts = [endpoint_fingerprint, request_digest(request, head=head)]
    return exact(parts if sample is None else [*parts, sample])
