"""A whole list and its prefix form are the same request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.errors import PolicyFailure
from harnesstrain.rollout.conversation import Conversations

MESSAGE = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=20)})


@given(st.lists(MESSAGE, min_size=1, max_size=8), st.data())
def test_prefix_and_whole_are_the_same_conversation(messages: list[dict[str, str]], data: st.DataObject) -> None:
    conversations = Conversations()
    cut = data.draw(st.integers(min_value=1, max_value=len(messages)))
    first = conversations.say(None, messages[:cut])
    extended = conversations.say(first.handle, messages[cut:])
    whole = Conversations().say(None, messages)
    assert extended.conversation.head == whole.conversation.head
    assert extended.conversation.messages == whole.conversation.messages
    assert extended.conversation.digests == whole.conversation.digests
    assert set(extended.conversation.digests) <= set(conversations.kept)


def test_each_message_is_kept_once() -> None:
    conversations = Conversations()
    message = {"role": "user", "content": "again"}
    said = conversations.say(None, [message])
    conversations.say(said.handle, [message, message])
    assert list(conversations.kept.values()) == [message]


def test_an_unknown_handle_is_the_harness_s_fault() -> None:
    with pytest.raises(PolicyFailure, match="unknown conversation handle 'h7'"):
        Conversations().say("h7", [])


def test_counting_keeps_nothing() -> None:
    conversations = Conversations()
    conversations.continued(None, [{"role": "user", "content": "count me"}])
    assert conversations.kept == {}
