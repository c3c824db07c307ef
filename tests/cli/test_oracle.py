"""What `ht tasks oracle` says of a task that its reference solution does not solve, or not twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.project import Project

LEAST = "\n[metadata.harnesstrain]\npass_reward = { correct = 1.0, fast = 0.5 }\n"


def judged(project: Callable[..., Project], solution: str, tests: str) -> Project:
    """A project whose first task has a reference solution and a verifier of its own."""
    made = project(tasks=("one",))
    (made.root / "tasks/one/solution").mkdir()
    (made.root / "tasks/one/solution/solve.sh").write_text(f"{solution}\n")
    (made.root / "tasks/one/tests/test.sh").write_text(f"{tests}\n")
    return made


@pytest.mark.parametrize(
    ("solution", "tests", "least", "said"),
    [
        (
            "true",
            "echo -1 > /logs/verifier/reward.txt",
            "",
            "reward -1, needs 1; solve.sh exited 0",
        ),
        (
            "echo first; echo made it",
            "echo '{\"correct\": 1}' > /logs/verifier/reward.json",
            LEAST,
            "reward 1; no 'fast', needs 0.5; solve.sh exited 0, and printed: made it",
        ),
        (
            "exit 3",
            'echo drew 47; echo \'{"correct": 0, "fast": 0.5, "reward": 0.25}\' > /logs/verifier/reward.json',
            LEAST,
            "reward 0.25; correct 0, needs 1; solve.sh exited 3; the verifier printed: drew 47",
        ),
    ],
)
def test_why_a_task_is_unsolved(
    project: Callable[..., Project], solution: str, tests: str, least: str, said: str
) -> None:
    made = judged(project, solution, tests)
    toml = made.root / "tasks/one/task.toml"
    toml.write_text(toml.read_text() + least)
    ran = made.ht("tasks", "oracle", "--include", "one")
    assert (ran.code, ran.out) == (0, f"unsolved        one  {said}\n")


def test_how_many_differ_the_second_time(project: Callable[..., Project]) -> None:
    made = project()
    for name in ("one", "two", "three"):
        (made.root / f"tasks/{name}/solution").mkdir()
        (made.root / f"tasks/{name}/solution/solve.sh").write_text(f"touch {name}\n")
    (made.root / "tasks/one/tests/test.sh").write_text(
        'echo "{\\"reward\\": 1, \\"odd\\": 1$(date +%s%N | tail -c 12)}" > /logs/verifier/reward.json\n'
    )
    ran = made.ht("tasks", "oracle", "--twice")
    assert ran.code == 0
    (line,) = [one for one in ran.lines if one.startswith("differs")]
    assert line.split("one  ")[1].startswith("odd ") and ", then " in line
    assert "2 of 3 solved by reference solutions; 1 of 3 not the same twice" in ran.err


def test_a_text_is_no_reward(project: Callable[..., Project]) -> None:
    made = judged(project, "true", 'echo \'{"reward": "yes"}\' > /logs/verifier/reward.json')
    ran = made.ht("tasks", "oracle", "--include", "one")
    assert (ran.code, ran.out.split()[0]) == (4, "infra_verifier")
    assert "has a 'reward' that is not a number" in ran.out
