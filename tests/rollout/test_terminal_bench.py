"""Old-format tasks, solved and left alone in a real sandbox: the driver reads what their tests printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesstrain.core.errors import VerifierFailure
from harnesstrain.core.records.task import Task
from harnesstrain.rollout.oracle import do_nothing, solve
from harnesstrain.sandbox.base import Sandbox
from harnesstrain.taskset import load_task
from tests.taskset.terminalbench.conftest import COMPOSE, RUN_TESTS, TEST, YAML


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """Writes and loads a task with another run-tests.sh."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def task(run_tests: str = RUN_TESTS) -> Task:
        directory = tmp_path / "hello"
        (directory / "tests").mkdir(parents=True)
        (directory / "task.yaml").write_text(YAML)
        (directory / "docker-compose.yaml").write_text(COMPOSE)
        (directory / "Dockerfile").write_text("FROM python:3.11-slim\nWORKDIR /app\n")
        (directory / "run-tests.sh").write_text(run_tests)
        (directory / "tests/test_outputs.py").write_text(TEST)
        (directory / "solution.yaml").write_text("- command: echo hello > /app/greeting.txt\n  block: true\n")
        return load_task(directory)

    return task


def test_solved_by_the_solution_and_not_by_nothing(local: Sandbox, make: object) -> None:
    task = make()  # type: ignore[operator]
    done = solve(local, task)
    assert done.solved and done.exit_code == 0, done
    assert "PASSED test_outputs.py::test_greeting" in done.grade.output
    nothing = do_nothing(local, task)
    assert not nothing.solved and nothing.grade.reward == 0.0


@pytest.mark.parametrize("script", ["uvx: command not found", "exit 1", 'echo "short test summary info"'])
def test_no_result_is_no_grade(local: Sandbox, make: object, script: str) -> None:
    with pytest.raises(VerifierFailure, match="no result") as caught:
        do_nothing(local, make(f"#!/bin/bash\n{script}\n"))  # type: ignore[operator]
    assert caught.value.extra["output"] is not None


def test_output_larger_than_what_is_kept_of_it_is_read_whole(local: Sandbox, make: object) -> None:
    noise = "head -c 3000000 /dev/zero | tr '\\0' '\\n'\n"
    task = make(f"{noise}echo short test summary info\necho FAILED t.py::a\n{noise}echo PASSED t.py::b\n{noise}")  # type: ignore[operator]
    assert do_nothing(local, task).grade.reward == 0.0
