"""Budgets: steps and tokens exact, time as recorded."""

from __future__ import annotations

from harnesstrain.core.records.llm import Usage
from harnesstrain.core.records.rollout import Reason
from harnesstrain.core.records.run import Budgets
from harnesstrain.rollout.budget import Meter


def test_the_call_after_the_last_one_is_refused() -> None:
    meter = Meter(Budgets(steps=2))
    assert [meter.admit_call() for _ in range(3)] == [None, None, Reason.STEP_LIMIT]
    assert meter.calls == 2


def test_tokens_are_counted_over_the_rollout() -> None:
    meter = Meter(Budgets(tokens=100))
    assert meter.admit_call() is None
    meter.charge(0.0, Usage(prompt=90, completion=10))
    assert meter.admit_call() is Reason.TOKEN_LIMIT
    assert meter.admit_action() is None


def test_time_is_what_was_recorded_not_what_the_clock_says() -> None:
    meter = Meter(Budgets(time=10.0))
    meter.charge(9.5)
    assert meter.admit_action() is None
    meter.charge(0.5)
    assert meter.admit_action() is Reason.TIME_LIMIT


def test_a_task_has_its_own_time_and_the_multiplier_stretches_it() -> None:
    meter = Meter(Budgets(time=10.0, time_multiplier=2.0), task_timeout=30.0)
    assert meter.time_limit == 60.0
    meter.charge(59.0)
    assert meter.remaining_time() == 1.0
    meter.charge(100.0)
    assert meter.remaining_time() == -99.0
