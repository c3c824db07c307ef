"""One attempt at a cell, and how it ended.

Failures are typed at two boundaries only: what comes out of the harness process is the policy's (PolicyFailure), what
comes out of model and sandbox is infrastructure's (InfraFailure).  Anything else is a defect of this program and
propagates: it aborts loudly and is never turned into a grade.
"""

from __future__ import annotations

from dataclasses import dataclass

from harnesstrain.core.errors import (
    ConfigError,
    InfraFailure,
    LlmFailure,
    PolicyFailure,
    VerifierFailure,
)
from harnesstrain.core.records.rollout import Drift, Outcome, Reason, Rollout, Trace
from harnesstrain.core.records.sandbox import Grade
from harnesstrain.harness.process import HarnessProcess
from harnesstrain.rollout.bench import Bench, Cell, Finished
from harnesstrain.rollout.dialogue import Dialogue
from harnesstrain.rollout.drift import Drifted
from harnesstrain.rollout.place import Graded, Place

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
    """One harness process on one task.  An environment that is new opens while the harness starts."""

    def __init__(self, cell: Cell, bench: Bench) -> None:
        self._cell = cell
        self._bench = bench
        self._place = Place(cell, bench)
        if not self._place.known:
            self._place.prepare()
        self._dialogue = Dialogue(cell, bench, self._place)
        self._graded: Graded | None = None
        self._log = ""

    def play(self) -> Finished:
        """Drive the episode to its outcome."""
        try:
            ending = self._ended()
        finally:
            self._dialogue.close()
            self._place.close()
        return self._finished(ending)

    def _ended(self) -> Ending:
        try:
            return self._converse() or self._judge()
        except PolicyFailure as failure:
            return Ending(Outcome.POLICY_CRASH, detail=_first_line(failure.message))
        except VerifierFailure as failure:
            return Ending(Outcome.INFRA_VERIFIER, failure.kind, _first_line(failure.message))
        except LlmFailure as failure:
            return Ending(Outcome.INFRA_LLM, failure.kind, _first_line(failure.message))
        except Drifted as failure:
            return Ending(Outcome.FORKED, detail=_first_line(failure.message), drift=failure.drift)
        except InfraFailure as failure:
            return Ending(Outcome.INFRA_SANDBOX, failure.kind, _first_line(failure.message))

    def _converse(self) -> Ending | None:
        """Let the harness work.  An ending when it crashed; None when its work is to be judged.

        The process is gone when this returns, whatever happened.
        """
        dialogue = self._dialogue
        process = self._start()
        try:
            dialogue.hold(process)
            ended = process.finish(0 if dialogue.over is not None else LAST_WORDS)
        finally:
            self._log = process.kill().log
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

    def _judge(self) -> Ending:
        """Grade when the regime says so."""
        dialogue, task = self._dialogue, self._cell.task
        reason = dialogue.over or (Reason.CONTEXT_OVERFLOW if dialogue.overflowed else Reason.GAVE_UP)
        if not dialogue.submitted and self._bench.regime.grading == "submitted":
            return Ending(Outcome.NO_SUBMIT, reason.value)
        self._graded = self._place.grade()
        graded, why = self._graded.entry.grade, _first_line(self._graded.entry.ungradable)
        if graded is not None and graded.reward >= task.pass_reward:
            return Ending(Outcome.SOLVED, grade=graded)
        if dialogue.submitted:
            return Ending(Outcome.FAILED_VERIFICATION, detail=why, grade=graded)
        return Ending(Outcome.NO_SUBMIT, reason.value, detail=why, grade=graded)

    def _finished(self, ending: Ending) -> Finished:
        meter, recorder, cell = self._dialogue.meter, self._dialogue.recorder, self._cell
        place, graded = self._place, self._graded
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
            rewards=ending.grade.rewards if ending.grade else {},
            llm_calls=meter.calls,
            llm_cached=recorder.cached,
            actions=meter.actions,
            actions_cached=place.cached,
            executions=place.executions,
            grade_cached=graded is not None and graded.cached,
            from_caches=place.untouched and recorder.cached == meter.calls,
            drift=ending.drift,
            first_try_valid=recorder.valid,
            first_try_total=recorder.noted,
            usage=meter.usage,
            recorded_time=round(meter.time, 6),
            chain_digest=recorder.chain,
            requests_digest=recorder.requests,
            attempt=cell.attempt,
            isolated=self._bench.isolated and self._bench.sandbox.capabilities().isolated,
            traced=self._dialogue.traced,
        )
        trace = Trace(
            rollout=rollout.id, steps=recorder.steps(), messages=self._dialogue.conversations.kept, log=self._log
        )
        return Finished(rollout=rollout, trace=trace)


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0][:DETAIL]
