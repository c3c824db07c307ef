"""The gate's driving: what is asked, in which crowds, and what is known of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from harnesstrain.core.errors import BadRequest, Incomplete, RateLimited, Refused
from harnesstrain.core.records.gate import Probe
from harnesstrain.core.records.llm import Endpoint, LlmRequest, Reply, Sampling, Usage
from harnesstrain.llm import gate
from harnesstrain.llm.probes import DEPTHS, Depth, probes
from harnesstrain.llm.script import Rule, Script
from harnesstrain.llm.scripted import ScriptedModel, Settings

RULES: list[Any] = [{"reply": "a reply that is long enough to be shaken"}]
NEVER = threading.Event()


def scripted(**settings: Any) -> ScriptedModel:
    return ScriptedModel(RULES, Settings(**{"latency": 0.1, **settings}))


def some(count: int = 3) -> tuple[Probe, ...]:
    return tuple(
        Probe(name=f"p{n}", request=LlmRequest(messages=({"role": "user", "content": f"say {n}"},)))
        for n in range(count)
    )


@pytest.mark.parametrize("depth", DEPTHS.values(), ids=lambda depth: depth.name)
def test_probes_have_the_lengths_they_name(depth: Depth) -> None:
    model = scripted(context_length=4096)
    asked = probes(model, Sampling(seed=7, temperature=0.5, max_tokens=999, stop=("x",)), depth)
    assert len({probe.name for probe in asked}) == len(asked)
    for probe in asked:
        count = model.count_tokens(probe.request.messages)
        assert count + depth.max_tokens <= 4096
        kind, _, size = probe.name.rpartition(" ")
        if kind in ("boundary", "long"):
            assert int(size) - 3 <= count <= int(size)
    sampling = [probe.request.sampling for probe in asked]
    assert {(one.temperature, one.max_tokens, one.stop) for one in sampling} == {(0.5, depth.max_tokens, ())}
    assert [one.seed for one in sampling] == [7 + n for n in range(len(asked))]
    assert any(probe.request.tools for probe in asked)
    assert asked == probes(model, Sampling(seed=7, temperature=0.5), depth), "the same endpoint is asked the same"


def test_a_family_shares_its_beginning_and_others_do_not() -> None:
    asked = {probe.name: probe.request.messages for probe in probes(scripted(), Sampling(), DEPTHS["standard"])}
    first, second, grown = (asked[f"family {name}"] for name in ("1", "2", "grown"))
    assert first[0] == second[0] and first[1] != second[1]
    assert grown[: len(first)] == first and len(grown) > len(first)
    others = {messages[0]["content"] for name, messages in asked.items() if not name.startswith("family")}
    assert len(others) == len(asked) - 3


def test_a_small_context_is_respected() -> None:
    model = scripted(context_length=256)
    for probe in probes(model, Sampling(), DEPTHS["thorough"]):
        assert model.count_tokens(probe.request.messages) + 64 <= 256


@pytest.mark.parametrize("concurrency", [1, 2, 5])
def test_a_wave_reaches_its_concurrency_and_says_so(concurrency: int) -> None:
    model = scripted()
    wave = gate.together(model, some(), concurrency, NEVER)
    assert (wave.concurrency, wave.in_flight, wave.running) == (concurrency, concurrency, concurrency)
    assert wave.reached == concurrency == model.peak
    assert {heard.probe for heard in wave.heard} == {"p0", "p1", "p2"}
    assert model.calls == len(wave.heard) >= max(3, 2 * concurrency - 1)


def test_the_server_is_believed_and_not_the_client() -> None:
    class OneByOne:
        """Takes any number of requests and works on one."""

        def __init__(self) -> None:
            self._inner, self._lock = scripted(), threading.Lock()

        def complete(self, request: LlmRequest) -> Reply:
            with self._lock:
                return self._inner.complete(request)

        def crowds(self) -> tuple[int, ...]:
            return self._inner.crowds()

        def endpoint(self) -> Endpoint:
            return self._inner.endpoint()

        def count_tokens(self, messages: Sequence[Any]) -> int:
            return self._inner.count_tokens(messages)

        def close(self) -> None:
            self._inner.close()

    wave = gate.together(OneByOne(), some(), 4, NEVER)
    assert (wave.in_flight, wave.running, wave.reached) == (4, 1, 1)


def test_crowds_of_earlier_waves_do_not_count() -> None:
    model = scripted()
    assert gate.together(model, some(), 5, NEVER).running == 5
    assert gate.together(model, some(), 2, NEVER).running == 2


def test_waves_ask_in_an_order_of_their_own_each_the_same_every_time() -> None:
    orders = [[probe.name for probe in gate._order(some(6), concurrency, 2)] for concurrency in (1, 2, 4, 4)]
    assert orders[0] != orders[1][: len(orders[0])]
    assert orders[2] == orders[3]
    assert orders[2][:4] == [orders[2][0]] * 4, "copies of one request side by side"
    assert sorted(orders[0]) == sorted([f"p{n}" for n in range(6)] * 2)


def test_a_refused_probe_is_skipped_and_said() -> None:
    model = ScriptedModel([{"match": "say 1", "error": "bad_request", "message": "no such tool"}, *RULES])
    known = gate.reference(model, some(), NEVER)
    assert set(known.replies) == {"p0", "p2"} == {probe.name for probe in known.probes}
    assert known.skipped == {"p1": "no such tool"}


def test_a_refusal_that_only_one_probe_meets_is_of_that_probe() -> None:
    model = ScriptedModel([{"match": "say 2", "error": "refused", "message": "no model has tools"}, *RULES])
    assert gate.reference(model, some(), NEVER).skipped == {"p2": "no model has tools"}


def test_an_endpoint_that_refuses_everything_is_no_reference() -> None:
    with pytest.raises(BadRequest, match="never"):
        gate.reference(ScriptedModel([{"error": "bad_request", "message": "never"}]), some(), NEVER)


def test_infrastructure_failures_certify_nothing() -> None:
    model = ScriptedModel([{"match": "say 2", "error": "rate_limited"}, {**RULES[0], "delay": 0.005}])
    with pytest.raises(RateLimited):
        gate.together(model, some(), 3, NEVER)
    with pytest.raises(RateLimited):
        gate.reference(model, some(), NEVER)
    with pytest.raises(Refused):
        gate.reference(ScriptedModel([{"match": "say 0", "error": "refused"}, *RULES]), some(), NEVER)
    with pytest.raises(Refused):
        gate.reference(ScriptedModel([{"times": 2, **RULES[0]}, {"error": "refused"}]), some(), NEVER)


def test_one_request_is_given_up_inside_the_concurrency() -> None:
    def reply(request: LlmRequest) -> Rule:
        return Rule(reply="x", delay=600 if request.sampling.max_tokens > 512 else 0.1)

    model = ScriptedModel(Script(reply, identity="0" * 64))
    wave = gate.together(model, some(), 3, NEVER, abort=True)
    assert (wave.in_flight, wave.running, model.peak) == (3, 3, 3)
    assert (len(wave.heard), model.calls) == (6, 7)
    assert {heard.reply.finish_reason for heard in wave.heard} == {"stop"}


def test_a_stop_ends_the_gate() -> None:
    stop = threading.Event()
    stop.set()
    model = scripted()
    with pytest.raises(Incomplete):
        gate.reference(model, some(), stop)
    with pytest.raises(Incomplete):
        gate.together(model, some(), 2, stop)
    assert model.calls == 0


def test_cold_is_claimed_only_where_the_server_tells() -> None:
    def known(cached: int) -> gate.Reference:
        return gate.Reference(some(1), {"p0": Reply(usage=Usage(prompt=9, cached=cached))}, {})

    warm = [Reply(usage=Usage(prompt=9, cached=8))]
    assert known(0).cold(warm) is True
    assert known(0).cold([Reply()]) is None
    assert known(4).cold(warm) is False
