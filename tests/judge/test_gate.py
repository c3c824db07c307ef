"""The gate's comparison: differences, levels, bisection, and what a certificate means."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.records.certificate import Certified
from harnesstrain.core.records.gate import Heard, Wave
from harnesstrain.core.records.llm import Endpoint, Reply, Sampling, ToolCall, Usage
from harnesstrain.judge import gate
from harnesstrain.judge.gate import Finding, Level

ENDPOINT = Endpoint(engine="external", model="m", context_length=4096, max_running=8)
CONSTRUCTED = ENDPOINT.model_copy(update={"engine": "embedded", "deterministic": True})
GREEDY = Sampling()


def said(**fields: Any) -> Reply:
    return Reply(**{"content": "one two three", "token_ids": (1, 2, 3), "logprobs": (-0.5, -0.25, -1.0), **fields})


def level(concurrency: int, equal: bool = True, reached: int | None = None) -> Level:
    return Level(
        concurrency=concurrency,
        reached=concurrency if reached is None else reached,
        counted_by="server",
        requests=4,
        mismatches=0 if equal else 1,
    )


def finding(**fields: Any) -> Finding:
    base = {"depth": "standard", "sampling": gate.relevant(GREEDY), "asked": 8, "tested": 8, "largest": 8}
    return Finding(**{**base, **fields})


def test_what_the_engine_cannot_help_is_no_difference() -> None:
    one = said(tool_calls=(ToolCall(id="a", name="run", arguments="{}"),), usage=Usage(prompt=9, cached=8), duration=1)
    two = said(tool_calls=(ToolCall(id="b", name="run", arguments="{}"),), usage=Usage(prompt=9), duration=2)
    assert gate.difference(one, two) is None


@pytest.mark.parametrize(
    ("changed", "field", "position", "left", "right"),
    [
        ({"token_ids": (1, 2, 4)}, "token_ids", 2, "3", "4"),
        ({"token_ids": (1, 2)}, "token_ids", 2, "3", "(ended)"),
        ({"content": "one two four"}, "content", 8, "one two three", "one two four"),
        ({"reasoning": "hm"}, "reasoning", 0, "", "hm"),
        ({"tool_calls": (ToolCall(id="a", name="run", arguments="x"),)}, "tool_calls", 0, "", '["run", "x"]'),
        ({"finish_reason": "length"}, "finish_reason", 0, "stop", "length"),
        ({"logprobs": (-0.5, math.nextafter(-0.25, 0), -1.0)}, "logprobs", 1, "-0.25", "-0.24999999999999997"),
        ({"logprobs": (0.0, -0.25, -1.0)}, "logprobs", 0, "-0.5", "0.0"),
    ],
)
def test_the_first_difference_is_named(changed: Any, field: str, position: int, left: str, right: str) -> None:
    found = gate.difference(said(), said(**changed))
    assert found is not None
    assert (found.field, found.position, found.reference, found.observed) == (field, position, left, right)


def test_logprobs_are_compared_as_bits() -> None:
    nan = float("nan")
    assert gate.difference(said(logprobs=(nan,)), said(logprobs=(nan,))) is None
    assert gate.difference(said(logprobs=(0.0,)), said(logprobs=(-0.0,))) is not None


def test_what_only_one_side_gives_is_not_compared() -> None:
    bare = said(token_ids=None, logprobs=None)
    assert gate.difference(said(), bare) is None
    assert gate.difference(bare, said(content="one")) is not None
    assert gate.compared([said(), bare]) == ("text", "tool_calls")
    assert gate.compared([said()]) == ("text", "tool_calls", "token_ids", "logprobs")


def test_a_mismatch_is_bounded() -> None:
    found = gate.difference(said(token_ids=None, content="x" * 5000), said(token_ids=None, content="x" * 4000 + "y"))
    assert found is not None and found.position == 4000
    assert len(found.reference) <= gate.SHOWN and "y" in found.observed


def test_a_wave_becomes_a_level() -> None:
    reference = {"a": said(), "b": said()}
    heard = tuple(Heard(probe=name, reply=reply) for name, reply in (("a", said()), ("b", said(content="no"))))
    seen = gate.level(Wave(concurrency=4, in_flight=4, running=2, heard=heard), reference, "concurrency")
    assert (seen.reached, seen.counted_by, seen.requests, seen.mismatches) == (2, "server", 2, 1)
    assert seen.short and not seen.equal
    assert seen.first is not None and (seen.first.probe, seen.first.axis) == ("b", "concurrency")
    alone = gate.level(Wave(concurrency=1, in_flight=1, heard=heard[:1]), reference, "cache")
    assert alone.equal and alone.counted_by == "client"


@given(st.integers(1, 64), st.integers(0, 64))
def test_bisection_finds_the_largest_equal_concurrency(limit: int, holds: int) -> None:
    levels: list[Level] = []
    while (number := gate.next_concurrency(levels, limit)) is not None:
        assert 1 <= number <= limit and number not in [one.concurrency for one in levels]
        levels.append(level(number, equal=number <= holds))
    assert gate.largest(levels) == min(limit, holds)
    assert len(levels) <= 2 * limit.bit_length() + 1
    assert gate.failed_at(levels) == (holds + 1 if holds < limit else None)


def test_only_what_was_reached_counts() -> None:
    levels = [level(1), level(2), level(4, reached=3)]
    assert gate.next_concurrency(levels, 8) is None
    assert gate.largest(levels) == 3
    failing = [level(1), level(2), level(4, equal=False, reached=2)]
    assert gate.largest(failing) == 1
    assert gate.failed_at(failing) == 2


def test_a_certificate_is_bound_to_endpoint_and_sampling() -> None:
    made = gate.certificate(ENDPOINT, GREEDY, finding())
    assert (made.kind, made.endpoint, made.result) == ("model", ENDPOINT.fingerprint, Certified.EXACT)
    assert Finding.model_validate(made.detail) == finding()
    assert gate.trust(ENDPOINT, GREEDY.model_copy(update={"seed": 9, "max_tokens": 3}), [made]).deterministic
    assert not gate.trust(ENDPOINT, GREEDY.model_copy(update={"temperature": 1.0}), [made]).deterministic
    other = ENDPOINT.model_copy(update={"identity": {"flag": "x"}})
    assert not gate.trust(other, GREEDY, [made]).deterministic
    assert gate.trust(ENDPOINT.model_copy(update={"max_running": 2}), GREEDY, [made]).deterministic


def test_trust_without_a_certificate_is_the_endpoints_claim() -> None:
    assert not gate.trust(ENDPOINT, GREEDY, []).deterministic
    assert gate.trust(CONSTRUCTED, GREEDY, []) == gate.Trust(deterministic=True)


def test_a_passing_certificate_limits() -> None:
    trust = gate.trust(ENDPOINT, GREEDY, [gate.certificate(ENDPOINT, GREEDY, finding(largest=3, failed_at=4))])
    assert (trust.deterministic, trust.limit) == (True, 3)
    whole = gate.trust(ENDPOINT, GREEDY, [gate.certificate(ENDPOINT, GREEDY, finding())])
    assert whole.limit == 8, "nothing is known beyond what was tested"


def test_a_construction_is_limited_only_where_it_fails() -> None:
    passed = gate.certificate(CONSTRUCTED, GREEDY, finding(largest=2, asked=2, tested=2))
    assert gate.trust(CONSTRUCTED, GREEDY, [passed]).limit is None
    failed = gate.certificate(CONSTRUCTED, GREEDY, finding(largest=3, failed_at=4))
    assert gate.trust(CONSTRUCTED, GREEDY, [failed]).limit == 3


def test_a_fork_outweighs_a_claim() -> None:
    made = gate.certificate(CONSTRUCTED, GREEDY, finding(largest=0, failed_at=1))
    assert made.result is Certified.FORKED
    trust = gate.trust(CONSTRUCTED, GREEDY, [made])
    assert (trust.deterministic, trust.limit, trust.sentinels) == (False, None, ())


def test_the_newest_certificate_counts() -> None:
    old = gate.certificate(ENDPOINT, GREEDY, finding(largest=0, failed_at=1))
    new = gate.certificate(ENDPOINT, GREEDY, finding())
    assert old.id == new.id
    assert gate.trust(ENDPOINT, GREEDY, [old, new]).deterministic
    assert not gate.trust(ENDPOINT, GREEDY, [new, old]).deterministic
