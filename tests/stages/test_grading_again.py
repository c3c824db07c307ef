"""Certifying grades again: a verifier that does not repeat itself is found, and nothing it says is compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from harnesstrain.core.errors import VerifierFailure
from harnesstrain.core.records.certificate import Certificate, Certified, Regraded
from harnesstrain.measure.context import Context
from harnesstrain.rollout import grading, regrading
from harnesstrain.stages import certify, evaluate, judging
from harnesstrain.stages.certify.stage import _newest
from tests.project import Project
from tests.stages.test_evaluate import opened

pytestmark = pytest.mark.local
Make = Callable[..., Project]

TOSS = "read -r U </proc/sys/kernel/random/uuid\n"
COIN = TOSS + "case $U in [02468ace]*) R=1;; *) R=0;; esac\n"
NOISE = TOSS + 'R=0.$(printf %d "0x${U%%-*}")\n'
"""A number that is another one every time, below 1."""
TOLD = "[ -e /app/%s ] && R=$SAYS || R=0\n"
"""What the test says where the file is there."""


def verifier(made: Project, task: str, body: str, toml: str = "") -> None:
    """Give a task another verifier."""
    folder = made.root / "tasks" / task
    script = f"#!/bin/bash\nmkdir -p /logs/verifier\n{body}echo the reward is $R\necho $R > /logs/verifier/reward.txt\n"
    (folder / "tests/test.sh").write_text(script)
    (folder / "task.toml").write_text((folder / "task.toml").read_text() + toml)
    made.git("commit", "-qam", f"Another verifier for {task}")


def told_by_host(made: Project, task: str) -> None:
    """A task whose verifier says what a variable of this machine says, which is in no record and in no key."""
    verifier(made, task, TOLD % task, '\n[verifier.env]\nSAYS = "${HT_SAYS}"\n')
    file = made.root / "ht.toml"
    file.write_text(file.read_text().replace('kind = "local"', 'kind = "local"\nverifier_env = ["HT_SAYS"]'))


def says(context: Context, reward: str) -> None:
    """What the verifier says from now on."""
    cast("dict[str, str]", context.environ)["HT_SAYS"] = reward


def measured(context: Context, rev: str = "HEAD", **more: str) -> str:
    """A complete run."""
    return evaluate.run(context, evaluate.EvaluateSpec(commit=context.repo.resolve(rev), **more)).run


def of(done: certify.CertifiedRun, task: str) -> Certificate:
    """A task's certificate."""
    return next(one for one in done.certificates if one.task == task)


def test_every_grade_is_made_again_and_compared(project: Make) -> None:
    made = project()
    told_by_host(made, "two")
    with opened(made) as context:
        says(context, "1")
        run = measured(context)
        done = certify.run(context, certify.CertifySpec(run=run))
        assert {(one.result, one.grading, one.gradings) for one in done.certificates} == {
            (Certified.EXACT, Regraded.SAME, 1)
        }
        assert {one.task: one.reward for one in done.certificates} == {"one": 0.0, "two": 1.0, "three": 0.0}
        assert certify.run(context, certify.CertifySpec(run=run)).executed == 0


def test_another_outcome_is_a_fork_with_both_outputs(project: Make) -> None:
    made = project()
    told_by_host(made, "two")
    with opened(made) as context:
        says(context, "1")
        run = measured(context)
        says(context, "0")
        done = certify.run(context, certify.CertifySpec(run=run))
        fork = of(done, "two")
        assert (fork.result, fork.grading, fork.step) == (Certified.FORKED, Regraded.OTHER, None)
        assert fork.grading_reason == "the verifier gave 1, then 0"
        assert fork.recorded == "reward 1\nthe reward is 1" and fork.observed == "reward 0\nthe reward is 0"
        assert "+the reward is 0" in (fork.diff or "").splitlines()
        assert of(done, "one").result is Certified.EXACT
        verdict = judging.run(context, judging.JudgeSpec(base_run=run, cand_run=run))
        ((task, detail),) = [(one.task, one.detail) for one in verdict.excluded]
        assert (task, detail) == ("two", "the verifier gave 1, then 0")
        says(context, "1")
        again = certify.run(context, certify.CertifySpec(run=run, gradings=3))
        assert again.tasks(Certified.FORKED) == ("two",)  # it was seen once: that is enough
        asked = of(certify.run(context, certify.CertifySpec(run=run, again=True)), "two")
        assert (asked.grading, asked.gradings) == (Regraded.SAME, 8)  # and one agreement would prove nothing


def test_who_wants_no_grading_again_gets_certificates_of_commands_alone(project: Make) -> None:
    with opened(project()) as context:
        run = measured(context)
        done = certify.run(context, certify.CertifySpec(run=run, gradings=0))
        assert {(one.result, one.grading) for one in done.certificates} == {(Certified.EXACT, None)}
        assert certify.run(context, certify.CertifySpec(run=run, gradings=0)).executed == 0
        done = certify.run(context, certify.CertifySpec(run=run))
        assert (done.executed, {one.grading for one in done.certificates}) == (3, {Regraded.SAME})
        assert certify.run(context, certify.CertifySpec(run=run, gradings=0)).certificates == done.certificates


def test_a_coin_is_found_by_grading_often(project: Make) -> None:
    made = project()
    verifier(made, "two", COIN)
    with opened(made) as context:
        done = certify.run(context, certify.CertifySpec(run=measured(context), gradings=64))
        assert {one.task: one.grading for one in done.certificates} == {
            "one": Regraded.SAME,
            "two": Regraded.OTHER,
            "three": Regraded.SAME,
        }


def test_another_reward_with_the_same_outcome_is_told_and_is_no_fork(project: Make) -> None:
    made = project()
    verifier(made, "two", NOISE)
    with opened(made) as context:
        found = of(certify.run(context, certify.CertifySpec(run=measured(context))), "two")
        assert (found.result, found.grading) == (Certified.EQUIVALENT, Regraded.OUTCOME)
        assert found.grading_reason.startswith("the verifier gave 0.")


def test_what_ran_no_command_is_graded_again_too(project: Make) -> None:
    made = project()
    told_by_host(made, "two")
    verifier(made, "one", "R=$SAYS\n", '\n[verifier.env]\nSAYS = "${HT_SAYS}"\n')
    main = made.root / "agent/main.py"
    main.write_text(
        "from ht_sdk import Episode, serve\n\n\ndef solve(ep: Episode) -> None:\n    ep.submit()\n\n\nserve(solve)\n"
    )
    made.git("commit", "-qam", "Do nothing")
    with opened(made) as context:
        says(context, "1")
        run = measured(context)
        says(context, "0")
        done = certify.run(context, certify.CertifySpec(run=run))
        assert (done.executed, done.no_chain, done.tasks(Certified.FORKED)) == (0, 3, ("one",))
        assert of(done, "two").result is Certified.NO_CHAIN
        assert certify.run(context, certify.CertifySpec(run=run)).certificates == done.certificates
        verdict = judging.run(context, judging.JudgeSpec(base_run=run, cand_run=run))
        assert [one.task for one in verdict.excluded] == ["one"]


def test_one_chain_with_two_grades_needs_no_further_grading(project: Make) -> None:
    made = project()
    told_by_host(made, "two")
    uncached: dict[str, Any] = {"measure.cache": "off"}
    with opened(made, **uncached) as context:
        says(context, "1")
        first = measured(context)
        assert certify.run(context, certify.CertifySpec(run=first)).tasks(Certified.FORKED) == ()
        says(context, "0")
        second = measured(context, fresh="again")
        done = certify.run(context, certify.CertifySpec(run=second))
        assert of(done, "two").grading_reason == "after the same actions the verifier gave 1, then 0"
        held = certify.run(context, certify.CertifySpec(run=first))
        assert (held.executed, held.tasks(Certified.FORKED)) == (0, ("two",))


def test_a_verifier_that_cannot_be_run_again_is_not_vouched_for(project: Make) -> None:
    made = project()
    told_by_host(made, "two")
    with opened(made) as context:
        says(context, "1")
        run = measured(context)
        del cast("dict[str, str]", context.environ)["HT_SAYS"]
        found = of(certify.run(context, certify.CertifySpec(run=run)), "two")
        assert (found.result, found.grading, found.gradings) == (Certified.EXACT, Regraded.IMPOSSIBLE, 0)
        assert "needs variables of the host: HT_SAYS" in found.grading_reason
        says(context, "1")
        found = of(certify.run(context, certify.CertifySpec(run=run)), "two")
        assert found.grading is Regraded.SAME


def test_a_verifier_that_gives_no_grade_is_run_once_more(project: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(project(tasks=("two",))) as context:
        run = measured(context)
        failures = [VerifierFailure("no_reward: once"), VerifierFailure("no_reward: twice")]

        def failing(*args: object) -> object:
            if failures:
                raise failures.pop(0)
            return grading.grade(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(regrading, "grade", failing)
        found = of(certify.run(context, certify.CertifySpec(run=run)), "two")
        assert (found.grading, found.grading_reason) == (
            Regraded.IMPOSSIBLE,
            "the verifier gave no grade: no_reward: twice",
        )
        failures.append(VerifierFailure("no_reward: once"))
        assert of(certify.run(context, certify.CertifySpec(run=run)), "two").grading is Regraded.SAME


def test_a_rollout_without_a_grade_has_nothing_to_repeat(project: Make) -> None:
    with opened(project(files={"agent/crash/two": "yes\n"})) as context:
        run = measured(context)
        found = of(certify.run(context, certify.CertifySpec(run=run)), "two")
        assert (found.result, found.grading, found.gradings) == (Certified.EXACT, Regraded.NO_GRADE, 0)
        assert certify.run(context, certify.CertifySpec(run=run)).executed == 0


def test_a_certificate_from_before_grading_again_does_not_hold_for_a_grade(project: Make) -> None:
    with opened(project(files={"agent/crash/three": "yes\n"})) as context:
        run = measured(context)
        for one in certify.run(context, certify.CertifySpec(run=run)).certificates:
            old = {"grading": None, "gradings": 0, "reward": None, "id": one.id[::-1]}
            context.store.put_certificate(one.model_copy(update=old))
        done = certify.run(context, certify.CertifySpec(run=run))
        assert done.executed == 2  # the third has no grade
        assert {of(done, task).grading for task in ("one", "two")} == {Regraded.SAME}
        rollout = next(one for one in context.store.rollouts(run) if one.task == "two")
        assert _newest(context, context.store.run(run), rollout) == of(done, "two")
