"""The loop that answers one harness and decides how the rollout ended.

Failures are typed at two boundaries only: what comes out of the harness process is the policy's (PolicyFailure), what
comes out of model and sandbox is infrastructure's (InfraFailure).  Anything else is a defect of this program and
propagates: it aborts loudly and is never turned into a grade.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from harnesstrain.core.errors import InfraFailure, LlmFailure, PolicyFailure, SandboxFailure, VerifierFailure
from harnesstrain.core.records.rollout import Outcome, Reason, Rollout, Step, StepKind, Trace
from harnesstrain.core.records.sandbox import Grade
from harnesstrain.harness.process import HarnessProcess
from harnesstrain.harness.protocol import (
    BudgetView,
    Call,
    Complete,
    CountTokens,
    Initialize,
    Note,
    Read,
    Run,
    Submit,
    TaskView,
    Write,
    complete_result,
    initialize_result,
    read_call,
    read_result,
    run_result,
)
from harnesstrain.harness.wire import CallRefused, ErrorKind, answer, error_answer, failure_answer
from harnesstrain.rollout import exchange
from harnesstrain.rollout.action import Action, act, read_action, run_action, step_of, write_action
from harnesstrain.rollout.bench import Bench, Cell, Finished
from harnesstrain.rollout.budget import Meter
from harnesstrain.rollout.conversation import Conversations
from harnesstrain.rollout.grading import grade
from harnesstrain.rollout.recorder import Recorder
from harnesstrain.sandbox.base import Session

CALLS_AT_ONCE = 8
"""Model calls of one harness that may overlap."""
LAST_WORDS = 5.0
"""Seconds a harness gets to exit after its episode is over."""


@dataclass(frozen=True)
class Ending:
    """How an episode ended."""

    outcome: Outcome
    reason: str | None = None
    detail: str = ""
    grade: Grade | None = None


def attempt(cell: Cell, bench: Bench) -> Finished:
    """Make one attempt at a cell.  Every policy or infrastructure failure becomes an outcome."""
    return Episode(cell, bench).play()


class Episode:
    """One harness process on one task."""

    def __init__(self, cell: Cell, bench: Bench) -> None:
        self._cell = cell
        self._bench = bench
        self._meter = Meter(bench.regime.budgets, cell.task.timeout)
        self._recorder = Recorder()
        self._conversations = Conversations()
        self._calls = ThreadPoolExecutor(max_workers=CALLS_AT_ONCE, thread_name_prefix="exchange")
        self._outstanding: set[Future[None]] = set()
        self._cached = 0
        self._submitted = False
        self._over: Reason | None = None
        self._failure: BaseException | None = None
        self._overflowed = False
        self._lock = threading.Lock()
        self._log = ""

    def play(self) -> Finished:
        """Drive the episode to its outcome."""
        opening = self._calls.submit(self._bench.sandbox.open, self._cell.task.environment, limits=self._bench.limits)
        try:
            ending = self._outcome(opening)
        except PolicyFailure as failure:
            ending = Ending(Outcome.POLICY_CRASH, detail=failure.message)
        except VerifierFailure as failure:
            ending = Ending(Outcome.INFRA_VERIFIER, failure.kind, _first_line(failure.message))
        except LlmFailure as failure:
            ending = Ending(Outcome.INFRA_LLM, failure.kind, _first_line(failure.message))
        except InfraFailure as failure:
            ending = Ending(Outcome.INFRA_SANDBOX, failure.kind, _first_line(failure.message))
        finally:
            self._calls.shutdown(wait=True, cancel_futures=True)
            _close(opening)
        return self._finished(ending)

    def _outcome(self, opening: Future[Session]) -> Ending:
        with HarnessProcess.start(self._cell.worktree, self._cell.manifest, isolated=self._bench.isolated) as process:
            self._converse(process, opening)
            if self._submitted or self._over is not None:
                process.finish(LAST_WORDS if self._submitted else 0)
                self._log = process.log()
            else:
                ended = process.finish(LAST_WORDS)
                self._log = ended.log
                if ended.code != 0:
                    last = (ended.log.strip().splitlines() or ["no message"])[-1]
                    return Ending(Outcome.POLICY_CRASH, detail=f"harness exited {ended.code}: {_first_line(last)}")
        return self._judge(opening.result())

    def _judge(self, session: Session) -> Ending:
        """Grade when the regime says so, after the harness process is gone."""
        reason = self._over or (Reason.CONTEXT_OVERFLOW if self._overflowed else Reason.GAVE_UP)
        if not self._submitted and self._bench.regime.grading == "submitted":
            return Ending(Outcome.NO_SUBMIT, reason.value)
        graded = grade(self._bench.sandbox, session, self._cell.task)
        if graded.reward >= self._cell.task.pass_reward:
            return Ending(Outcome.SOLVED, grade=graded)
        if self._submitted:
            return Ending(Outcome.FAILED_VERIFICATION, grade=graded)
        return Ending(Outcome.NO_SUBMIT, reason.value, grade=graded)

    def _converse(self, process: HarnessProcess, opening: Future[Session]) -> None:
        """Answer the harness until it submits, ends, runs out of budget, or something fails."""
        while not self._submitted and self._over is None:
            message = process.receive(self._patience())
            if self._failure is not None:
                raise self._failure
            if message is None:
                return
            try:
                call = read_call(message)
            except CallRefused as refused:
                process.send(refused.answer())
                continue
            self._serve(process, opening, call)

    def _patience(self) -> float:
        with self._lock:
            waiting = bool(self._outstanding)
        return self._bench.harness_idle + (self._bench.model_deadline if waiting else 0)

    def _serve(self, process: HarnessProcess, opening: Future[Session], call: Call) -> None:
        params = call.params
        if isinstance(params, Complete):
            self._complete(process, call, params)
        elif isinstance(params, Run | Read | Write):
            self._act(process, opening.result(), call, params)
        elif isinstance(params, Initialize):
            process.send(answer(call.id, initialize_result(self._view(opening.result()))))
        elif isinstance(params, CountTokens):
            process.send(answer(call.id, {"tokens": self._count(params)}))
        elif isinstance(params, Note):
            self._recorder.note_validity(params.data.get("valid"))
            self._recorder.add(Step(index=self._recorder.reserve(), kind=StepKind.NOTE, note=_json(params.data)))
            process.send(answer(call.id, None))
        elif isinstance(params, Submit):
            self._recorder.add(Step(index=self._recorder.reserve(), kind=StepKind.SUBMIT, note=params.message))
            self._submitted = True
            process.send(answer(call.id, None))

    def _complete(self, process: HarnessProcess, call: Call, params: Complete) -> None:
        try:
            sampling = exchange.sampling_for(self._bench.regime, params.sampling, self._cell.seed)
        except exchange.OverrideRefused as refused:
            process.send(error_answer(call.id, ErrorKind.BAD_PARAMS, str(refused)))
            return
        if self._refused(process, call, self._meter.admit_call()):
            return
        said = exchange.keep(self._conversations, params)
        request = exchange.request_for(params, said, sampling)
        tools = self._conversations.keep_tools(params.tools)
        index = self._recorder.reserve()

        def work() -> None:
            try:
                got = self._bench.model.complete_with_source(
                    request, head=said.conversation.head, sample=self._cell.seed
                )
            except exchange.TOLD as failure:
                self._recorder.add(exchange.failed_step(index, said, tools, failure))
                self._overflowed = True if failure.kind == "context_overflow" else self._overflowed
                process.send(failure_answer(call.id, failure))
                return
            self._overflowed = False
            self._cached += got.source.value == "cache"
            self._meter.charge(got.reply.duration, got.reply.usage)
            self._recorder.extend_requests(got.key)
            self._recorder.add(exchange.answered_step(index, said, tools, got))
            process.send(answer(call.id, complete_result(got.reply, said.handle)))

        self._overlap(process, work)

    def _overlap(self, process: HarnessProcess, work: Callable[[], None]) -> None:
        """Run `work` beside the conversation.  Its failure ends the episode."""

        def guarded() -> None:
            try:
                work()
            except BaseException as failure:
                self._failure = failure
                process.kill()

        future = self._calls.submit(guarded)
        with self._lock:
            self._outstanding.add(future)
        future.add_done_callback(self._settle)

    def _settle(self, future: Future[None]) -> None:
        with self._lock:
            self._outstanding.discard(future)

    def _act(self, process: HarnessProcess, session: Session, call: Call, params: Run | Read | Write) -> None:
        if self._refused(process, call, self._meter.admit_action()):
            return
        action = _action(params)
        index = self._recorder.reserve()
        acted = act(session, action, self._meter.remaining_time())
        self._meter.charge(acted.result.duration)
        chain = self._recorder.extend_chain(action.spec)
        self._recorder.add(step_of(index, action, acted, chain))
        if acted.fault is not None:
            fault = {"errno": acted.fault.errno, "path": action.spec["path"]}
            process.send(error_answer(call.id, ErrorKind.FILE_FAULT, acted.fault.message, **fault))
        elif isinstance(params, Run):
            process.send(answer(call.id, run_result(acted.result)))
        else:
            process.send(answer(call.id, read_result(acted.result.stdout) if isinstance(params, Read) else None))

    def _refused(self, process: HarnessProcess, call: Call, reason: Reason | None) -> bool:
        """End the episode when a budget is spent; the harness is told why."""
        if reason is None:
            return False
        self._over = reason
        process.send(error_answer(call.id, ErrorKind.EPISODE_OVER, f"{reason.value} reached", reason=reason.value))
        return True

    def _count(self, params: CountTokens) -> int:
        if params.text is not None:
            return self._bench.model.count_tokens([{"role": "user", "content": params.text}])
        assert params.messages is not None
        conversation = self._conversations.continued(params.messages.prefix, params.messages.append)
        return self._bench.model.count_tokens(conversation.messages)

    def _view(self, session: Session) -> TaskView:
        budgets = self._bench.regime.budgets
        return TaskView(
            instruction=self._cell.task.instruction,
            workdir=session.workdir,
            model=self._bench.model.endpoint().model,
            context_length=self._bench.regime.context_length,
            budgets=BudgetView(
                steps=budgets.steps,
                tokens=budgets.tokens,
                seconds=self._meter.time_limit,
                max_tokens=self._bench.regime.sampling.max_tokens,
            ),
        )

    def _finished(self, ending: Ending) -> Finished:
        recorder = self._recorder
        steps = recorder.steps()
        rollout = Rollout(
            id=self._cell.rollout,
            run=self._cell.run,
            task=self._cell.task.name,
            task_digest=self._cell.task.digest,
            seed=self._cell.seed,
            outcome=ending.outcome,
            reason=ending.reason,
            detail=ending.detail,
            reward=ending.grade.reward if ending.grade else None,
            rewards=ending.grade.rewards if ending.grade else {},
            llm_calls=self._meter.calls,
            llm_cached=self._cached,
            actions=self._meter.actions,
            first_try_valid=recorder.valid,
            first_try_total=recorder.noted,
            usage=self._meter.usage,
            recorded_time=round(self._meter.time, 6),
            chain_digest=recorder.chain if recorder.acted() else None,
            requests_digest=recorder.requests,
            attempt=self._cell.attempt,
            isolated=self._bench.isolated and self._bench.sandbox.capabilities().isolated,
        )
        trace = Trace(rollout=rollout.id, steps=steps, messages=self._conversations.kept, log=self._log)
        return Finished(rollout=rollout, trace=trace)


def _action(params: Run | Read | Write) -> Action:
    if isinstance(params, Run):
        return run_action(params.command, params.cwd, params.timeout, params.stdin)
    if isinstance(params, Read):
        return read_action(params.path)
    return write_action(params.path, params.content, params.mode)


def _close(opening: Future[Session]) -> None:
    """Close the session, if it ever opened."""
    if opening.cancelled():
        return
    try:
        session = opening.result()
    except SandboxFailure:
        return
    session.close()


def _json(data: object) -> str:
    import json

    return json.dumps(data, ensure_ascii=False)


def _first_line(text: str, limit: int = 300) -> str:
    return (text.strip().splitlines() or [""])[0][:limit]
