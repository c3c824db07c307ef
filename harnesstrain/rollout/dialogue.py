"""Answers one harness until it submits, ends, or has spent a budget.

Calls are read one by one.  Model calls overlap; environment actions are executed in order of arrival.  What fails in
a model call beside the conversation ends it: the failure is kept, the harness is stopped, and the reader raises it.
"""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from harnesstrain.core.errors import ContextOverflow, PolicyFailure
from harnesstrain.core.records.llm import Sampling
from harnesstrain.core.records.rollout import Reason, Source, Step, StepKind
from harnesstrain.harness.pipes import Silent
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
    says_nothing_else,
    take_ran,
)
from harnesstrain.harness.wire import CallRefused, ErrorKind, answer, error_answer, failure_answer
from harnesstrain.rollout import exchange
from harnesstrain.rollout.action import Action, cut_step, read_action, run_action, step_of, write_action
from harnesstrain.rollout.bench import Bench, Cell
from harnesstrain.rollout.budget import Meter
from harnesstrain.rollout.conversation import Conversations
from harnesstrain.rollout.place import Surroundings
from harnesstrain.rollout.recorder import Recorder

CALLS_AT_ONCE = 8
"""Model calls of one harness that may overlap."""
NOTE_LIMIT = 65_536
"""Characters of one note that are kept."""


class Dialogue:
    """One conversation with one harness, and everything that was exchanged in it."""

    def __init__(self, cell: Cell, bench: Bench, place: Surroundings, recorder: Recorder | None = None) -> None:
        """`recorder`: that of the dialogues before, where a task has several steps."""
        self._cell = cell
        self._bench = bench
        self._place = place
        self.meter = Meter(bench.regime.budgets, cell.task.timeout)
        self.recorder = recorder or Recorder()
        self.conversations = Conversations()
        self.submitted = False
        self.over: Reason | None = None
        """The budget that ended it."""
        self.overflowed = False
        """The last answered model call did not fit the context."""
        self.traced: str | None = None
        """The commit whose difference to the harness is being watched."""
        self._watched: frozenset[str] = frozenset()
        self._calls = ThreadPoolExecutor(max_workers=CALLS_AT_ONCE, thread_name_prefix="exchange")
        self._outstanding: set[Future[None]] = set()
        self._failure: BaseException | None = None
        self._waited = 0.0
        self._sampling: Sampling | None = None
        """What a call without overrides gets."""
        self._replays = False
        """The last reply came from the cache, so the next one probably does."""
        self._lock = threading.Lock()

    def hold(self, process: HarnessProcess) -> None:
        """Answer `process` until it submits, ends or has spent a budget.

        Raises PolicyFailure (the harness broke), LlmFailure or SandboxFailure (the infrastructure did).  When both
        happened the infrastructure is to blame: an episode that it broke is no measurement.
        """
        try:
            while not self.submitted and self.over is None:
                message = self._receive(process)
                self._raise_failure()
                if message is None:
                    return
                if "ran" in message:
                    self.recorder.ran([name for name in take_ran(message) if name in self._watched])
                if says_nothing_else(message):
                    continue
                try:
                    call = read_call(message)
                except CallRefused as refused:
                    process.send(refused.answer())
                    continue
                self._serve(process, call)
        except PolicyFailure:
            self._raise_failure()
            raise

    def close(self) -> None:
        """Wait for the model calls that were admitted: they count.  After a failure those not begun are dropped."""
        self._calls.shutdown(wait=True, cancel_futures=self._failure is not None)

    def _receive(self, process: HarnessProcess) -> dict[str, Any] | None:
        """The next message.  Time that passes while a model call is under way is not the harness's."""
        bench = self._bench
        if self._outstanding:
            return process.receive(bench.harness_idle + bench.model_deadline)
        left = max(0.0, bench.harness_time - self._waited)
        began = time.monotonic()
        try:
            return process.receive(min(bench.harness_idle, left))
        except Silent:
            if left > bench.harness_idle:
                raise
            message = f"the harness took more than {bench.harness_time:g} seconds for itself"
            raise PolicyFailure(message, hint="it loops, or is too slow") from None
        finally:
            self._waited += time.monotonic() - began

    def _serve(self, process: HarnessProcess, call: Call) -> None:
        params = call.params
        if isinstance(params, Complete):
            self._complete(process, call, params)
        elif isinstance(params, Run | Read | Write):
            self._act(process, call, params)
        elif isinstance(params, Initialize):
            changes = self._cell.changes if "trace" in params.capabilities else None
            if changes is not None:
                self.traced, self._watched = changes.base, changes.names()
            process.send(answer(call.id, initialize_result(self._view(), changes)))
        elif isinstance(params, CountTokens):
            process.send(answer(call.id, {"tokens": self._count(params)}))
        elif isinstance(params, Note):
            self._note(params)
            process.send(answer(call.id, None))
        elif isinstance(params, Submit):
            self.recorder.add(Step(index=self.recorder.reserve(), kind=StepKind.SUBMIT, note=params.message))
            self.submitted = True
            process.send(answer(call.id, None))

    def _complete(self, process: HarnessProcess, call: Call, params: Complete) -> None:
        try:
            sampling = self._sampling
            if sampling is None or params.sampling:
                sampling = exchange.sampling_for(self._bench.regime, params.sampling, self._cell.seed)
                self._sampling = self._sampling if params.sampling else sampling
        except exchange.OverrideRefused as refused:
            process.send(error_answer(call.id, ErrorKind.BAD_PARAMS, str(refused)))
            return
        if self._refused(process, call, self.meter.admit_call()):
            return
        said = exchange.keep(self.conversations, params)
        request = exchange.without_messages(params, sampling)
        whole = functools.partial(exchange.request_for, params, said, sampling)
        tools = self.conversations.keep_tools(params.tools)
        index = self.recorder.reserve()
        model, head, sample = self._bench.model, said.conversation.head, self._cell.seed

        def work() -> None:
            try:
                got = model.complete_with_source(
                    request, head=head, sample=sample, missed=self._place.prepare, whole=whole
                )
            except exchange.TOLD as failure:
                key = model.key(request, head=head, sample=sample)
                self.recorder.add(exchange.failed_step(index, said, tools, failure, key))
                self.overflowed = isinstance(failure, ContextOverflow)
                process.send(failure_answer(call.id, failure))
                return
            self.overflowed = False
            self._replays = got.source is Source.CACHE
            self.meter.charge(got.reply.duration, got.reply.usage)
            self.recorder.add_later(index, functools.partial(exchange.answered_step, index, said, tools, got))
            process.send(answer(call.id, complete_result(got.reply, said.handle)))

        self._overlap(process, work)

    def _overlap(self, process: HarnessProcess, work: Callable[[], None]) -> None:
        """Run `work` beside the conversation.  Its failure ends the conversation.

        What is expected to be a look-up is done at once: handing it to a thread costs more than it takes.
        """

        def guarded() -> None:
            try:
                work()
            except BaseException as failure:
                with self._lock:
                    self._failure = self._failure or failure
                process.kill()

        if self._replays and not self._outstanding:
            guarded()
            return
        future = self._calls.submit(guarded)
        with self._lock:
            self._outstanding.add(future)
        future.add_done_callback(self._settle)

    def _settle(self, future: Future[None]) -> None:
        with self._lock:
            self._outstanding.discard(future)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _act(self, process: HarnessProcess, call: Call, params: Run | Read | Write) -> None:
        if self._refused(process, call, self.meter.admit_action()):
            return
        action = _action(params)
        index = self.recorder.reserve()
        remaining = self.meter.remaining_time()
        done = self._place.act(index, action, remaining)
        chain = self.recorder.extend_chain(action.digest)
        entry = done.entry
        if entry is None:
            seconds = max(0.0, remaining)
            self.meter.charge(seconds)
            self.recorder.add(cut_step(index, action, seconds, done.source, chain))
            self._refused(process, call, Reason.TIME_LIMIT)
            return
        self.meter.charge(entry.result.duration)
        self.recorder.add(step_of(index, action, entry, done.source, chain))
        if entry.errno is not None:
            fault = {"errno": entry.errno, "path": action.spec["path"]}
            process.send(error_answer(call.id, ErrorKind.FILE_FAULT, entry.message or "", **fault))
        elif isinstance(params, Run):
            process.send(answer(call.id, run_result(entry.result)))
        else:
            process.send(answer(call.id, read_result(entry.result.stdout) if isinstance(params, Read) else None))

    def _refused(self, process: HarnessProcess, call: Call, reason: Reason | None) -> bool:
        """End the conversation when a budget is spent; the harness is told why."""
        if reason is None:
            return False
        self.over = reason
        process.send(error_answer(call.id, ErrorKind.EPISODE_OVER, f"{reason.value} reached", reason=reason.value))
        return True

    def _note(self, params: Note) -> None:
        self.recorder.note_validity(params.data.get("valid"))
        text = json.dumps(params.data, ensure_ascii=False)
        if len(text) > NOTE_LIMIT:
            text = json.dumps({"cut": len(text), "head": text[: NOTE_LIMIT // 2]}, ensure_ascii=False)
        self.recorder.add(Step(index=self.recorder.reserve(), kind=StepKind.NOTE, note=text))

    def _count(self, params: CountTokens) -> int:
        if params.text is not None:
            return self._bench.model.count_tokens([{"role": "user", "content": params.text}])
        assert params.messages is not None
        conversation = self.conversations.continued(params.messages.prefix, params.messages.append)
        return self._bench.model.count_tokens(lambda: conversation.messages, head=conversation.head)

    def _view(self) -> TaskView:
        regime = self._bench.regime
        return TaskView(
            instruction=self._cell.task.instruction,
            workdir=self._place.workdir(),
            model=self._bench.model.endpoint().model,
            context_length=regime.context_length,
            budgets=BudgetView(
                steps=regime.budgets.steps,
                tokens=regime.budgets.tokens,
                seconds=self.meter.time_limit,
                max_tokens=regime.sampling.max_tokens,
            ),
        )


def _action(params: Run | Read | Write) -> Action:
    if isinstance(params, Run):
        return run_action(params.command, params.cwd, params.timeout, params.stdin)
    if isinstance(params, Read):
        return read_action(params.path)
    return write_action(params.path, params.content, params.mode)
