"""A rollout's verifier again, where its commands were executed again: does the grade come back?

No cache answers.  Where the sandbox can fork, every grading has a fork of one re-executed environment; else each has an
environment of its own.  What decides is the outcome: another reward with the same outcome is told, and is no fork.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harnesstrain.core.digests import roll
from harnesstrain.core.errors import Unsupported, VerifierFailure
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.cache import GradeEntry
from harnesstrain.core.records.certificate import Certificate, Regraded
from harnesstrain.core.records.rollout import Outcome, Rollout, Step, StepKind
from harnesstrain.core.records.sandbox import Grade
from harnesstrain.core.records.task import Task, reaches
from harnesstrain.rollout.action import act, patience
from harnesstrain.rollout.bench import Bench
from harnesstrain.rollout.chain import start_key
from harnesstrain.rollout.changes import Shared
from harnesstrain.rollout.evidence import SHOWN
from harnesstrain.rollout.grading import Ungradable, grade, grade_key
from harnesstrain.rollout.opening import opened
from harnesstrain.rollout.rewarding import combined
from harnesstrain.rollout.staging import again
from harnesstrain.sandbox.base import Session

AFTER_OTHER = 8
"""Times that a verifier which once gave another outcome is run, at least: agreeing once more is no proof."""
UNKEPT = "(what it printed is not kept)"


class Regrading(Record):
    """What grading again showed.  For another grade: both, each with what the verifier printed."""

    result: Regraded
    reason: str = ""
    """What it gave instead, or why it could not be run."""
    times: int = 0
    """How often the verifier was run."""
    recorded: str | None = None
    observed: str | None = None


@dataclass(frozen=True)
class _Given:
    """A grade on record."""

    task: Task
    """With the verifier that gave it."""
    actions: int
    """Actions of the chain before it."""
    reward: float | None
    """None: the state could not be graded."""
    enough: bool
    """Whether it passed; of a step that is not the last: whether work went on."""
    judge: Callable[[Grade], bool]
    where: str = ""

    def compared(self, entry: GradeEntry) -> Regraded:
        """What a further grading of the same state says of this one."""
        one = entry.grade
        if one is None or self.reward is None:
            return Regraded.SAME if one is None and self.reward is None else Regraded.OTHER
        if self.judge(one) != self.enough:
            return Regraded.OTHER
        return Regraded.SAME if one.reward == self.reward else Regraded.OUTCOME


class Regrader:
    """Grades one rollout again, in the environments that are brought to its states."""

    def __init__(
        self,
        bench: Bench,
        task: Task,
        rollout: Rollout,
        steps: Sequence[Step],
        *,
        times: int = 1,
        before: Certificate | None = None,
        barred: str = "",
    ) -> None:
        """`times`: how often; `before`: what is known of the chain; `barred`: why the verifier cannot be run."""
        self._bench = bench
        self._task = task
        self._rollout = rollout
        self._steps = steps
        seen = before is not None and before.grading is Regraded.OTHER
        self._times = max(times, AFTER_OTHER) if seen else times
        self._before = before
        self._barred = barred
        self._forks = bench.sandbox.capabilities().forks

    @property
    def due(self) -> bool:
        """Whether there is a grade to compare with."""
        return self._rollout.graded

    def regrade(self, session: Session, chain: Sequence[Step]) -> Regrading:
        """Grade again.  `session`: in the state after every action of `chain`; it is of no use afterwards.

        A verifier that gives no grade is run once more, in a state that is reached anew.  Raises SandboxFailure.
        """
        if not self.due:
            return Regrading(result=Regraded.NO_GRADE)
        if (found := self._contradicted()) is not None:
            return found
        if self._barred:
            return Regrading(result=Regraded.IMPOSSIBLE, reason=self._barred)
        same = Regrading(result=Regraded.SAME, times=self._times)
        for given in self._givens(chain):
            for number in range(self._times):
                fits = given.actions == len(chain) and (self._forks or number == 0)
                try:
                    entry = self._entry(given, chain, session if fits else None)
                except (VerifierFailure, Unsupported) as failure:
                    why = f"the verifier gave no grade: {failure.message.splitlines()[0]}"
                    return Regrading(result=Regraded.IMPOSSIBLE, reason=why, times=number)
                told = given.compared(entry)
                if told is Regraded.OTHER:
                    return self._other(given, entry, chain, number + 1)
                if told is Regraded.OUTCOME:
                    same = same.model_copy(update={"result": told, "reason": _reason(given, entry)})
        return same

    def _contradicted(self) -> Regrading | None:
        """Where the same actions were graded otherwise before, nothing has to be run to know it."""
        before, now, task = self._before, self._rollout.reward, self._task
        if before is None or not before.gradings or before.reward is None or now is None:
            return None
        if task.steps or task.pass_rewards or task.passes(Grade(reward=before.reward)) == self._rollout.solved:
            return None
        reason = f"after the same actions the verifier gave {before.reward:g}, then {now:g}"
        return Regrading(result=Regraded.OTHER, reason=reason, times=before.gradings)

    def _givens(self, chain: Sequence[Step]) -> list[_Given]:
        """The grades on record, but for those that are compared as actions of the chain."""
        task, rollout = self._task, self._rollout
        if not task.steps:
            return [_Given(task, len(chain), rollout.reward, rollout.solved, task.passes)]
        verified = [one for one in self._steps if one.kind is StepKind.VERIFY and one.exit_code is not None]
        staged = [one for one in self._steps if one.kind is StepKind.STAGE]
        grades = [_grade_of(one) for one in verified]
        found: list[_Given] = []
        for number, (step, given) in enumerate(zip(verified, grades, strict=True) if self._forks else ()):
            judge = functools.partial(reaches, least=task.steps[number].min_reward)
            found.append(
                _Given(
                    task.at(number),
                    sum(one.index < step.index for one in chain),
                    given.reward if given is not None else None,
                    given is not None and judge(given),
                    judge,
                    f"in step '{task.steps[number].name}' ",
                )
            )
        last = len(task.steps) - 1
        name = task.steps[last].name
        ended = rollout.outcome in (Outcome.SOLVED, Outcome.FAILED_VERIFICATION) or name in rollout.rewards
        if ended and len(verified) == last and len(staged) == last + 1 and staged[-1].exit_code == 0:
            known = [one for one in grades if one is not None]
            found.append(
                _Given(
                    task.at(last),
                    len(chain),
                    rollout.rewards.get(name),
                    rollout.solved,
                    lambda one: task.passes(combined(task, [*known, one])),
                    f"in step '{name}' ",
                )
            )
        return found

    def _entry(self, given: _Given, chain: Sequence[Step], session: Session | None) -> GradeEntry:
        """One grade.  `session`: in the state that is graded; None: it is to be reached."""
        if session is None:
            return self._reached(given, chain)
        try:
            return self._graded(given, session)
        except VerifierFailure:
            return self._reached(given, chain)

    def _reached(self, given: _Given, chain: Sequence[Step]) -> GradeEntry:
        sandbox = self._bench.sandbox
        session = opened(sandbox, self._task.environment, self._bench.limits)
        try:
            for step in chain[: given.actions]:
                act(session, again(sandbox, self._task, step), remaining=patience(step))
            return self._graded(given, session)
        finally:
            session.close()

    def _graded(self, given: _Given, session: Session) -> GradeEntry:
        shared = Shared(self._bench.limits, self._bench.starts)
        try:
            return GradeEntry(grade=grade(self._bench.sandbox, session, given.task, shared))
        except Ungradable as broken:
            return GradeEntry(grade=None, ungradable=broken.message)

    def _other(self, given: _Given, entry: GradeEntry, chain: Sequence[Step], times: int) -> Regrading:
        said = entry.grade.output if entry.grade is not None else entry.ungradable
        return Regrading(
            result=Regraded.OTHER,
            reason=_reason(given, entry),
            times=times,
            recorded=_side(given.reward, self._printed(given, chain)),
            observed=_side(entry.grade.reward if entry.grade is not None else None, said),
        )

    def _printed(self, given: _Given, chain: Sequence[Step]) -> str:
        """What the verifier printed when the rollout was graded, where the cache still has it."""
        bench = self._bench
        if bench.verify_cache is None:
            return UNKEPT
        at = start_key(bench.regime.sandbox, bench.limits, self._task.environment)
        for step in chain[: given.actions]:
            at = roll(at, again(bench.sandbox, self._task, step).digest)
        entry = bench.verify_cache.get(grade_key(given.task.verifier, at))
        if entry is None or (entry.grade.reward if entry.grade is not None else None) != given.reward:
            return UNKEPT
        return entry.grade.output if entry.grade is not None else entry.ungradable


def _grade_of(step: Step) -> Grade | None:
    """The grade that a step of the record was given; None: it could not be graded."""
    return Grade(**json.loads(step.stdout or b"{}")) if step.exit_code == 0 else None


def _reason(given: _Given, entry: GradeEntry) -> str:
    seen = entry.grade.reward if entry.grade is not None else None
    if seen == given.reward:
        before, after = ("enough", "too little") if given.enough else ("too little", "enough")
        return f"{given.where}the verifier gave {before}, then {after}"
    return f"{given.where}the verifier gave {_number(given.reward)}, then {_number(seen)}"


def _number(reward: float | None) -> str:
    return "no grade" if reward is None else f"{reward:g}"


def _side(reward: float | None, printed: str) -> str:
    said = f"reward {reward:g}" if reward is not None else "no grade"
    return f"{said}\n{printed.strip()[-SHOWN:]}"
