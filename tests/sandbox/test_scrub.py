"""Scrub rules by example and by property."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.sandbox.scrub import Example, Rule, scrub, scrubbed_digest, version
from harnesstrain.sandbox.scrub_rules import RULES

MATCHES = [(rule, example) for rule in RULES for example in rule.matches]
IGNORES = [(rule, text) for rule in RULES for text in rule.ignores]
COMMANDS = ["", *sorted({example.command for _, example in MATCHES})]
PIECES = st.one_of(
    st.sampled_from([example.text for _, example in MATCHES] + [text for _, text in IGNORES]),
    st.text(max_size=12),
    st.sampled_from([" ", "\n", ":", "-", "=", "/tmp/", "0x", "<STAMP>", "<DUR>", "total ", "in 3 s", "1796030866"]),
)


@pytest.mark.parametrize(("rule", "example"), MATCHES, ids=[f"{rule.name}-{n}" for n, (rule, _) in enumerate(MATCHES)])
def test_what_is_volatile_is_replaced(rule: Rule, example: Example) -> None:
    assert scrub(example.text.encode(), example.command).decode() == example.scrubbed


@pytest.mark.parametrize(("rule", "text"), IGNORES, ids=[f"{rule.name}-{n}" for n, (rule, _) in enumerate(IGNORES)])
def test_task_signal_is_left_alone(rule: Rule, text: str) -> None:
    assert scrub(text.encode()).decode() == text


def test_every_rule_says_why_and_shows_both_sides() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.reason
        assert rule.matches
        assert rule.ignores


@given(st.lists(PIECES, max_size=8), st.sampled_from(COMMANDS))
def test_scrubbing_twice_changes_nothing(pieces: list[str], command: str) -> None:
    once = scrub("".join(pieces).encode(errors="surrogatepass"), command)
    assert scrub(once, command) == once


@given(st.binary(max_size=200))
def test_any_bytes_can_be_scrubbed(data: bytes) -> None:
    assert isinstance(scrub(data, "ls -li"), bytes)


def test_the_digest_sees_what_matters_and_nothing_else() -> None:
    result = RunResult(exit_code=0, stdout=b"at 0x7f0000001111\n", duration=1.0)
    same = result.model_copy(update={"stdout": b"at 0x7f0000002222\n", "duration": 2.0})
    assert scrubbed_digest(result, "x") == scrubbed_digest(same, "x")
    for change in ({"exit_code": 1}, {"stdout": b"other\n"}, {"stderr": b"x"}, {"timed_out": True}):
        assert scrubbed_digest(result.model_copy(update=change), "x") != scrubbed_digest(result, "x")


def test_the_version_covers_the_rules() -> None:
    assert len(version()) == 64
