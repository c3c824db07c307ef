"""Records: frozen, strict, and identities free of what must not count."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import Owner
from harnesstrain.core.records.llm import Endpoint, Sampling, Usage
from harnesstrain.core.records.rollout import Outcome, Rollout, latest_attempts
from harnesstrain.core.records.run import Budgets, Regime, Run
from harnesstrain.core.records.sandbox import Limits, SandboxIdentity
from harnesstrain.core.records.task import Panel, PanelTask

REGIME = Regime(
    endpoint="e",
    deterministic=True,
    sampling=Sampling(),
    context_length=4096,
    sandbox=SandboxIdentity(kind="local", image="i", pins="1"),
)


def rollout(outcome: Outcome = Outcome.SOLVED, **changes: object) -> Rollout:
    fixed = {"id": "i", "run": "r", "task": "t", "task_digest": "d", "seed": 1, "outcome": outcome}
    return Rollout.model_validate(fixed | changes)


def test_records_are_frozen_and_refuse_unknown_fields() -> None:
    with pytest.raises(ValidationError):
        Usage().prompt = 3  # type: ignore[misc]
    with pytest.raises(ValidationError, match="extra"):
        Usage.model_validate({"prompts": 3})


@pytest.mark.parametrize(
    ("outcome", "scorable", "owner"),
    [
        (Outcome.SOLVED, True, None),
        (Outcome.FAILED_VERIFICATION, True, Owner.POLICY),
        (Outcome.NO_SUBMIT, True, Owner.POLICY),
        (Outcome.POLICY_CRASH, True, Owner.POLICY),
        (Outcome.INFRA_LLM, False, Owner.INFRA),
        (Outcome.INFRA_SANDBOX, False, Owner.INFRA),
        (Outcome.INFRA_VERIFIER, False, Owner.INFRA),
        (Outcome.FORKED, False, Owner.INFRA),
    ],
)
def test_every_outcome_has_one_owner(outcome: Outcome, scorable: bool, owner: Owner | None) -> None:
    assert (outcome.scorable, outcome.owner) == (scorable, owner)


def test_a_measurement_ignores_clocks_and_caches_and_nothing_else() -> None:
    same = {rollout(**change).measurement for change in ({}, {"recorded_time": 9.0}, {"llm_cached": 3}, {"attempt": 2})}
    assert len(same) == 1
    changes = ({"reward": 0.5}, {"llm_calls": 2}, {"actions": 2}, {"chain_digest": "c"}, {"requests_digest": "q"})
    other = {rollout(**change).measurement for change in (*changes, {"reason": "x"}, {"task_digest": "other"})}
    assert len(other) == 7
    assert not same & other


def test_the_newest_attempt_of_each_cell_counts() -> None:
    old, new = rollout(Outcome.INFRA_LLM), rollout(attempt=2)
    other = rollout(task="u")
    assert latest_attempts([old, other, new]) == [new, other]
    assert latest_attempts([new, old]) == [new]


@pytest.mark.parametrize(
    "change",
    [
        {"endpoint": "f"},
        {"sampling": Sampling(temperature=1.0)},
        {"context_length": 2048},
        {"budgets": Budgets(steps=3)},
        {"limits": Limits(memory_mb=64)},
        {"grading": "final_state"},
        {"sandbox": SandboxIdentity(kind="local", image="j", pins="1")},
        {"version": 2},
    ],
)
def test_whatever_can_change_a_measurement_changes_the_regime(change: dict[str, object]) -> None:
    assert REGIME.model_copy(update=change).digest != REGIME.digest


def test_an_endpoint_is_its_identity_not_its_claims() -> None:
    one = Endpoint(engine="external", model="m", context_length=4096, identity={"build": "1"})
    assert one.model_copy(update={"max_running": 8, "deterministic": True}).fingerprint == one.fingerprint
    assert one.model_copy(update={"identity": {"build": "2"}}).fingerprint != one.fingerprint


def test_a_panel_is_its_tasks_in_order() -> None:
    a, b = PanelTask(name="a", digest="1"), PanelTask(name="b", digest="2")
    panel = Panel(name="p", tasks=(a, b))
    assert Panel(name="q", tasks=(a.model_copy(update={"split": "holdout"}), b)).digest == panel.digest
    assert Panel(name="p", tasks=(b, a)).digest != panel.digest


def test_the_same_command_is_the_same_run() -> None:
    one = Run.identify("c", "p", "r", (1, 2))
    assert Run.identify("c", "p", "r", (1, 2)) == one
    assert len({one, *(Run.identify("c", "p", "r", s, t) for s, t in (((1,), ""), ((2, 1), ""), ((1, 2), "x")))}) == 4
    run = Run(id=one, commit="c", panel="p", panel_name="n", regime=digest("r"), seeds=(1,))
    assert len({run.rollout_id("t", 1), run.rollout_id("t", 2), run.rollout_id("u", 1), run.rollout_id("t", 1, 2)}) == 4
