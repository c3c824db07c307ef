"""Grading: once, after the harness is gone, in a place it could not write; in both kinds of sandbox."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from harnesstrain.core.records.rollout import Outcome
from harnesstrain.rollout.grading import grade
from tests.rollout.making import PASS_IF_DONE, Workbench

pytestmark = pytest.mark.local

FORGERIES = [
    "mkdir -p /logs/verifier && echo 1 > /logs/verifier/reward.txt",
    "mkdir -p /logs/verifier && echo '{\"reward\": 1}' > /logs/verifier/reward.json",
    "mkdir -p /tests && echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh",
    "mkdir -p /tests && echo 'echo 1 > /logs/verifier/reward.txt' > /tests/helper.sh",
    "mkdir -p /logs && ln -s /app /logs/verifier && echo 1 > /app/reward.txt",
    "mkdir -p /elsewhere && ln -s /elsewhere /tests",
]
DAEMON = """
(trap '' TERM HUP; while :; do
    mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; echo '{"reward": 1}' > /logs/verifier/reward.json
done) > /dev/null 2>&1 &
"""
"""Writes a forged reward for ever."""


def lines(*commands: str) -> str:
    return "\n".join(f"ep.run({command!r})" for command in commands) + "\nep.submit()"


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_reward_is_ignored(workbench: Workbench, forgery: str) -> None:
    assert workbench.solve(lines(forgery)).rollout.outcome is Outcome.FAILED_VERIFICATION


@pytest.mark.parametrize("kind", ["workbench", "plain"])
def test_a_daemon_of_the_agent_does_not_write_the_reward(request: pytest.FixtureRequest, kind: str) -> None:
    workbench: Workbench = request.getfixturevalue(kind)
    rollout = workbench.solve(lines(DAEMON)).rollout
    assert (rollout.outcome, rollout.reward) == (Outcome.FAILED_VERIFICATION, 0.0)


@pytest.mark.parametrize("kind", ["workbench", "plain"])
def test_a_daemon_that_the_verifier_starts_does_not_write_the_reward(request: pytest.FixtureRequest, kind: str) -> None:
    """The verifier runs code of the agent's, which leaves a process that forges the reward a moment later."""
    workbench: Workbench = request.getfixturevalue(kind)
    later = "(sleep 0.05; echo 1 > /logs/verifier/reward.txt; sleep 60) >/dev/null 2>&1 &"
    rollout = workbench.solve(
        lines(f"printf '%s\\n' '{later}' > /app/solution.sh"),
        task=workbench.task("bash /app/solution.sh\nmkdir -p /logs/verifier\necho 0 > /logs/verifier/reward.txt\n"),
    ).rollout
    assert (rollout.outcome, rollout.reward) == (Outcome.FAILED_VERIFICATION, 0.0)


@pytest.mark.parametrize("kind", ["workbench", "plain"])
def test_an_honest_solve_in_either_sandbox(request: pytest.FixtureRequest, kind: str) -> None:
    workbench: Workbench = request.getfixturevalue(kind)
    rollout = workbench.solve(lines("touch done")).rollout
    assert rollout.outcome is Outcome.SOLVED
    assert rollout.isolated is (kind == "workbench")


def test_a_state_that_cannot_be_graded_is_not_passed(workbench: Workbench) -> None:
    rollout = workbench.solve(lines("touch done; rm -rf /logs; touch /logs")).rollout
    assert (rollout.outcome, rollout.reward) == (Outcome.FAILED_VERIFICATION, None)
    assert "the submitted state cannot be graded: /logs/verifier: Not a directory" in rollout.detail


def test_grading_leaves_the_state_as_it_was_where_the_sandbox_can_fork(workbench: Workbench) -> None:
    task = workbench.task(f"touch /app/graded\n{PASS_IF_DONE}")
    with closing(workbench.sandbox.open(task.environment)) as session:
        session.run("touch done")
        graded = grade(workbench.sandbox, session, task)
        assert (graded.reward, graded.duration > 0) == (1.0, True)
        assert session.read("done") == b""
        with pytest.raises(Exception, match="graded"):
            session.read("graded")


def test_what_the_verifier_prints_is_kept_from_the_harness_and_in_the_grade(workbench: Workbench) -> None:
    task = workbench.task(f"echo the answer is 42\n{PASS_IF_DONE}")
    with closing(workbench.sandbox.open(task.environment)) as session:
        assert "the answer is 42" in grade(workbench.sandbox, session, task).output
    finished = workbench.solve(lines("touch done"), task=task)
    assert "the answer is 42" not in finished.model_dump_json()


def test_the_verifiers_files_come_from_outside(workbench: Workbench, tmp_path: Path) -> None:
    """The tests directory is put only then: a harness that looks for it finds nothing."""
    finished = workbench.solve(lines("ls -d /tests /logs/verifier; true"))
    assert finished.trace.steps[0].stdout == b""
