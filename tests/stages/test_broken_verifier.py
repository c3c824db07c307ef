"""A verifier without its tools: the verdict says `unmeasurable` where that matters, and only there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harnesstrain.core.records.rollout import Outcome
from harnesstrain.core.records.verdict import Decision, Verdict
from harnesstrain.measure.project import open_context
from harnesstrain.stages import evaluate, judging
from harnesstrain.stages.evaluate import EvaluateSpec
from harnesstrain.stages.propose import evidence
from tests.project import Project

pytestmark = pytest.mark.local

BROKEN = """\
mkdir -p /logs/verifier
[ -e /app/{name} ] && uvx -w pytest==8.4.1 pytest /tests/test_state.py
if [ $? -eq 0 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
"""Whoever did not make the file has failed; whoever made it meets a verifier whose test runner is missing."""


def judged(made: Project, skill: str, place: Path) -> Verdict:
    """The verdict on a candidate with one skill more; what an estimator would see lies in `place`."""
    base = made.git("rev-parse", "HEAD")
    (made.root / "agent" / "skills" / skill).write_text("yes\n")
    made.git("add", "-A")
    made.git("commit", "-qm", f"Learn {skill}")
    cand = made.git("rev-parse", "HEAD")
    made.git("reset", "-q", "--hard", base)
    context = open_context(made.settings(), environ=made.environment())
    with context:
        runs = [evaluate.run(context, EvaluateSpec(commit=one, jobs=1)).run for one in (base, cand)]
        verdict = judging.run(context, judging.JudgeSpec(base_run=runs[0], cand_run=runs[1]))
        evidence.stage(context, place, cand, None, runs[1])
        rollouts = [one for one in context.store.rollouts(runs[1]) if one.task == "three"]
    context.store.close()
    if skill == "three":
        assert {(one.outcome, one.reason, one.reward) for one in rollouts} == {
            (Outcome.INFRA_VERIFIER, "tool_missing", None)
        }
        assert [one.attempt for one in rollouts] == [1, 2]  # it was tried, and graded, once more
    return verdict


@pytest.fixture
def made(project: Callable[..., Project]) -> Project:
    made = project()
    (made.root / "tasks" / "three" / "tests" / "test.sh").write_text(BROKEN.format(name="three"))
    made.git("commit", "-qam", "Check with another tool")
    return made


def test_a_gain_that_cannot_be_graded_is_unmeasurable_and_no_loss(made: Project, tmp_path: Path) -> None:
    verdict = judged(made, "three", tmp_path)
    assert verdict.decision is Decision.UNMEASURABLE
    assert (verdict.gained, verdict.lost) == ((), ())
    [excluded] = verdict.unmeasurable
    assert excluded.task == "three"
    assert "tool_missing: /tests/test.sh: line 2: uvx: command not found (test.sh exited 0)" in excluded.detail
    seen = "".join(file.read_text() for file in tmp_path.rglob("*.md"))
    assert "infra_verifier (tool_missing)" in seen
    assert "/tests/test.sh" not in seen  # nothing that the verifier printed reaches an estimator


def test_a_gain_elsewhere_is_measured(made: Project, tmp_path: Path) -> None:
    verdict = judged(made, "one", tmp_path)
    assert verdict.decision is Decision.SELECTED
    assert [flip.task for flip in verdict.gained] == ["one"]
    assert verdict.unmeasurable == ()
