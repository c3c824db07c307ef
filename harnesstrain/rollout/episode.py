"""One attempt at a cell, and how it ended.

Failures are typed at two boundaries only: what comes out of the harness process is the policy's (PolicyFailure), what
comes out of model and sandbox is infrastructure's (InfraFailure).  Anything else is a defect of this program and
propagates: it aborts loudly and is never turned into a grade.

A task may have several steps.  Then the harness is started anew for each, in the environment as the step before left
it, with that step's instruction and time.  Every step is graded before the next begins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from harnesstrain.core.errors import (
    ConfigError,
    InfraFailure,
    LlmFailure,
    PolicyFailure,
    VerifierFailure,
)
from harnesstrain.core.records.llm import Usage
from harnesstrain.core.records.rollout import Drift, Outcome, Reason, Rollout, Trace
from harnesstrain.core.records.sandbox import Grade
from harnesstrain.core.records.task import Task, reaches
from harnesstrain.harness.process import HarnessProcess
from harnesstrain.rollout.action import Acted, step_of
from harnesstrain.rollout.bench import Bench, Cell, Finished
from harnesstrain.rollout.chain import entry_of
from harnesstrain.rollout.dialogue import Dialogue
from harnesstrain.rollout.drift import Drifted
from harnesstrain.rollout.place import Graded, Place
from harnesstrain.rollout.recorder import Recorder
from harnesstrain.rollout.rewarding import combined
from harnesstrain.rollout.staging import result_of, stage, verify

LAST_WORDS = 5.0
"""Seconds a harness gets to exit after its episode is over."""
DETAIL = 300
"""Characters of a detail."""


@dataclass(frozen=True)
class Ending:
    """How an episode ended."""

    outcome: Outcome
    reason: str | None = None
    detail: str = ""
    grade: Grade | None = None
    drift: Drift | None = None


def attempt(cell: Cell, bench: Bench) -> Finished:
    """Make one attempt at a cell.  Every policy or infrastructure failure becomes an outcome."""
    return Episode(cell, bench).play()


class Episode:
    """One harness on one task.  An environment that is new opens while the harness starts."""

    def __init__(self, cell: Cell, bench: Bench) -> None:
        self._cell = cell
        self._bench = bench
        self._place = Place(cell, bench)
        if not self._place.known:
            self._place.prepare()
        self._recorder = Recorder()
        self._dialogues: list[Dialogue] = []
        """One; of a task with several steps, one for each that began."""
        self._graded: list[Graded] = []
        self._log = ""

    def play(self) -> Finished:
        """Drive the episode to its outcome."""
        try:
            ending = self._ended()
        finally:
            for dialogue in self._dialogues:
                dialogue.close()
            self._place.close()
        return self._finished(ending)

    def _ended(self) -> Ending:
        try:
            return self._walk() if self._cell.task.steps else self._whole()
        except PolicyFailure as failure:
            return Ending(Outcome.POLICY_CRASH, detail=_first_line(failure.message))
        except VerifierFailure as failure:
            return Ending(Outcome.INFRA_VERIFIER, failure.extra.get("rule", failure.kind), _first_line(failure.message))
        except LlmFailure as failure:
            return Ending(Outcome.INFRA_LLM, failure.kind, _first_line(failure.message))
        except Drifted as failure:
            return Ending(Outcome.FORKED, detail=_first_line(failure.message), drift=failure.drift)
        except InfraFailure as failure:
            return Ending(Outcome.INFRA_SANDBOX, failure.kind, _first_line(failure.message))

    def _whole(self) -> Ending:
        """A task without steps."""
        dialogue = self._begin(self._cell.task)
        if crashed := self._converse(dialogue):
            return crashed
        if not self._to_be_judged(dialogue):
            return Ending(Outcome.NO_SUBMIT, _reason(dialogue))
        self._graded.append(self._place.grade())
        grade, why = self._graded[0].entry.grade, _first_line(self._graded[0].entry.ungradable)
        return self._judged(grade, why)

    def _walk(self) -> Ending:
        """A task with steps: one after the other, until one does not reach what it must."""
        steps = self._cell.task.steps
        for number, step in enumerate(steps):
            if why := self._stage(number):
                return self._stopped(f"step '{step.name}' cannot begin: {why}")
            dialogue = self._begin(self._cell.task.at(number))
            crashed = self._converse(dialogue)
            dialogue.close()
            if crashed:
                return crashed
            if not self._to_be_judged(dialogue):
                return Ending(Outcome.NO_SUBMIT, _reason(dialogue), f"in step '{step.name}'")
            last = number + 1 == len(steps)
            graded = self._grade_step(number, last=last)
            if graded.entry.grade is None:
                return self._stopped(f"step '{step.name}': {graded.entry.ungradable}")
            if not last and not reaches(graded.entry.grade, step.min_reward):
                reward = f"its reward {graded.entry.grade.reward:g} is below what it must reach"
                return self._stopped(f"stopped after step {number + 1} of {len(steps)}, '{step.name}': {reward}")
        return self._judged(self._so_far(), "")

    def _begin(self, task: Task) -> Dialogue:
        dialogue = Dialogue(replace(self._cell, task=task), self._bench, self._place, self._recorder)
        self._dialogues.append(dialogue)
        return dialogue

    def _stage(self, number: int) -> str:
        """Make the environment ready for a step; why that cannot be, after what the step before left."""
        action = stage(self._cell.task, number)
        index = self._recorder.reserve()
        done = self._place.act(index, action, math.inf)
        assert done.entry is not None  # nothing bounds its time
        chain = self._recorder.extend_chain(action.digest)
        self._recorder.add(step_of(index, action, done.entry, done.source, chain))
        return done.entry.result.stderr.decode("utf-8", "replace") if done.entry.result.exit_code else ""

    def _grade_step(self, number: int, *, last: bool) -> Graded:
        """Grade a step; where work goes on, that is a step of the record too."""
        index = -1 if last else self._recorder.reserve()
        graded = self._place.grade_step(index, number, last=last)
        self._graded.append(graded)
        if not last:
            action = verify(self._bench.sandbox, self._cell.task, number)
            entry = entry_of(action, Acted(result_of(graded.entry)))
            chain = self._recorder.extend_chain(action.digest)
            self._recorder.add(step_of(index, action, entry, graded.source, chain))
        return graded

    def _converse(self, dialogue: Dialogue) -> Ending | None:
        """Let the harness work.  An ending when it crashed; None when its work is to be judged.

        The process is gone when this returns, whatever happened.
        """
        process = self._start()
        try:
            dialogue.hold(process)
            ended = process.finish(0 if dialogue.over is not None else LAST_WORDS)
        finally:
            self._log += process.kill().log
        if ended.code != 0 and dialogue.over is None and not dialogue.submitted:
            last = (ended.log.strip().splitlines() or ["no message"])[-1]
            return Ending(Outcome.POLICY_CRASH, detail=_first_line(f"harness exited {ended.code}: {last}"))
        return None

    def _start(self) -> HarnessProcess:
        cell, bench = self._cell, self._bench
        try:
            return HarnessProcess.start(
                cell.worktree, cell.manifest, isolated=bench.isolated, limits=bench.harness_limits
            )
        except ConfigError as error:
            raise PolicyFailure(error.message, hint=error.hint) from error

    def _to_be_judged(self, dialogue: Dialogue) -> bool:
        return dialogue.submitted or self._bench.regime.grading != "submitted"

    def _judged(self, grade: Grade | None, why: str) -> Ending:
        if grade is not None and self._cell.task.passes(grade):
            return Ending(Outcome.SOLVED, detail=_noted(grade), grade=grade)
        return self._failed(grade, why)

    def _stopped(self, why: str) -> Ending:
        """Not every step was done: not solved, whatever the reward so far."""
        return self._failed(self._so_far(), _first_line(why))

    def _failed(self, grade: Grade | None, why: str) -> Ending:
        why = why or (_noted(grade) if grade is not None else "")
        open_ones = [dialogue for dialogue in self._dialogues if not dialogue.submitted]
        if not open_ones:
            return Ending(Outcome.FAILED_VERIFICATION, detail=why, grade=grade)
        return Ending(Outcome.NO_SUBMIT, _reason(open_ones[-1]), detail=why, grade=grade)

    def _so_far(self) -> Grade | None:
        """The reward of the steps that were graded."""
        grades = [graded.entry.grade for graded in self._graded if graded.entry.grade is not None]
        return combined(self._cell.task, grades) if grades else None

    def _finished(self, ending: Ending) -> Finished:
        recorder, cell, place, dialogues = self._recorder, self._cell, self._place, self._dialogues
        meters = [dialogue.meter for dialogue in dialogues]
        calls = sum(meter.calls for meter in meters)
        known = ending.grade or (self._so_far() if cell.task.steps else None)
        rollout = Rollout(
            id=cell.rollout,
            run=cell.run,
            task=cell.task.name,
            task_digest=cell.task.digest,
            seed=cell.seed,
            outcome=ending.outcome,
            reason=ending.reason,
            detail=ending.detail,
            reward=ending.grade.reward if ending.grade else None,
            rewards=known.rewards if known else {},
            llm_calls=calls,
            llm_cached=recorder.cached,
            actions=sum(meter.actions for meter in meters),
            actions_cached=place.cached,
            executions=place.executions,
            grade_cached=bool(self._graded) and all(graded.cached for graded in self._graded),
            from_caches=place.untouched and recorder.cached == calls,
            drift=ending.drift,
            first_try_valid=recorder.valid,
            first_try_total=recorder.noted,
            usage=sum((meter.usage for meter in meters), Usage()),
            recorded_time=round(sum(meter.time for meter in meters), 6),
            chain_digest=recorder.chain,
            requests_digest=recorder.requests,
            attempt=cell.attempt,
            isolated=self._bench.isolated and self._bench.sandbox.capabilities().isolated,
            traced=next((dialogue.traced for dialogue in dialogues if dialogue.traced is not None), None),
        )
        messages = {key: said for dialogue in dialogues for key, said in dialogue.conversations.kept.items()}
        return Finished(
            rollout=rollout,
            trace=Trace(rollout=rollout.id, steps=recorder.steps(), messages=messages, log=self._log),
        )


def _reason(dialogue: Dialogue) -> str:
    """Why a harness handed nothing in."""
    return (dialogue.over or (Reason.CONTEXT_OVERFLOW if dialogue.overflowed else Reason.GAVE_UP)).value


def _noted(grade: Grade) -> str:
    """What the grading found beside the grade."""
    return _first_line(f"noticed: {', '.join(grade.notes)}" if grade.notes else "")


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0][:DETAIL]
