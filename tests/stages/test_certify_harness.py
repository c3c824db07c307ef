"""Certifying harnesses on a real project: once, inherited, resumed, and without what is not needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from harnesstrain.core.errors import Incomplete, Prerequisite
from harnesstrain.core.records.certificate import Certified
from harnesstrain.core.records.llm import LlmRequest, Reply
from harnesstrain.llm.scripted import ScriptedModel
from harnesstrain.stages import certify, evaluate
from harnesstrain.stages.certify import HarnessSpec, certify_harness
from tests.project import Project
from tests.stages.test_evaluate import opened

pytestmark = pytest.mark.local
Make = Callable[..., Project]

COUNTING = """
from ht_sdk import serve


def solve(ep):
    ep.complete([{"role": "user", "content": "x" * ep.count_tokens("one two three")}])
    ep.submit()


serve(solve)
"""


def measured(made: Project, **flags: Any) -> str:
    """A run of the version that is checked out."""
    with opened(made, **flags) as context:
        return evaluate.run(context, evaluate.EvaluateSpec(commit=context.repo.head())).run


def test_every_rollout_is_played_back_once_without_model_and_sandbox(
    project: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = project()
    run = measured(made)

    def refuse(model: ScriptedModel, request: LlmRequest) -> Reply:
        raise AssertionError("the model was asked")

    monkeypatch.setattr(ScriptedModel, "complete", refuse)
    with opened(made) as context:
        done = certify_harness(context, HarnessSpec(run=run))
        assert (done.played, done.repeats, len(done.certificates)) == (3, True, 3)
        assert {one.result for one in done.certificates} == {Certified.EXACT}
        assert {one.commit for one in done.certificates} == {context.repo.head()}
        assert context._devices is None, "neither model nor sandbox was opened"
        again = certify_harness(context, HarnessSpec(run=run))
        assert (again.played, again.certificates) == (0, done.certificates)
        kept = context.store.certificates(kind="harness")
        assert {one.id for one in kept} == {one.id for one in done.certificates}
    with opened(made) as context:
        salted = evaluate.run(context, evaluate.EvaluateSpec(commit=context.repo.head(), fresh="x")).run
        assert certify_harness(context, HarnessSpec(run=salted)).played == 0, "the same requests: inherited"
        assert certify_harness(context, HarnessSpec(run=salted, tasks=("one",))).certificates[0].task == "one"


def test_where_commands_start_is_asked_of_a_sandbox_when_nothing_recorded_it(project: Make) -> None:
    made = project()
    run = measured(made, **{"measure.cache": "off"})
    with opened(made) as context:
        assert certify_harness(context, HarnessSpec(run=run)).repeats
        assert context._devices is None
    (made.root / "tasks" / "one" / "instruction.md").write_text("Make another file\n")
    with opened(made) as context:
        spec = HarnessSpec(run=run, again=True)
        assert certify_harness(context, spec.model_copy(update={"tasks": ("two",)})).repeats
        with pytest.raises(
            Prerequisite, match="task 'one' start was not recorded, and it is not in the panel any more"
        ):
            certify_harness(context, spec.model_copy(update={"tasks": ("one",)}))


def test_a_stop_leaves_what_was_played_and_goes_on(project: Make) -> None:
    made = project()
    run = measured(made)
    with opened(made, **{"measure.jobs": 1}) as context:
        stop = threading.Event()
        stop.set()
        context.stop = stop
        with pytest.raises(Incomplete, match="stopped after 0 of 3 rollouts"):
            certify_harness(context, HarnessSpec(run=run))
        stop.clear()
        assert certify_harness(context, HarnessSpec(run=run)).played == 3
        part = evaluate.run(context, evaluate.EvaluateSpec(commit=context.repo.head(), fresh="y", max_tokens=1, jobs=1))
        with pytest.raises(Incomplete, match="is not complete"):
            certify_harness(context, HarnessSpec(run=part.run))


def test_a_harness_that_counts_tokens_needs_its_model(project: Make) -> None:
    made = project(tasks=("one",))
    (made.root / "agent" / "main.py").write_text(COUNTING)
    made.git("commit", "-qam", "Count")
    run = measured(made)
    with opened(made) as context:
        assert certify_harness(context, HarnessSpec(run=run)).repeats
        assert context._devices is not None
    made.rules('{"reply": "another model"}\n')
    with opened(made) as context, pytest.raises(Prerequisite, match="the harness counts tokens"):
        certify_harness(context, HarnessSpec(run=run, again=True))


def test_env_certificates_can_be_asked_for_again(project: Make) -> None:
    made = project(tasks=("two",))
    run = measured(made)
    with opened(made) as context:
        first = certify.run(context, certify.CertifySpec(run=run))
        again = certify.run(context, certify.CertifySpec(run=run, again=True))
        assert (first.executed, again.executed) == (1, 1)
        assert first.certificates[0].id != again.certificates[0].id
        assert certify.run(context, certify.CertifySpec(run=run)).certificates == again.certificates
