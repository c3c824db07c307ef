"""A growing conversation is sent as what it adds; whatever is sent stands for exactly what was asked."""

from __future__ import annotations

import copy
import threading
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harnesstrain.sdk import _Conversations
from tests.sdk.peer import Peer, completion


class Model:
    """Answers completions with a fresh handle, and keeps each request's messages as the driver would see them."""

    def __init__(self) -> None:
        self.known: dict[str, list[Any]] = {}
        self.sent: list[int] = []

    def __call__(self, method: str, params: dict[str, Any]) -> Any:
        messages = params["messages"]
        if isinstance(messages, dict):
            self.sent.append(len(messages["append"]))
            messages = self.known[messages["prefix"]] + messages["append"]
        else:
            self.sent.append(len(messages))
        handle = f"h{len(self.known) + 1}"
        self.known[handle] = messages
        return completion(str(len(messages)), handle)

    @property
    def last(self) -> list[Any]:
        return list(self.known.values())[-1]


def said(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text} for text in texts]


def test_only_what_is_new_is_sent() -> None:
    model = Model()
    with Peer(model) as peer:
        messages = said("a", "b")
        for text in "cdef":
            peer.episode.complete(messages)
            messages += said(text, text.upper())
        peer.episode.complete(messages)
    assert model.sent == [2, 2, 2, 2, 2]
    assert model.last == messages


def test_the_same_list_again_adds_nothing() -> None:
    model = Model()
    with Peer(model) as peer:
        peer.episode.complete(said("a", "b"))
        peer.episode.complete(said("a", "b"))
    assert model.sent == [2, 0]
    assert model.last == said("a", "b")


def test_a_message_changed_in_place_is_sent_again() -> None:
    model = Model()
    with Peer(model) as peer:
        messages = said("a", "long text", "c")
        peer.episode.complete(messages)
        messages[1]["content"] = "clipped"
        peer.episode.complete(messages)
    assert model.last == said("a", "clipped", "c")


def test_a_branch_continues_from_its_own_prefix() -> None:
    model = Model()
    with Peer(model) as peer:
        peer.episode.complete(said("a", "b"))
        peer.episode.complete(said("a", "b", "c", "d"))
        peer.episode.complete(said("a", "b", "x"))
    assert model.sent == [2, 2, 1]
    assert model.last == said("a", "b", "x")


def test_values_that_python_thinks_equal_are_kept_apart() -> None:
    model = Model()
    with Peer(model) as peer:
        for value in (True, 1, 1.0):
            peer.episode.complete([{"role": "user", "content": "a", "extra": value}])
    assert model.sent == [1, 1, 1]
    assert [type(messages[0]["extra"]) for messages in model.known.values()] == [bool, int, float]


def test_forgotten_conversations_are_sent_whole() -> None:
    model = Model()
    with Peer(model) as peer:
        peer.episode.complete(said("first"))
        for number in range(70):
            peer.episode.complete(said(f"other {number}"))
        peer.episode.complete(said("first", "second"))
    assert model.sent[-1] == 2
    assert model.last == said("first", "second")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=5), min_size=1, max_size=12))
def test_whatever_the_order_the_driver_sees_the_whole_list(talks: list[list[str]]) -> None:
    model = Model()
    with Peer(model) as peer:
        for talk in talks:
            peer.episode.complete(copy.deepcopy(said(*talk)))
            assert model.last == said(*talk)


def test_several_threads_each_get_their_own_answer() -> None:
    def answer(method: str, params: dict[str, Any]) -> Any:
        messages = params["messages"]
        return completion(messages[0]["content"], handle=messages[0]["content"])

    got: dict[str, str] = {}
    with Peer(answer) as peer:

        def ask(name: str) -> None:
            got[name] = peer.episode.complete(said(name)).content

        threads = [threading.Thread(target=ask, args=(f"t{number}",)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert got == {f"t{number}": f"t{number}" for number in range(16)}


words = st.lists(st.sampled_from("ab"), min_size=1, max_size=6)


@given(st.lists(words, min_size=1, max_size=30), st.integers(min_value=1, max_value=4))
def test_no_longer_prefix_is_ever_known(talks: list[list[str]], kept: int) -> None:
    known = _Conversations()
    known.KEPT = kept
    handles: dict[str, list[Any]] = {}
    for number, talk in enumerate(talks):
        messages = said(*talk)
        short, marks = known.shorten(messages)
        prefixes = [one for one in handles.values() if one == messages[: len(one)]]
        added = short["append"] if isinstance(short, dict) else short
        assert len(added) == len(messages) - max(map(len, prefixes), default=0)
        before = handles[short["prefix"]] if isinstance(short, dict) else []
        assert before + list(added) == messages
        known.keep(f"h{number}", marks)
        handles[f"h{number}"] = messages
        while len(handles) > kept:
            del handles[next(iter(handles))]
