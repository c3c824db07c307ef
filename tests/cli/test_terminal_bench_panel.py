"""A directory of old Terminal-Bench tasks, from check to a measured run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import parsed
from tests.project import Project

COMPOSE = """services:
  client:
    build: {dockerfile: Dockerfile}
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    command: ["sh", "-c", "sleep infinity"]
    network_mode: none
    environment: ["TEST_DIR=${T_BENCH_TEST_DIR}"]
"""
RUN_TESTS = """#!/bin/bash
cd /app
echo "= short test summary info ="
if [ -e "$(cat $TEST_DIR/name)" ]; then echo "PASSED t.py::made"; else echo "FAILED t.py::made - no file"; fi
"""


def write(folder: Path, name: str, **files: str) -> None:
    """An old task: make a file of that name."""
    contents = {
        "task.yaml": f"instruction: Make {name}\ndifficulty: easy\n",
        "docker-compose.yaml": COMPOSE,
        "Dockerfile": "FROM python:3.11-slim\nWORKDIR /app\n",
        "run-tests.sh": RUN_TESTS,
        "solution.sh": f"touch {name}\n",
        "tests/name": name,
        **files,
    }
    for path, text in contents.items():
        (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / path).write_text(text)


@pytest.fixture
def made(project: Callable[..., Project], tmp_path: Path) -> Project:
    """A project with a directory `old` of two tasks; its harness makes `two` and no other."""
    inner = project()
    for name in ("one", "two"):
        write(inner.root / "old", name)
    return Project(inner.root, inner.cache, {"XDG_CACHE_HOME": str(tmp_path / "own")})


def test_check_solve_and_measure(made: Project) -> None:
    checked = made.ht("tasks", "check", "old", "--exit-code")
    assert (checked.code, [line.split()[:2] for line in checked.lines]) == (0, [["ok", "one"], ["ok", "two"]])
    assert "2 of 2 solved" in made.ht("tasks", "oracle", "old", "--exit-code").err
    assert made.ht("tasks", "oracle", "old", "--noop", "--exit-code").lines == [
        "unsolved        one",
        "unsolved        two",
    ]
    ran = made.ht("evaluate", "--panel", "old")
    assert ran.code == 0, ran.err
    assert "1 of 2 solved" in ran.err


def test_a_broken_verifier_is_no_grade(made: Project) -> None:
    write(made.root / "old", "three", **{"run-tests.sh": "#!/bin/bash\nuvx pytest\n"})
    ran = parsed(made.ht("tasks", "oracle", "old", "--include", "three", "--json"))
    assert [line["result"] for line in ran["items"]] == ["infra_verifier"]
    measured = made.ht("evaluate", "--panel", "old", "--include", "three")
    assert measured.code == 4
    assert "infra_verifier" in measured.err


def test_what_cannot_run_is_refused_before_anything_starts(made: Project) -> None:
    write(made.root / "old", "three", **{"docker-compose.yaml": COMPOSE + "  other:\n    image: postgres\n"})
    checked = made.ht("tasks", "check", "old")
    assert ["unsupported", "three"] in [line.split()[:2] for line in checked.lines]
    assert "it needs several containers (docker-compose.yaml: other)" in checked.out
    refused = made.ht("evaluate", "--panel", "old")
    assert refused.code == 6
    assert "task 'three' cannot run" in refused.err and "--exclude three" in refused.err
