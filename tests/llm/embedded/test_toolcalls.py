"""Only well-formed blocks are calls, and they are read exactly as written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.llm.embedded.toolcalls import calls_in, without_calls


def block(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


def test_calls_are_read_in_order_as_written():
    text = (
        "First.\n"
        + block('{"name": "run", "arguments": {"command":  "ls"}}')
        + block('{ "arguments" : {"x": {"y": "</b>"}} , "name": "submit" }')
    )
    calls = calls_in(text)
    assert [(call.name, call.arguments) for call in calls] == [
        ("run", '{"command":  "ls"}'),
        ("submit", '{"x": {"y": "</b>"}}'),
    ]
    assert len({call.id for call in calls}) == 2
    assert without_calls(text) == "First."


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "run", "arguments": {}}',
        '<tool_call>\n{"name": "run", "arguments": {}}',
        block('{"name": "run"}'),
        block('{"name": "run", "arguments": "ls"}'),
        block('{"name": "run", "arguments": []}'),
        block('{"name": 7, "arguments": {}}'),
        block('{"name": "", "arguments": {}}'),
        block('{"name": "run", "arguments": {}, "more": 1}'),
        block('{"name": "run", "arguments": {"command": "ls"}'),
        block('{"name": "run", "arguments": {"x": NaN}}'),
        block("{'name': 'run', 'arguments': {}}"),
        block('[{"name": "run", "arguments": {}}]'),
        block('```json\n{"name": "run", "arguments": {}}\n```'),
        block('{"a":' * 20_000 + "}" * 20_000),
    ],
)
def test_what_is_not_right_is_no_call(text):
    assert calls_in(text) == ()
    assert without_calls(text) == text.strip()


def test_ids_depend_on_text_and_salt_alone():
    text = block('{"name": "run", "arguments": {}}')
    assert calls_in(text, "a") == calls_in(text, "a")
    assert calls_in(text, "a")[0].id != calls_in(text, "b")[0].id


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
values = scalars | st.lists(scalars, max_size=3) | st.dictionaries(st.text(max_size=5), scalars, max_size=3)


@given(st.dictionaries(st.text(max_size=5), values, max_size=4), st.sampled_from([None, 2]), st.booleans())
def test_every_json_object_of_arguments_comes_back(arguments, indent, swapped):
    members = [("name", "run"), ("arguments", arguments)]
    body = json.dumps(dict(reversed(members) if swapped else members), indent=indent)
    calls = calls_in(f"x {block(body)} y")
    if "</tool_call>" in body or "<tool_call>" in body:
        return
    assert [json.loads(call.arguments) for call in calls] == [arguments]
    assert calls[0].arguments in body
