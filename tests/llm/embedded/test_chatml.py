"""Conversations become the prompt Qwen2.5 was trained on; equal requests become equal prompts."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import BadRequest
from harnesstrain.core.records.llm import LlmRequest
from harnesstrain.llm.embedded.chatml import DEFAULT_SYSTEM, render, template_digest

RUN = {"type": "function", "function": {"name": "run", "description": "Run it.", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"command":"ls"}'}}
CALL_BLOCK = '<tool_call>\n{"name": "run", "arguments": {"command": "ls"}}\n</tool_call>'


def prompt(*messages: dict[str, Any], **rest: Any) -> str:
    return render(LlmRequest(messages=messages, **rest)).text


def user(content: Any = "Hi") -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_a_plain_conversation():
    said = prompt({"role": "system", "content": "Be brief."}, user(), {"role": "assistant", "content": "Yo"}, user("?"))
    assert said == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nYo<|im_end|>\n<|im_start|>user\n?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_conversation_with_tools():
    said = prompt(
        {"role": "system", "content": "Be brief."},
        user(),
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
        {"role": "tool", "tool_call_id": "c2", "content": "b.txt"},
        tools=(RUN,),
    )
    assert said == (
        "<|im_start|>system\nBe brief.\n\n# Tools\n\nYou may call one or more functions to assist with the user query."
        "\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
        '{"type": "function", "function": {"name": "run", "description": "Run it.", "parameters": {"type": "object"}}}'
        "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
        '<tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n'
        "</tool_call><|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        f"<|im_start|>assistant\n{CALL_BLOCK}<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\na.txt\n</tool_response>\n<tool_response>\nb.txt\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_the_default_system_message_is_said_when_there_is_none():
    assert prompt(user()).startswith(f"<|im_start|>system\n{DEFAULT_SYSTEM}<|im_end|>")
    assert render(LlmRequest(messages=(user(),)), system="Else.").turns[0] == "system\nElse."


def test_no_tools_are_offered_with_tool_choice_none():
    assert prompt(user(), tools=(RUN,), tool_choice="none") == prompt(user())


def test_a_required_call_is_begun():
    assert prompt(user(), tools=(RUN,), tool_choice="required").endswith('assistant\n<tool_call>\n{"name": "')
    named = prompt(user(), tools=(RUN,), tool_choice={"type": "function", "function": {"name": "run"}})
    assert named.endswith('assistant\n<tool_call>\n{"name": "run", "arguments": ')


@pytest.mark.parametrize("content", [None, "", [], [{"type": "text", "text": ""}]])
def test_empty_content_in_every_form(content):
    assert prompt(user(content)) == prompt(user(""))


def test_text_parts_are_joined():
    parts = [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]
    assert prompt(user(parts)) == prompt(user("Hi"))


def test_a_raw_reply_is_kept_as_the_model_wrote_it():
    raw = 'I look.\n<tool_call>\n{"arguments":{"command": "ls"}, "name":"run"}\n</tool_call>'
    assert f"assistant\n{raw}<|im_end|>" in prompt(user(), {"role": "assistant", "content": raw, "tool_calls": [CALL]})


def test_changed_calls_replace_those_in_the_text():
    raw = 'I look.\n<tool_call>\n{"name": "run", "arguments": {"command": "rm"}}\n</tool_call>'
    said = prompt(user(), {"role": "assistant", "content": raw, "tool_calls": [CALL]})
    assert f"assistant\nI look.\n{CALL_BLOCK}<|im_end|>" in said


def test_arguments_that_are_not_json_stay_text():
    broken = {"function": {"name": "run", "arguments": "{oops"}}
    assert '"arguments": "{oops"}' in prompt(user(), {"role": "assistant", "tool_calls": [broken]})


@pytest.mark.parametrize(
    ("messages", "rest", "said"),
    [
        ((), {}, "no messages"),
        (({"role": "king", "content": "x"},), {}, "role 'king'"),
        (({"content": "x"},), {}, "role None"),
        ((user(7),), {}, "must be text"),
        ((user([{"type": "image_url", "image_url": {}}]),), {}, "image_url"),
        ((user(),), {"tools": ({"type": "function"},)}, "function with a name"),
        ((user(),), {"tool_choice": "required"}, "none is offered"),
        ((user(),), {"tools": (RUN,), "tool_choice": {"function": {"name": "x"}}}, "not offered: 'x'"),
        (({"role": "assistant", "tool_calls": "x"},), {}, "must be a list"),
        (({"role": "assistant", "tool_calls": [{}]},), {}, "function with a name"),
    ],
)
def test_what_cannot_be_rendered_is_refused(messages, rest, said):
    with pytest.raises(BadRequest, match=said):
        prompt(*messages, **rest)


def test_the_digest_tells_templates_apart():
    assert template_digest() == template_digest() != template_digest("Else.")


text = st.text(max_size=30)
messages = st.lists(
    st.one_of(
        st.fixed_dictionaries({"role": st.sampled_from(["user", "system", "tool"]), "content": st.none() | text}),
        st.fixed_dictionaries(
            {
                "role": st.just("assistant"),
                "content": st.none() | text,
                "tool_calls": st.lists(
                    st.fixed_dictionaries(
                        {
                            "function": st.fixed_dictionaries(
                                {
                                    "name": st.just("run"),
                                    "arguments": text | st.dictionaries(text, text, max_size=2).map(json.dumps),
                                }
                            )
                        }
                    ),
                    max_size=2,
                ),
            }
        ),
    ),
    min_size=1,
    max_size=6,
)


def shuffled(value: Any) -> Any:
    """The same JSON value with keys in reverse order and text decomposed."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [shuffled(item) for item in value]
    return unicodedata.normalize("NFD", value) if isinstance(value, str) else value


@given(messages)
def test_requests_with_one_digest_have_one_prompt(conversation):
    one = LlmRequest(messages=tuple(conversation), tools=(RUN,))
    other = LlmRequest(messages=tuple(shuffled(conversation)), tools=(shuffled(RUN),))
    if digest(one) == digest(other):
        assert render(one) == render(other)


@given(messages, messages)
def test_a_longer_conversation_keeps_the_turns_of_the_shorter(conversation, more):
    longer = render(LlmRequest(messages=(*conversation, user(), *more))).turns
    shorter = render(LlmRequest(messages=(*conversation, user()))).turns
    assert longer[: len(shorter)] == shorter
