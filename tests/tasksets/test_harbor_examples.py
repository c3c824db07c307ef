"""Small Harbor tasks, one for each thing the format has: solved by their solutions, and not by doing nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.core.records.task import Environment, Task
from harnesstrain.rollout.grading import grade
from harnesstrain.rollout.oracle import differences, do_nothing, solve
from harnesstrain.sandbox.base import Sandbox, Session
from harnesstrain.taskset import load_panel
from tests.sandbox import kinds

EXAMPLES = Path(__file__).parent / "harbor"
LOADED = load_panel(EXAMPLES)
REWARDS = {"two-steps": {"make": 1.0, "extend": 1.0}, "named-rewards": {"correct": 1.0, "short": 1.0}}
IDLE = {"two-steps": {"make": 0.0}, "named-rewards": {"correct": 0.0, "short": 0.01}}


@pytest.fixture(
    scope="module",
    params=[pytest.param("local", marks=pytest.mark.local), pytest.param("docker", marks=pytest.mark.docker)],
)
def sandbox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Each kind that can be had here."""
    cache = tmp_path_factory.mktemp("layers")
    made = kinds.local(cache) if request.param == "local" else kinds.docker(cache)
    with closing(made) as found:
        yield found


def test_every_example_loads() -> None:
    assert not LOADED.troubles
    assert LOADED.notes["legacy-keys"] == ("task.toml:11: unknown key 'agent.restart' is ignored",)
    assert "canary" not in LOADED.tasks["legacy-keys"].instruction


@pytest.mark.parametrize("name", sorted(LOADED.tasks))
def test_the_solution_passes_and_does_so_twice(sandbox: Sandbox, name: str) -> None:
    task = LOADED.tasks[name]
    one, other = solve(sandbox, task), solve(sandbox, task)
    assert one.solved, one.output + one.grade.output
    assert one.grade.rewards == REWARDS.get(name, {})
    assert differences(one, other) == ()


@pytest.mark.parametrize("name", sorted(LOADED.tasks))
def test_doing_nothing_does_not_pass(sandbox: Sandbox, name: str) -> None:
    trial = do_nothing(sandbox, LOADED.tasks[name])
    assert not trial.solved
    assert trial.grade.rewards == IDLE.get(name, {})


def test_nothing_but_artifacts_reaches_a_verifier_of_its_own(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was planted in the task's environment is not where the grading happens."""
    task = LOADED.tasks["own-grader"]
    opened: list[Session] = []
    plain = sandbox.open

    def remember(environment: Environment, **more: object) -> Session:
        opened.append(plain(environment, **more))  # type: ignore[arg-type]
        return opened[-1]

    monkeypatch.setattr(sandbox, "open", remember)
    planted = "mkdir -p /logs/verifier /tests; echo 1 > /logs/verifier/reward.txt; echo 'exit 0' > /tests/test.sh"
    assert _reward(sandbox, task, planted) == 0.0
    assert len(opened) >= 2
    assert _reward(sandbox, task, "echo done > report.txt; echo artifact > build/out.txt") == 1.0
    assert _reward(sandbox, task, "ln -s /etc/passwd report.txt; echo artifact > build/out.txt") == 0.0


def _reward(sandbox: Sandbox, task: Task, command: str) -> float:
    with closing(sandbox.open(task.environment)) as session:
        result: RunResult = session.run(command, timeout=60)
        assert result.exit_code == 0, result
        return grade(sandbox, session, task).reward
