"""Executes the missing cells of a run and writes each result as it arrives.  The only writer of rollouts."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path

from harnesstrain.core.events import Bus
from harnesstrain.core.ports import StopSignal
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.harness import Manifest
from harnesstrain.core.records.rollout import Rollout
from harnesstrain.core.records.run import Run
from harnesstrain.core.records.task import Task
from harnesstrain.measure.executors.base import Executor
from harnesstrain.measure.plan import Plan, Wanted
from harnesstrain.rollout.bench import Bench, Cell, Finished
from harnesstrain.rollout.episode import attempt
from harnesstrain.store import Store


@dataclass(frozen=True)
class Subject:
    """The harness version being measured: its exported files and its manifest."""

    worktree: Path
    manifest: Manifest


class Driven(Record):
    """What one driving did."""

    executed: int
    """Attempts made now."""
    stopped: bool
    """A stop was asked for and cells remain."""
    tokens: int = 0
    """Prompt and completion tokens of the attempts made now, cached ones included."""


class Driver:
    """Drives one run.  Results are committed one by one, so a kill loses at most the rollouts in flight."""

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

    def drive(self, plan: Plan, executor: Executor, jobs: int) -> Driven:
        """Execute `plan.missing` on `executor`, at most `jobs` in flight; retry infrastructure outcomes.

        A framework defect inside a rollout starts nothing more, and propagates after what is in flight was committed.
        """
        queue = deque(plan.missing)
        flying: dict[Future[Finished], Wanted] = {}
        defect: BaseException | None = None
        executed = tokens = 0
        done = plan.done
        while queue or flying:
            while queue and defect is None and len(flying) < jobs and not self._enough(tokens):
                wanted = queue.popleft()
                self._bus.emit("rollout.started", task=wanted.task, seed=wanted.seed, attempt=wanted.attempt)
                flying[executor.submit(self._attempt, self._cell(wanted))] = wanted
            if not flying:
                break
            arrived, _ = wait(flying, return_when=FIRST_COMPLETED)
            for future in sorted(arrived, key=lambda item: self._order(flying[item])):
                wanted = flying.pop(future)
                failure = future.exception()
                if failure is not None:
                    defect = defect or failure
                    continue
                finished = future.result()
                self._store.commit_rollout(finished.rollout, finished.trace)
                executed += 1
                tokens += finished.rollout.usage.total
                again = self._again(wanted, finished.rollout)
                if again is not None:
                    queue.appendleft(again)
                else:
                    done += 1
                self._tell(finished.rollout, done, plan.cells, retried=again is not None)
        if defect is not None:
            raise defect
        return Driven(executed=executed, stopped=bool(queue), tokens=tokens)

    def _attempt(self, cell: Cell) -> Finished:
        return attempt(cell, self._bench)

    def _enough(self, tokens: int) -> bool:
        return self._stop.is_set() or (self._max_tokens is not None and tokens >= self._max_tokens)

    def _order(self, wanted: Wanted) -> tuple[int, str]:
        return (wanted.seed, wanted.task)

    def _again(self, wanted: Wanted, rollout: Rollout) -> Wanted | None:
        if rollout.outcome.scorable or wanted.attempt > self._retries or self._stop.is_set():
            return None
        return wanted.model_copy(update={"attempt": wanted.attempt + 1})

    def _cell(self, wanted: Wanted) -> Cell:
        return Cell(
            run=self._run.id,
            rollout=self._run.rollout_id(wanted.task, wanted.seed, wanted.attempt),
            task=self._tasks[wanted.task],
            seed=wanted.seed,
            attempt=wanted.attempt,
            worktree=self._subject.worktree,
            manifest=self._subject.manifest,
        )

    def _tell(self, rollout: Rollout, done: int, cells: int, *, retried: bool) -> None:
        self._bus.emit(
            "rollout.retried" if retried else "rollout.finished",
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
