"""Request digests are exact, and roll."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import harnesstrain.llm.requests as requests
from harnesstrain.core.errors import BadRequest
from harnesstrain.core.records.llm import LlmRequest, Sampling
from harnesstrain.llm.requests import Conversation, conversation_head, message_digest, request_digest, request_key

MESSAGE = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text()})
USER: dict[str, Any] = {"role": "user", "content": "x"}


@given(st.lists(MESSAGE, max_size=6), st.lists(MESSAGE, max_size=6))
def test_a_whole_list_and_its_prefix_form_are_the_same(first: list[dict[str, Any]], then: list[dict[str, Any]]) -> None:
    grown = Conversation(first).extended(then)
    whole = Conversation([*first, *then])
    assert (grown.head, grown.digests, grown.messages) == (whole.head, whole.digests, whole.messages)
    assert grown.head == conversation_head([*first, *then])


@given(st.lists(MESSAGE, max_size=4), st.lists(MESSAGE, max_size=4))
def test_different_conversations_have_different_heads(one: list[dict[str, Any]], two: list[dict[str, Any]]) -> None:
    same = json.dumps(one) == json.dumps(two)  # the order of a message's keys counts: a template may render it
    assert (conversation_head(one) == conversation_head(two)) == same


@given(
    st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=12), st.lists(st.booleans(), min_size=13, max_size=13)
)
def test_a_list_made_of_parts_is_whole(parts: list[list[int]], looked: list[bool]) -> None:
    """Whether or not somebody asked for the whole list on the way."""
    conversation, said = Conversation(), list[dict[str, Any]]()
    for part, look in zip(parts, looked, strict=False):
        more = [{"role": "user", "content": str(number)} for number in part]
        shorter, conversation = conversation, conversation.extended(more)
        assert conversation.added == tuple(more)
        assert not look or shorter.messages == tuple(said)
        said += more
    assert conversation.messages == tuple(said) and len(conversation) == len(said)
    assert conversation.digests == tuple(message_digest(one) for one in said)
    assert conversation.head == conversation_head(said)


def test_a_long_conversation_ends_without_a_word() -> None:
    conversation = Conversation([USER])
    for _ in range(50_000):
        conversation = conversation.extended([USER])
    assert len(conversation.messages) == len(conversation) == 50_001
    del conversation


def test_extending_digests_the_new_messages_only(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = Conversation([USER] * 50)
    digested: list[Any] = []

    def counting(message: Any) -> str:
        digested.append(message)
        return message_digest(message)

    monkeypatch.setattr(requests, "message_digest", counting)
    longer = conversation.extended([USER, USER])
    request_key("f" * 64, LlmRequest(messages=longer.messages), head=longer.head)
    assert len(digested) == 2
    assert len(conversation) == 50 and len(longer) == 52


def base() -> dict[str, Any]:
    return {
        "messages": ({"role": "user", "content": "é"},),
        "tools": ({"type": "function", "function": {"name": "f", "parameters": {"a": 1, "b": 2}}},),
        "tool_choice": "auto",
        "sampling": Sampling(seed=1),
    }


CHANGES: list[dict[str, Any]] = [
    {"messages": ({"role": "user", "content": "e\u0301"},)},  # the same letter, decomposed: other tokens
    {"messages": ({"role": "user", "content": "é "},)},
    {"messages": ({"role": "system", "content": "é"},)},
    {"messages": ({"role": "user", "content": "é"}, USER)},
    {"tools": ()},
    {"tools": ({"type": "function", "function": {"name": "f", "parameters": {"b": 2, "a": 1}}},)},  # renders otherwise
    {"tool_choice": None},
    {"tool_choice": {"type": "function", "function": {"name": "f"}}},
    *({"sampling": Sampling(**{"seed": 1, **change})} for change in (
        {"seed": 2}, {"temperature": 0.1}, {"top_p": 0.9}, {"top_k": 1}, {"max_tokens": 9}, {"stop": ("a",)},
        {"reasoning_effort": "low"},
    )),
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_every_part_of_a_request_counts(change: dict[str, Any]) -> None:
    assert request_digest(LlmRequest(**base())) == request_digest(LlmRequest(**base()))
    assert request_digest(LlmRequest(**base())) != request_digest(LlmRequest(**{**base(), **change}))


def test_stop_strings_are_not_joined() -> None:
    one, two = (LlmRequest(messages=(USER,), sampling=Sampling(stop=stop)) for stop in (("a", "b"), ("ab",)))
    assert request_digest(one) != request_digest(two)


def test_endpoint_and_sample_join_the_key() -> None:
    request = LlmRequest(**base())
    keys = {
        request_key("a" * 64, request),
        request_key("b" * 64, request),
        request_key("a" * 64, request, sample=0),
        request_key("a" * 64, request, sample=1),
    }
    assert len(keys) == 4
    head = conversation_head(request.messages)
    assert request_key("a" * 64, request, head=head) == request_key("a" * 64, request)


def test_keys_do_not_change_between_versions() -> None:
    """Cached replies are found by these digests: a change here loses every recording."""
    assert message_digest(USER) == hashlib.sha256(b'{"role":"user","content":"x"}').hexdigest()
    key = request_key("a" * 64, LlmRequest(**base()))
    assert key == "f138c745abf4ab9edff44618ba27dfd5b2b49c9c361824c09a94dc828b654b1f"


def test_surrogates_and_odd_numbers_have_digests() -> None:
    assert message_digest({"role": "user", "content": "\ud800"}) != message_digest({"role": "user", "content": "?"})
    assert message_digest({"content": float("nan")}) == message_digest({"content": float("nan")})


def test_what_json_cannot_hold_is_a_bad_request() -> None:
    with pytest.raises(BadRequest):
        message_digest({"content": {1, 2}})
