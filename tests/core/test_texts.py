"""Text from outside is valid Unicode, and nothing else of it changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.records.candidate import Proposal
from harnesstrain.core.records.llm import Reply, ToolCall
from harnesstrain.core.texts import whole


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", ""),
        ("hi \ud83d there", "hi \ufffd there"),
        ("\udc00", "\ufffd"),
        ("\ud800\ud800", "\ufffd\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("a\ude00\ud83d", "a\ufffd\ufffd"),
    ],
)
def test_half_a_pair_is_replaced(given: str, kept: str) -> None:
    assert whole(given) == kept


@given(st.text())
def test_text_stays(text: str) -> None:
    assert whole(text) is text or whole(text) == text


@given(st.text(st.characters(codec=None, categories=["Cs", "L", "Zs"])))
def test_whatever_it_was_it_can_be_stored(text: str) -> None:
    assert whole(whole(text)) == whole(text)
    call = ToolCall(id=text, name=text, arguments=text)
    reply = Reply(content=text, reasoning=text, finish_reason=text, tool_calls=(call,))
    assert Reply.model_validate_json(reply.model_dump_json()) == reply


def test_what_an_estimator_says_can_be_stored() -> None:
    said = Proposal(hypothesis="a\ud800", predicted=("t\udfff",), transcript="\ud83d", source="x\udcff.patch")
    assert Proposal.model_validate_json(said.model_dump_json()) == said
    assert (said.hypothesis, said.predicted, said.source) == ("a\ufffd", ("t\ufffd",), "x\ufffd.patch")
