"""A reference solution, or nothing at all, graded as a submission would be: is the task sound?

A task of several steps is walked through as an episode would: every step staged, solved and graded, until one does not
reach what it must.
"""

from __future__ import annotations

import math

from harnesstrain.core.errors import ConfigError, SandboxFailure
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.sandbox import Grade, Limits, RunResult
from harnesstrain.core.records.task import REWARD, Solution, Task, reaches
from harnesstrain.rollout.action import Action, perform
from harnesstrain.rollout.changes import Shared
from harnesstrain.rollout.grading import grade
from harnesstrain.rollout.opening import opened
from harnesstrain.rollout.rewarding import combined
from harnesstrain.rollout.staging import between, stage
from harnesstrain.sandbox.base import Sandbox, Session
from harnesstrain.sandbox.scrub import scrubbed_digest

SOLUTION = "/solution"
SHOWN = 2000
"""Characters of what a solution printed last."""


class Trial(Record):
    """What came of it."""

    task: str
    solved: bool
    grade: Grade
    exit_code: int | None = None
    """Of solve.sh, the last one that was run; None for the no-op."""
    output: str = ""
    """Last lines that solve.sh printed."""
    steps: tuple[float, ...] = ()
    """Reward of each step that was graded, where the task has several."""
    stopped: str = ""
    """Why not every step was done."""
    printed: tuple[str, ...] = ()
    """Digest of what each solve.sh printed, scrubbed."""
    state: str | None = None
    """Digest of the files that were graded last, where the sandbox can tell."""


def solve(sandbox: Sandbox, task: Task, limits: Limits | None = None) -> Trial:
    """Run the reference solution in a fresh sandbox and grade the result.

    Raises ConfigError when the task has none, SandboxFailure, VerifierFailure.
    """
    lacking = [step.name for step in task.steps if step.solution is None]
    if lacking or (not task.steps and task.solution is None):
        where = f" of step '{lacking[0]}'" if lacking else ""
        place = f"steps/{lacking[0]}/solution" if lacking else "solution"
        msg = f"task '{task.name}' has no reference solution{where}"
        raise ConfigError(msg, hint=f"add {place}/solve.sh")
    return _Walk(sandbox, task, limits, idle=False).trial()


def do_nothing(sandbox: Sandbox, task: Task, limits: Limits | None = None) -> Trial:
    """Grade a fresh sandbox in which nothing was done."""
    return _Walk(sandbox, task, limits, idle=True).trial()


def differences(one: Trial, other: Trial) -> tuple[str, ...]:
    """What differs between two trials of one task, in words."""
    found = []
    found += [f"{name} {_number(then)}, then {_number(now)}" for name, then, now in _rewards(one, other) if then != now]
    if not found and one.solved != other.solved:
        found.append("solved once only")
    if one.exit_code != other.exit_code:
        found.append(f"solve.sh exited {one.exit_code}, then {other.exit_code}")
    elif one.printed != other.printed:
        found.append("solve.sh printed something else")
    if None not in (one.state, other.state) and one.state != other.state:
        found.append("other files")
    return tuple(found)


def _rewards(one: Trial, other: Trial) -> list[tuple[str, float | None, float | None]]:
    """Each reward by name, of both."""
    had, has = ({**trial.grade.rewards, REWARD: trial.grade.reward} for trial in (one, other))
    return [
        (name, had.get(name), has.get(name)) for name in sorted({*had, *has}, key=lambda name: (name != REWARD, name))
    ]


def _number(reward: float | None) -> str:
    return "none" if reward is None else f"{reward:g}"


class _Walk:
    """One trial."""

    def __init__(self, sandbox: Sandbox, task: Task, limits: Limits | None, *, idle: bool) -> None:
        self._sandbox = sandbox
        self._task = task
        self._limits = limits
        self._idle = idle
        self._grades: list[Grade] = []
        self._printed: list[str] = []
        self._last: RunResult | None = None
        self._state: str | None = None

    def trial(self) -> Trial:
        task = self._task
        stopped = self._steps() if task.steps else self._whole()
        final = combined(task, self._grades) if task.steps else self._grades[0]
        said = (self._last.stdout + self._last.stderr).decode("utf-8", "replace")[-SHOWN:] if self._last else ""
        return Trial(
            task=task.name,
            solved=not stopped and task.passes(final),
            grade=final,
            exit_code=self._last.exit_code if self._last else None,
            output=said,
            steps=tuple(grade.reward for grade in self._grades) if task.steps else (),
            stopped=stopped,
            printed=tuple(self._printed),
            state=self._state,
        )

    def _whole(self) -> str:
        session = opened(self._sandbox, self._task.environment, self._limits)
        try:
            self._work(session, self._task.solution)
            self._state = session.state()
            self._grades.append(grade(self._sandbox, session, self._task, Shared(self._limits)))
        finally:
            session.close()
        return ""

    def _steps(self) -> str:
        """Walk; why it stopped early."""
        task = self._task
        session = opened(self._sandbox, task.environment, self._limits)
        try:
            for number, step in enumerate(task.steps):
                staged = _perform(session, stage(task, number))
                if staged.exit_code != 0:
                    self._grades = self._grades or [Grade(reward=0.0)]
                    return f"step '{step.name}' cannot begin: {staged.stderr.decode('utf-8', 'replace')}"
                self._work(session, step.solution)
                self._state = session.state()
                entry = between(self._sandbox, session, task.at(number))
                if entry.grade is None:
                    self._grades.append(Grade(reward=0.0, output=entry.ungradable))
                    return f"step '{step.name}': {entry.ungradable}"
                self._grades.append(entry.grade)
                if number + 1 == len(task.steps):
                    break
                if not reaches(entry.grade, step.min_reward):
                    return f"after step {number + 1} of {len(task.steps)}, '{step.name}'"
                if self._sandbox.capabilities().forks:  # the session is sealed
                    session.close()
                    session = self._again(number)
        finally:
            session.close()
        return ""

    def _again(self, number: int) -> Session:
        """A fresh environment, in the state after step `number`."""
        task = self._task
        session = opened(self._sandbox, task.environment, self._limits)
        try:
            for done in range(number + 1):
                _perform(session, stage(task, done))
                self._solved(session, task.steps[done].solution)
        except BaseException:
            session.close()
            raise
        return session

    def _work(self, session: Session, solution: Solution | None) -> None:
        result = self._solved(session, solution)
        if result is not None:
            self._last = result
            self._printed.append(scrubbed_digest(result, "solve.sh"))

    def _solved(self, session: Session, solution: Solution | None) -> RunResult | None:
        if self._idle or solution is None:
            return None
        session.put(solution.path, SOLUTION)
        result = session.run(f"bash {SOLUTION}/solve.sh", env=solution.env, timeout=solution.timeout, user="root")
        if result.timed_out:
            msg = f"solve.sh of {self._task.name} ran past {solution.timeout:g} s"
            raise SandboxFailure(msg, hint="raise the timeout in task.toml")
        return result


def _perform(session: Session, action: Action) -> RunResult:
    return perform(session, action, math.inf).result
