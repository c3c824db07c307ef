"""Executes the missing cells of a run and writes each result as it arrives.  The only writer of rollouts."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harnesstrain.core.events import Bus
from harnesstrain.core.ports import StopSignal
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.harness import Changes, Manifest
from harnesstrain.core.records.rollout import Outcome, Rollout
from harnesstrain.core.records.run import Run
from harnesstrain.core.records.task import Task
from harnesstrain.measure.executors.base import Executor
from harnesstrain.measure.line import Line, Taken
from harnesstrain.measure.plan import Plan, Wanted
from harnesstrain.rollout.bench import Bench, Cell, Finished
from harnesstrain.rollout.episode import attempt
from harnesstrain.store import Store

COLLECTED = 20_000
"""New objects after which cycles among them are looked for, while rollouts run."""


@dataclass(frozen=True)
class Subject:
    """The harness version being measured: its exported files and its manifest."""

    worktree: Path
    manifest: Manifest
    changes: Changes | None = None
    """What it is to watch: its difference to the version before it."""


class Driven(Record):
    """What one driving did."""

    executed: int
    """Attempts made now."""
    stopped: bool
    """A stop was asked for and cells remain."""
    settled: bool = False
    """What was left could not change the verdict."""
    tokens: int = 0
    """Prompt and completion tokens of the attempts made now, cached ones included."""


@dataclass
class _Turn:
    """How far one driving is."""

    done: int
    settled: bool
    executed: int = 0
    tokens: int = 0
    defect: BaseException | None = None

    @property
    def goes_on(self) -> bool:
        return self.defect is None and not self.settled


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Rollouts make many objects that live until they are recorded, and hardly a cycle: look for cycles less often."""
    before = gc.get_threshold()
    if 0 < before[0] < COLLECTED:
        gc.set_threshold(COLLECTED, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Driver:
    """Drives one run.  Results are committed one by one, so a kill loses at most what had not been committed."""

    def __init__(
        self,
        store: Store,
        run: Run,
        tasks: Mapping[str, Task],
        subject: Subject,
        bench: Bench,
        *,
        bus: Bus,
        stop: StopSignal,
        retries: int,
        max_tokens: int | None = None,
    ) -> None:
        self._store = store
        self._run = run
        self._tasks = tasks
        self._subject = subject
        self._bench = bench
        self._bus = bus
        self._stop = stop
        self._retries = retries
        self._max_tokens = max_tokens

    def drive(self, plan: Plan, executor: Executor, jobs: int, *, decided: Callable[[], bool] | None = None) -> Driven:
        """Execute `plan.missing` on `executor`, at most `jobs` in flight; retry infrastructure outcomes.

        `decided` says whether what is recorded decides already.  With it, results are recorded in the order of the
        plan; once it is true nothing more is started, and what is still in flight is waited for and dropped.
        A framework defect inside a rollout starts nothing more, and propagates after what is in flight was committed.
        """
        with _seldom_collected():
            return self._drive(plan, executor, jobs, decided)

    def _drive(self, plan: Plan, executor: Executor, jobs: int, decided: Callable[[], bool] | None) -> Driven:
        queue = deque(plan.missing)
        line = Line()
        flying: dict[Future[Finished], Wanted] = {}
        turn = _Turn(done=plan.done, settled=decided is not None and decided())
        while queue or flying:
            while queue and turn.goes_on and len(flying) < jobs and not self._enough(turn.tokens):
                wanted = queue.popleft()
                self._bus.emit(
                    "rollout.started",
                    run=self._run.id,
                    task=wanted.task,
                    seed=wanted.seed,
                    attempt=wanted.attempt,
                )
                line.start(wanted)
                flying[executor.submit(self._attempt, self._cell(wanted))] = wanted
            if not flying:
                break
            arrived, _ = wait(flying, return_when=FIRST_COMPLETED)
            for future in sorted(arrived, key=lambda item: self._order(flying[item])):
                wanted = flying.pop(future)
                failure = future.exception()
                if failure is not None:
                    turn.defect = turn.defect or failure
                    continue
                finished = future.result()
                turn.tokens += finished.rollout.usage.total
                if decided is None:
                    self._record(Taken(wanted=wanted, finished=finished), queue, turn, plan.cells)
                else:
                    line.arrive(wanted, finished)
            while decided is not None and not turn.settled and (taken := line.take()) is not None:
                if not self._record(taken, queue, turn, plan.cells):
                    line.leave()
                    turn.settled = decided()
        for taken in [] if turn.settled else line.rest():
            self._record(taken, queue, turn, plan.cells)
        if turn.defect is not None:
            raise turn.defect
        stopped = bool(queue) and not turn.settled
        return Driven(executed=turn.executed, stopped=stopped, settled=turn.settled, tokens=turn.tokens)

    def _record(self, taken: Taken, queue: deque[Wanted], turn: _Turn, cells: int) -> bool:
        """Commit a result.  Whether its cell is tried again: it is then first in the queue."""
        self._store.commit_rollout(taken.finished.rollout, taken.finished.trace)
        turn.executed += 1
        again = self._again(taken.wanted, taken.finished.rollout)
        if again is not None:
            queue.appendleft(again)
        else:
            turn.done += 1
        self._tell(taken.finished.rollout, turn.done, cells, retried=again is not None)
        return again is not None

    def _attempt(self, cell: Cell) -> Finished:
        return attempt(cell, self._bench)

    def _enough(self, tokens: int) -> bool:
        return self._stop.is_set() or (self._max_tokens is not None and tokens >= self._max_tokens)

    def _order(self, wanted: Wanted) -> tuple[int, str]:
        return (wanted.seed, wanted.task)

    def _again(self, wanted: Wanted, rollout: Rollout) -> Wanted | None:
        """The next attempt at an unscorable cell.  After a drift it starts from no kept state; a second one stands."""
        forked = rollout.outcome is Outcome.FORKED
        spent = wanted.thorough if forked else wanted.attempt - wanted.thorough > self._retries
        if rollout.outcome.scorable or spent or self._stop.is_set():
            return None
        return wanted.model_copy(update={"attempt": wanted.attempt + 1, "thorough": wanted.thorough or forked})

    def _cell(self, wanted: Wanted) -> Cell:
        return Cell(
            run=self._run.id,
            rollout=self._run.rollout_id(wanted.task, wanted.seed, wanted.attempt),
            task=self._tasks[wanted.task],
            seed=wanted.seed,
            attempt=wanted.attempt,
            worktree=self._subject.worktree,
            manifest=self._subject.manifest,
            changes=self._subject.changes,
            thorough=wanted.thorough,
        )

    def _tell(self, rollout: Rollout, done: int, cells: int, *, retried: bool) -> None:
        self._bus.emit(
            "rollout.retried" if retried else "rollout.finished",
            run=rollout.run,
            task=rollout.task,
            seed=rollout.seed,
            outcome=rollout.outcome.value,
            reason=rollout.reason,
            detail=rollout.detail,
            solved=rollout.solved,
            calls=rollout.llm_calls,
            cached=rollout.llm_cached,
            tokens=rollout.usage.total,
            done=done,
            cells=cells,
        )
