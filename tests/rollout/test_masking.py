"""Values of this machine that a verifier is given: it can use them, and nobody reads them in what is kept."""

from __future__ import annotations

import pytest

from harnesstrain.core.records.rollout import Outcome
from harnesstrain.core.records.task import Task
from harnesstrain.rollout.masking import masked
from harnesstrain.rollout.oracle import do_nothing
from harnesstrain.taskset.templates import with_host
from tests.rollout.making import Workbench

pytestmark = pytest.mark.local

USES = """mkdir -p /logs/verifier
echo "asked with $KEY"
[ "$KEY" = "Bearer s3cret-value" ] && echo 1 > /logs/verifier/reward.txt
"""
PRINTS = 'echo "Traceback: refused for $KEY"\n'


def task(workbench: Workbench, script: str) -> Task:
    plain = workbench.task(script)
    templates = {"KEY": "Bearer ${JUDGE_KEY}"}
    verifier = plain.verifier.model_copy(update={"templates": templates, "env": dict(templates)})
    return with_host(plain.model_copy(update={"verifier": verifier}), {"JUDGE_KEY": "s3cret-value"})


def test_the_verifier_has_the_value_and_the_grade_has_not(workbench: Workbench) -> None:
    trial = do_nothing(workbench.sandbox, task(workbench, USES))
    assert trial.solved
    assert "asked with Bearer ${JUDGE_KEY}" in trial.grade.output
    assert "s3cret" not in trial.model_dump_json()


def test_a_broken_verifier_does_not_tell_it_either(workbench: Workbench) -> None:
    done = workbench.solve("ep.submit()", task=task(workbench, PRINTS))
    assert done.rollout.outcome is Outcome.INFRA_VERIFIER
    assert "s3cret" not in done.rollout.model_dump_json() + done.trace.model_dump_json()


def test_what_is_too_short_is_left(workbench: Workbench) -> None:
    plain = workbench.task()
    fields = {"templates": {"A": "${A}", "B": "${B}"}, "env": {"A": "1", "B": "long one"}}
    verifier = plain.verifier.model_copy(update=fields)
    assert masked("1 is not a long one", verifier) == "1 is not a ${B}"
