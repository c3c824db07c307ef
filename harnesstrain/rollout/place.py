"""Where an episode happens.  Answers come from the caches while they have them; until then no sandbox exists.

The first action or grade that no cache holds needs the real environment, in the state after every action so far.
`Ground` brings it there.  From then on actions are executed, recorded, and served from the caches again where those
hold what comes next.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from harnesstrain.core.digests import digest
from harnesstrain.core.errors import InfraFailure
from harnesstrain.core.records.cache import GradeEntry, StepEntry
from harnesstrain.core.records.rollout import Source
from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.core.records.task import Task
from harnesstrain.rollout import grading
from harnesstrain.rollout.action import Acted, Action, asked
from harnesstrain.rollout.bench import Bench, Cell
from harnesstrain.rollout.chain import WORKDIR, Chain, current, cut_key, entry_of, start_key
from harnesstrain.rollout.changes import Recall, Shared
from harnesstrain.rollout.ground import Ground
from harnesstrain.rollout.staging import between as grade_between
from harnesstrain.rollout.staging import result_of, verify
from harnesstrain.sandbox.base import Session

T = TypeVar("T")

COMPARED = 50
"""One in so many rollouts that could start from a kept state executes everything again and compares."""


@dataclass(frozen=True)
class Done:
    """An action's answer."""

    entry: StepEntry | None
    """None: the action was cut, for the episode's time did not suffice."""
    source: Source


@dataclass(frozen=True)
class Graded:
    """What the verifier said."""

    entry: GradeEntry
    cached: bool

    @property
    def source(self) -> Source:
        """Where it came from."""
        return Source.CACHE if self.cached else Source.LIVE


class Surroundings(Protocol):
    """What a dialogue needs of the place it happens in."""

    def workdir(self) -> str:
        """Where commands start."""

    def act(self, step: int, action: Action, remaining: float) -> Done:
        """Answer one action.  `step`: index of its step; `remaining`: recorded seconds the episode has left."""

    def prepare(self) -> None:
        """The real environment will probably be needed."""


class Place:
    """The environment of one episode.  `act` and `grade` in turn; `prepare` from any thread."""

    def __init__(self, cell: Cell, bench: Bench) -> None:
        self._bench = bench
        self._task = cell.task
        environment = cell.task.environment
        self._chain = Chain(start_key(bench.regime.sandbox, bench.limits, environment))
        known = bool(environment.digest) and bench.sandbox.capabilities().isolated
        self._steps = bench.step_cache if known else None
        self._grades = bench.verify_cache if known and cell.task.verifier.digest else None
        keeps = self._steps is not None and bench.cache_write and not cell.thorough
        uses = "ignore" if cell.thorough else "compare" if compared(cell.rollout) else "start"
        self._ground = Ground(bench.sandbox, environment, bench.limits, self._chain, keeps=keeps, uses=uses)
        self._ground_lock = threading.Lock()
        self._gate = threading.Lock()
        self._opener: ThreadPoolExecutor | None = None
        self._opening: Future[None] | None = None
        self._workdir = self._recorded_workdir()
        self._over = False
        self.cached = 0
        """Actions served from the cache."""

    @property
    def executions(self) -> int:
        """Actions executed in the environment so far, repeated ones included."""
        return self._ground.executions

    @property
    def untouched(self) -> bool:
        """Whether no environment was ever opened."""
        return self._ground.opened == 0

    @property
    def known(self) -> bool:
        """Whether the environment was worked in before: then it may not be needed."""
        return self._workdir is not None

    def workdir(self) -> str:
        """Where commands start.  Raises SandboxFailure."""
        if self._workdir is None:
            with self._ready() as session:
                self._workdir = session.workdir
            if self._steps is not None and self._bench.cache_write:
                said = RunResult(exit_code=0, stdout=self._workdir.encode(errors="surrogateescape"))
                self._steps.put(self._chain.start, WORKDIR.model_copy(update={"result": said}))
        return self._workdir

    def act(self, step: int, action: Action, remaining: float) -> Done:
        """Answer one action.  `step`: index of its step; `remaining`: recorded seconds the episode has left.

        An action that takes longer than `remaining` is cut, whether its time is known from a record or spent now.
        One of the driver's own does not count among the cached.
        Raises Drifted, SandboxFailure.
        """
        key = self._chain.next(action)
        source = Source.CACHE

        def make() -> StepEntry | None:
            nonlocal source
            entry = self._recalled(key, action)
            if entry is None and not self._outlasts(key, action, remaining):
                entry, source = self._execute(step, key, action, remaining)
            return entry

        entry = self._once(key, self._steps is not None, make) if remaining > 0 else None
        if source is Source.CACHE:
            self.cached += action.doing is None
            if entry is None or cut(action, entry.result, remaining):
                return Done(None, source)
            self._chain.add(step, action, entry)
        elif entry is not None:
            with self._ground_lock:
                self._ground.keep()
        return Done(entry, source)

    def grade(self) -> Graded:
        """Grade the state after every action; a cut one has left no trace in it.

        Raises Drifted, SandboxFailure, VerifierFailure.
        """
        graded = self._grade(self._task)
        with self._gate:
            self._over = True
        return graded

    def grade_step(self, step: int, number: int, *, last: bool) -> Graded:
        """Grade step `number` of the task in the state after every action.  `step`: index of the step that records it.

        Unless it is the `last` that is graded, work goes on: in the very state, where grading happened in a fork, else
        in the one that grading left.  Raises as `grade`.
        """
        graded = self._grade(self._task.at(number), between=not last)
        if last:
            with self._gate:
                self._over = True
        elif self._bench.sandbox.capabilities().forks:
            if not graded.cached:
                self._ground.spoil()
        else:
            action = verify(self._bench.sandbox, self._task, number)
            link = self._chain.add(step, action, entry_of(action, Acted(result_of(graded.entry))))
            if not graded.cached:
                self._ground.advance(link)
        return graded

    def _grade(self, task: Task, *, between: bool = False) -> Graded:
        """`task`: with the verifier that grades; `between`: work goes on after it."""
        key = grading.grade_key(task.verifier, self._chain.key)
        cached = True

        def judge() -> GradeEntry:
            nonlocal cached
            cached = False
            return self._judge(task, recall, between=between)

        def recall(change: str, evaluate: Callable[[], GradeEntry]) -> GradeEntry:
            nonlocal cached

            def evaluated() -> GradeEntry:
                nonlocal cached
                cached = False
                return evaluate()

            cached = True
            return self._graded(digest({"change": change, "start": self._chain.start}), evaluated)

        entry = self._graded(key, judge)
        return Graded(entry, cached)

    def _graded(self, key: str, make: Callable[[], GradeEntry]) -> GradeEntry:
        """The grade of a key: from the cache, else made and kept there."""

        def found() -> GradeEntry:
            entry = self._grades.get(key) if self._grades is not None and self._bench.cache_read else None
            if entry is None:
                entry = make()
                if self._grades is not None and self._bench.cache_write:
                    self._grades.put(key, entry)
            return entry

        entry = self._once(key, self._grades is not None, found)
        assert entry is not None
        return entry

    def prepare(self) -> None:
        """The real environment will probably be needed: open it, in the state reached, in the background.

        Once it is open there is nothing to prepare: what is served from the cache after that may never be executed.
        """
        with self._gate:
            if self._over or self._opening is not None or self._ground.running:
                return
            self._opener = ThreadPoolExecutor(max_workers=1, thread_name_prefix="open")
            self._opening = self._opener.submit(self._reach)

    def close(self) -> None:
        """End the environment.  Raises what went wrong in the background, if it is a defect."""
        with self._gate:
            self._over = True
        self._ground.abandon()
        if self._opener is not None:
            self._opener.shutdown(wait=True)
        self._ground.close()
        failure = self._opening.exception() if self._opening is not None else None
        if failure is not None and not isinstance(failure, InfraFailure):
            raise failure

    def _once(self, key: str, caching: bool, make: Callable[[], T | None]) -> T | None:
        if not (caching and self._bench.cache_read):
            return make()
        return self._bench.flights.once(key, make).value

    @contextmanager
    def _ready(self) -> Iterator[Session]:
        """The real environment in the state reached, nobody else's meanwhile."""
        if self._opening is not None:
            self._opening.result()
        with self._ground_lock:
            yield self._ground.reach()

    def _reach(self) -> None:
        with self._ground_lock:
            self._ground.reach()

    def _recorded_workdir(self) -> str | None:
        entry = self._steps.get(self._chain.start) if self._steps is not None and self._bench.cache_read else None
        return None if entry is None else entry.result.stdout.decode(errors="surrogateescape")

    def _recalled(self, key: str, action: Action) -> StepEntry | None:
        entry = self._steps.get(key) if self._steps is not None and self._bench.cache_read else None
        return None if entry is None else current(action, entry)

    def _outlasts(self, key: str, action: Action, remaining: float) -> bool:
        """Whether it is on record that the action takes longer than `remaining` seconds."""
        if self._steps is None or not self._bench.cache_read or remaining >= asked(action):
            return False
        return self._steps.get(cut_key(key, remaining)) is not None

    def _execute(self, step: int, key: str, action: Action, remaining: float) -> tuple[StepEntry | None, Source]:
        """Execute a new action and record it; None when it was cut."""
        writes = self._steps if self._bench.cache_write else None
        with self._ready():
            acted = self._ground.execute(action, min(asked(action), remaining))
            entry = entry_of(action, acted)
            if not cut(action, acted.result, remaining):
                self._ground.advance(self._chain.add(step, action, entry))
                if writes is not None:
                    writes.put(key, entry)
                return entry, self._ground.source
            self._ground.spoil()
            if writes is not None and remaining < asked(action):
                writes.put(cut_key(key, remaining), entry)
            return None, self._ground.source

    def _judge(self, task: Task, recall: Recall, *, between: bool) -> GradeEntry:
        with self._ready() as session:
            shared = Shared(self._bench.limits, self._bench.starts, recall)
            if between:
                self._ground.secure()
                return grade_between(self._bench.sandbox, session, task, shared)
            try:
                return GradeEntry(grade=grading.grade(self._bench.sandbox, session, task, shared))
            except grading.Ungradable as broken:
                return GradeEntry(grade=None, ungradable=broken.message)


def cut(action: Action, result: RunResult, remaining: float) -> bool:
    """Whether an action of that result was too long for an episode with `remaining` seconds left."""
    return result.duration > remaining or (result.timed_out and remaining < asked(action))


def compared(rollout: str) -> bool:
    """Whether a rollout, by its id, is one of those that compare kept states with a full re-execution."""
    return int(digest({"compared": rollout})[:8], 16) % COMPARED == 0
