"""A reference solution, or nothing at all, graded as a submission would be: is the task sound?"""

from __future__ import annotations

from harnesstrain.core.errors import ConfigError, SandboxFailure
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.sandbox import Grade, Limits
from harnesstrain.core.records.task import Task
from harnesstrain.rollout.grading import grade
from harnesstrain.sandbox.base import Sandbox

SOLUTION = "/solution"


class Trial(Record):
    """What came of it."""

    task: str
    solved: bool
    grade: Grade
    exit_code: int | None = None
    """Of solve.sh; None for the no-op."""
    output: str = ""
    """Last lines that solve.sh printed."""


def solve(sandbox: Sandbox, task: Task, limits: Limits | None = None) -> Trial:
    """Run the reference solution in a fresh sandbox and grade the result.

    Raises ConfigError when the task has none, SandboxFailure, VerifierFailure.
    """
    if task.solution is None:
        msg = f"task '{task.name}' has no reference solution"
        raise ConfigError(msg, hint="add solution/solve.sh")
    session = sandbox.open(task.environment, limits=limits)
    try:
        session.put(task.solution.path, SOLUTION)
        result = session.run(
            f"bash {SOLUTION}/solve.sh", env=task.solution.env, timeout=task.solution.timeout, user="root"
        )
        if result.timed_out:
            msg = f"solve.sh of {task.name} ran past {task.solution.timeout:g} s"
            raise SandboxFailure(msg, hint="raise the timeout in task.toml")
        graded = grade(sandbox, session, task)
    finally:
        session.close()
    tail = (result.stdout + result.stderr).decode("utf-8", "replace")[-2000:]
    solved = graded.reward >= task.pass_reward
    return Trial(task=task.name, solved=solved, grade=graded, exit_code=result.exit_code, output=tail)


def do_nothing(sandbox: Sandbox, task: Task, limits: Limits | None = None) -> Trial:
    """Grade a fresh sandbox in which nothing was done."""
    session = sandbox.open(task.environment, limits=limits)
    try:
        graded = grade(sandbox, session, task)
    finally:
        session.close()
    return Trial(task=task.name, solved=graded.reward >= task.pass_reward, grade=graded)
