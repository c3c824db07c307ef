"""Reward files: read strictly, never guessed."""

from __future__ import annotations

import contextlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.errors import VerifierFailure
from harnesstrain.core.rewards import MAX_BYTES, parse_reward


@pytest.mark.parametrize(
    ("txt", "reward"),
    [(b"1", 1.0), (b"0\n", 0.0), (b" 1.0 \r\n", 1.0), (b"0.25", 0.25), (b".5", 0.5), (b"1e-3", 0.001), (b"-2", -2.0)],
)
def test_a_number_in_reward_txt(txt: bytes, reward: float) -> None:
    grade = parse_reward(txt, None)
    assert (grade.reward, grade.rewards) == (reward, {})


@pytest.mark.parametrize(
    "txt",
    [b"", b" \n", b"nan", b"inf", b"-Infinity", b"1e999", b"1_0", b"one", b"1 0", b"0x1", b"\xff1", "١".encode()]
    + [b"\xef\xbb\xbf1", b"1" * (MAX_BYTES + 1)],
)
def test_anything_else_in_reward_txt_is_a_verifier_failure(txt: bytes) -> None:
    with pytest.raises(VerifierFailure):
        parse_reward(txt, None)


@pytest.mark.parametrize(
    ("document", "reward", "rewards"),
    [
        ('{"reward": 1}', 1.0, {"reward": 1.0}),
        ('{"correct": true}', 1.0, {"correct": 1.0}),
        ('{"correct": 1.0, "fast": 0.5}', 0.5, {"correct": 1.0, "fast": 0.5}),
        ('{"fast": 0.5, "reward": 1}', 1.0, {"fast": 0.5, "reward": 1.0}),
    ],
)
def test_an_object_in_reward_json(document: str, reward: float, rewards: dict[str, float]) -> None:
    grade = parse_reward(None, document.encode())
    assert (grade.reward, grade.rewards) == (reward, rewards)


@pytest.mark.parametrize(
    "document",
    [
        "",
        "1",
        "[1]",
        "{}",
        "null",
        '{"reward": null}',
        '{"reward": "1"}',
        '{"reward": {"a": 1}}',
        '{"reward": NaN}',
        '{"reward": Infinity}',
        '{"reward": 1e999}',
        '{"reward": 1, "reward": 0}',
        '{"reward": 1',
        '{"reward": ' + "9" * 400 + "}",
        "[" * 20_000,
    ],
)
def test_anything_else_in_reward_json_is_a_verifier_failure(document: str) -> None:
    with pytest.raises(VerifierFailure):
        parse_reward(None, document.encode())


def test_reward_json_wins_even_when_it_is_broken() -> None:
    assert parse_reward(b"0", b'{"reward": 1}').reward == 1.0
    with pytest.raises(VerifierFailure):
        parse_reward(b"1", b"")


def test_no_reward_file_is_a_verifier_failure_not_zero() -> None:
    with pytest.raises(VerifierFailure) as caught:
        parse_reward(None, None)
    assert caught.value.kind == "infra_verifier"


@given(st.binary(max_size=200), st.none() | st.binary(max_size=200))
def test_arbitrary_bytes_give_a_finite_reward_or_a_verifier_failure(txt: bytes, json_: bytes | None) -> None:
    with contextlib.suppress(VerifierFailure):
        assert math.isfinite(parse_reward(txt, json_).reward)


@given(st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_every_finite_reward_is_read_back(rewards: dict[str, float]) -> None:
    assert parse_reward(None, json.dumps(rewards).encode()).rewards == rewards
