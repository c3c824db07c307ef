"""What the driver does itself between the steps of a task.  Part of the action chain, for it changes the environment.

stage   before a step: its files are laid into the working directory, its setup.sh is run, its health is checked
verify  after a step that is not the last: it is graded

Grading in a fork leaves no trace; only where a sandbox cannot fork is `verify` executed again with the chain.
"""

from __future__ import annotations

import json
from pathlib import Path

from harnesstrain.core.digests import canonical
from harnesstrain.core.errors import SandboxFailure
from harnesstrain.core.records.cache import GradeEntry
from harnesstrain.core.records.rollout import Step, StepKind
from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.core.records.task import Task, TaskStep
from harnesstrain.core.scratch import temporary
from harnesstrain.rollout.action import Action, from_record
from harnesstrain.rollout.changes import Shared
from harnesstrain.rollout.grading import GRADED, LOGS, TESTS, Ungradable, grade
from harnesstrain.rollout.opening import unhealthy
from harnesstrain.sandbox.base import FileFault, Sandbox, Session

DRIVEN = (StepKind.STAGE, StepKind.VERIFY)
"""Kinds of steps that the driver makes."""
FOLDERS = "/logs/agent /logs/artifacts"
SETUP = "setup.sh"
SETUP_TIME = 600.0
"""Seconds that setup.sh may take."""
PATIENCE = 3600.0
"""Seconds that may pass beyond the commands' own limits; only a bound."""


def stage(task: Task, number: int) -> Action:
    """Make the environment ready for step `number` (from 0).

    A first step that cannot be staged is a SandboxFailure.  A later one has the exit code 1: what the step before left
    does not allow it.
    """
    step = task.steps[number]

    def doing(session: Session) -> RunResult:
        reason = _staged(session, step)
        if reason is not None and number == 0:
            raise SandboxFailure(f"step '{step.name}' of {task.name} cannot begin: {reason}")
        return RunResult(exit_code=0 if reason is None else 1, stderr=(reason or "").encode())

    return Action(StepKind.STAGE, _spec("stage", step, step.digest), doing=doing)


def verify(sandbox: Sandbox, task: Task, number: int) -> Action:
    """Grade step `number` where the work goes on.  Raises what grading raises; an ungradable state is a result."""
    step = task.steps[number]

    def doing(session: Session) -> RunResult:
        return result_of(between(sandbox, session, task.at(number)))

    return Action(StepKind.VERIFY, _spec("verify", step, step.verifier.digest), doing=doing)


def between(sandbox: Sandbox, session: Session, task: Task, shared: Shared | None = None) -> GradeEntry:
    """Grade the state of `session`.  Where the sandbox cannot fork, no file of the verifier's is left behind.

    The sandbox itself takes them away: no program of the state's takes part.
    """
    try:
        return GradeEntry(grade=grade(sandbox, session, task, shared))
    except Ungradable as broken:
        return GradeEntry(grade=None, ungradable=broken.message)
    finally:
        if not sandbox.capabilities().forks:
            with temporary("empty") as empty:
                for place in (TESTS, LOGS, GRADED):
                    session.put(Path(empty), place)


def result_of(entry: GradeEntry) -> RunResult:
    """A grade as the result of an action: what must come again when the action is executed again."""
    if entry.grade is None:
        return RunResult(exit_code=1, stderr=entry.ungradable.encode())
    rewards = {"reward": entry.grade.reward, "rewards": entry.grade.rewards}
    return RunResult(exit_code=0, stdout=canonical(rewards))


def again(sandbox: Sandbox, task: Task, step: Step) -> Action:
    """The action that a recorded step executed, the driver's own included."""
    if step.kind not in DRIVEN:
        return from_record(step)
    name = json.loads(step.action or "{}").get("step")
    number = next((n for n, one in enumerate(task.steps) if one.name == name), None)
    if number is None:
        raise SandboxFailure(f"{task.name} has no step '{name}'", hint="the task has changed since it was recorded")
    return stage(task, number) if step.kind is StepKind.STAGE else verify(sandbox, task, number)


def _staged(session: Session, step: TaskStep) -> str | None:
    """Stage; why that failed."""
    made = session.run(f"mkdir -p {FOLDERS} && chmod 0777 {FOLDERS}", cwd="/", timeout=60, user="root")
    if made.exit_code != 0:
        return f"{FOLDERS} cannot be made"
    if step.files is not None:
        try:
            session.lay(step.files, session.workdir)
        except FileFault as fault:
            return f"its files cannot be laid into {session.workdir}: {fault.message}"
    if step.setup:
        result = session.run(f"bash ./{SETUP}", timeout=SETUP_TIME)
        if result.timed_out or result.exit_code != 0:
            said = (result.stdout + result.stderr).decode("utf-8", "replace").strip().splitlines()
            how = f"ran past {SETUP_TIME:g} s" if result.timed_out else f"exited {result.exit_code}"
            return f"{SETUP} {how}{': ' + said[-1][:300] if said else ''}"
    return unhealthy(session, step.healthcheck) if step.healthcheck is not None else None


def _spec(kind: str, step: TaskStep, covered: str) -> dict[str, object]:
    return {"kind": kind, "step": step.name, "covers": covered, "timeout": PATIENCE + step.verifier.timeout}
