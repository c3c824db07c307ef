"""Lines, bytes and answers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain import sdk
from harnesstrain.core.errors import BadRequest, ContextOverflow, LlmFailure, PolicyFailure
from harnesstrain.harness import wire


@given(st.binary())
def test_bytes_survive_the_wire_and_the_sdk_agrees(data: bytes) -> None:
    packed = wire.pack(data)
    assert wire.unpack(json.loads(json.dumps(packed))) == data
    assert packed == sdk._pack(data)
    assert sdk._unpack(packed) == data


@pytest.mark.parametrize(
    "value",
    [None, "x", {}, {"text": 1}, {"text": "a", "base64": "YQ=="}, {"base64": "a"}, {"base64": "é"}, {"hex": "00"}],
)
def test_anything_else_is_no_bytes(value: object) -> None:
    with pytest.raises(ValueError, match=r"text|base64"):
        wire.unpack(value)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"hello world",
        b"[1, 2]",
        b"3",
        b"null",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1',
        b'\xff{"a": 1}',
        b"[" * 200_000,
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_line_that_is_no_json_object_is_quoted(line: bytes) -> None:
    with pytest.raises(PolicyFailure) as caught:
        wire.decode(line)
    assert "malformed message" in caught.value.message
    assert len(caught.value.message) < 1000
    assert caught.value.message.isprintable()


def test_the_quoted_line_shows_nothing_that_a_terminal_obeys() -> None:
    with pytest.raises(PolicyFailure) as caught:
        wire.decode(b"\x1b[31mred\x07\x9b\n")
    assert r"\x1b[31mred\x07" in caught.value.message


def test_the_length_of_a_message_is_bounded() -> None:
    with pytest.raises(PolicyFailure, match="longer than"):
        wire.decode(b'{"a": "' + b"x" * wire.MAX_LINE + b'"}')


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.booleans() | st.none()))
def test_what_is_encoded_is_one_line_and_decodes_to_itself(message: dict[str, object]) -> None:
    line = wire.encode(message)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert wire.decode(line) == message


@pytest.mark.parametrize(
    ("failure", "kind", "raised"),
    [
        (ContextOverflow("too long"), "context_overflow", sdk.ContextOverflow),
        (BadRequest("no such tool"), "bad_params", sdk.ProtocolError),
        (LlmFailure("?"), "internal", sdk.ProtocolError),
    ],
)
def test_the_sdk_understands_failures(failure: LlmFailure, kind: str, raised: type[Exception]) -> None:
    error = wire.failure_answer(7, failure)["error"]
    assert error["data"]["kind"] == kind
    assert error["code"] == wire.CODES[wire.ErrorKind(kind)]
    assert isinstance(sdk._failure(error), raised)


def test_the_sdk_knows_every_error_kind() -> None:
    for kind in wire.ErrorKind:
        understood = sdk._failure(wire.error_answer(1, kind, "said", reason="step_limit")["error"])
        if kind is wire.ErrorKind.EPISODE_OVER:
            assert isinstance(understood, sdk.EpisodeOver)
            assert understood.reason == "step_limit"
        else:
            assert isinstance(understood, sdk.HarnessError)
            assert understood.kind == kind.value


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=8,
        ),
        max_size=4,
    ),
    st.booleans(),
)
def test_a_line_is_read_as_json_reads_it(value: dict[str, object], ascii_only: bool) -> None:
    line = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    read = wire.decode(line)
    assert repr(dict(read)) == repr(json.loads(line.decode("utf-8", "surrogatepass")))
