"""The same rollout from a cold, a warm and a half-warm cache; and its commands again in a fresh sandbox."""

from __future__ import annotations

from typing import Any

import pytest

from harnesstrain.core.errors import SandboxFailure
from harnesstrain.core.records.certificate import Certified
from harnesstrain.core.records.rollout import Outcome, Source
from harnesstrain.core.records.run import Budgets
from harnesstrain.llm.script import Settings
from harnesstrain.rollout.bench import Finished
from harnesstrain.rollout.reexecution import reexecute
from tests.rollout.making import Kept, Workbench

pytestmark = pytest.mark.local

TALK = """
messages = [{"role": "user", "content": "begin"}]
while True:
    reply = ep.complete(messages)
    messages += [reply.message(), {"role": "user", "content": ep.run(reply.content).stdout}]
    if reply.content == "touch done":
        ep.submit()
        break
"""
"""Runs what the model says until it says the last thing."""

SLOW = [
    {"turn": 0, "reply": "echo one", "duration": 4.0},
    {"turn": 1, "reply": "echo two", "duration": 4.0},
    {"turn": 2, "reply": "touch done", "duration": 4.0},
]
"""Replies that say they took four seconds each, and took none."""


def facts(finished: Finished) -> dict[str, Any]:
    """What must not depend on the cache."""
    r = finished.rollout
    return {
        "measurement": r.measurement,
        "outcome": r.outcome,
        "reason": r.reason,
        "usage": r.usage,
        "calls": r.llm_calls,
    }


@pytest.mark.parametrize(
    ("seconds", "outcome"), [(60.0, Outcome.SOLVED), (7.5, Outcome.NO_SUBMIT), (3.0, Outcome.NO_SUBMIT)]
)
def test_a_time_budget_decides_alike_whatever_the_cache_holds(
    workbench: Workbench, seconds: float, outcome: Outcome
) -> None:
    cache = Kept()
    budgets = Budgets(time=seconds)
    cold = workbench.solve(TALK, workbench.bench(SLOW, budgets=budgets, cache=cache))
    assert cold.rollout.outcome is outcome
    assert cold.rollout.llm_cached == 0
    live = len(cache)
    warm = workbench.solve(TALK, workbench.bench(SLOW, budgets=budgets, cache=cache))
    assert warm.rollout.llm_cached == warm.rollout.llm_calls == live
    assert workbench.model is not None
    assert workbench.model.calls == 0
    half = Kept({key: cache[key] for key in list(cache)[:1]})
    mixed = workbench.solve(TALK, workbench.bench(SLOW, budgets=budgets, cache=half))
    assert mixed.rollout.llm_cached == 1
    assert facts(cold) == facts(warm) == facts(mixed)
    assert {step.source for step in warm.trace.steps if step.usage} == {Source.CACHE}
    assert [step.duration for step in warm.trace.steps if step.usage] == [4.0] * live


def test_without_a_cache_every_call_is_live(workbench: Workbench) -> None:
    one = workbench.solve(TALK, workbench.bench(SLOW))
    assert workbench.model is not None
    assert workbench.model.calls == 3
    assert facts(one) == facts(workbench.solve(TALK, workbench.bench(SLOW, cache=Kept())))


def test_trials_of_an_endpoint_that_does_not_repeat_itself_stay_trials(workbench: Workbench) -> None:
    cache = Kept()
    bench = workbench.bench(SLOW, cache=cache, settings=Settings(deterministic=False))
    for seed in (1, 2, 1):
        workbench.solve(TALK, bench, seed=seed)
    assert workbench.model is not None
    assert workbench.model.calls == 6  # seed 1 was remembered


def test_a_chain_that_comes_back_is_certified(workbench: Workbench) -> None:
    body = "ep.write('in.txt', 'b\\na\\n')\nep.run('sort in.txt', stdin=b'x')\nep.read('in.txt')\nep.run('exit 3')"
    finished = workbench.solve(body)
    check = reexecute(workbench.sandbox, workbench.task(), finished.trace.steps)
    assert (check.result, check.executed) == (Certified.EXACT, 4)


def test_what_differs_only_where_it_may_is_equivalent(workbench: Workbench) -> None:
    finished = workbench.solve("ep.run('echo took $(date +%N | cut -c1-3)ms; echo finished in 0.$(date +%N)s')")
    check = reexecute(workbench.sandbox, workbench.task(), finished.trace.steps)
    assert check.result is Certified.EQUIVALENT


def test_a_chain_that_does_not_come_back_forked_at_a_step(workbench: Workbench) -> None:
    finished = workbench.solve("ep.run('true')\nep.run('head -c 20 /dev/urandom | sha256sum')\nep.run('true')")
    check = reexecute(workbench.sandbox, workbench.task(), finished.trace.steps)
    assert (check.result, check.step, check.executed) == (Certified.FORKED, 1, 2)
    assert check.command == "head -c 20 /dev/urandom | sha256sum"
    shown = check.difference
    assert shown is not None
    assert shown.recorded != shown.observed
    assert shown.recorded.startswith("exit 0")
    assert shown.diff.splitlines()[:2] == ["--- recorded", "+++ observed"]
    assert shown.proposal is None and "nothing but the value stands in the line" in shown.proposal_reason


def test_a_fork_that_looks_volatile_comes_with_a_rule_that_mends_it(workbench: Workbench) -> None:
    finished = workbench.solve("ep.run('echo at 0x7f00aa11bb22, listening on port $((20000 + RANDOM))')")
    check = reexecute(workbench.sandbox, workbench.task(), finished.trace.steps)
    shown = check.difference
    assert shown is not None and shown.proposal is not None
    assert "<ADDR>, listening on port" in shown.recorded and "0x7f00aa11bb22, listening" in shown.recorded_raw
    assert "pattern = " in shown.proposal and "listening on port" in shown.proposal_reason


def test_other_files_are_no_fork_but_not_exact_either(workbench: Workbench) -> None:
    finished = workbench.solve("ep.run('date +%s%N > when')\nep.run('echo same')")
    first = reexecute(workbench.sandbox, workbench.task(), finished.trace.steps)
    assert first.result is Certified.EXACT
    if first.state is None:
        pytest.skip("this sandbox cannot tell what files are left")
    again = reexecute(workbench.sandbox, workbench.task(), finished.trace.steps, state=first.state)
    assert (again.result, again.other_files) == (Certified.EQUIVALENT, True)


def test_a_record_of_other_scrub_rules_is_scrubbed_again(workbench: Workbench) -> None:
    finished = workbench.solve("ep.run('echo finished in 0.$(date +%N)s')")
    steps = [step.model_copy(update={"scrubbed_digest": "0" * 64}) for step in finished.trace.steps]
    assert reexecute(workbench.sandbox, workbench.task(), steps).result is Certified.EQUIVALENT


def test_a_time_out_comes_back_as_a_time_out(workbench: Workbench) -> None:
    finished = workbench.solve("ep.run('echo begun; sleep 30', timeout=0.5)")
    check = reexecute(workbench.sandbox, workbench.task(), finished.trace.steps)
    assert check.result in (Certified.EXACT, Certified.EQUIVALENT)


def test_a_command_that_the_time_did_not_suffice_for_is_left_out(workbench: Workbench) -> None:
    bench = workbench.bench(budgets=Budgets(time=0.5))
    finished = workbench.solve("ep.run('echo a')\nep.run('sleep 30')", bench)
    check = reexecute(workbench.sandbox, workbench.task(), finished.trace.steps)
    assert (check.result, check.executed) == (Certified.EXACT, 1)


def test_nothing_executed_is_nothing_to_certify(workbench: Workbench) -> None:
    finished = workbench.solve("ep.note(x=1)")
    assert finished.rollout.chain_digest is None
    check = reexecute(workbench.sandbox, workbench.task(), finished.trace.steps)
    assert (check.result, check.executed) == (Certified.NO_CHAIN, 0)


def test_infrastructure_neither_certifies_nor_excludes(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    finished = workbench.solve("ep.run('true')")

    def refuse(*args: object, **kwargs: object) -> None:
        raise SandboxFailure("no room")

    monkeypatch.setattr(workbench.sandbox, "open", refuse)
    with pytest.raises(SandboxFailure, match="no room"):
        reexecute(workbench.sandbox, workbench.task(), finished.trace.steps)
