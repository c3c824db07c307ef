"""The driver: commits what arrives, retries what the infrastructure failed, and never swallows a defect."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from harnesstrain.core.events import Bus, Event
from harnesstrain.core.records.harness import Manifest
from harnesstrain.core.records.rollout import Outcome, Rollout, Trace
from harnesstrain.core.records.run import Run
from harnesstrain.core.records.task import Environment, Task, Verifier
from harnesstrain.measure.driver import COLLECTED, Driven, Driver, Subject
from harnesstrain.measure.executors.local import LocalExecutor
from harnesstrain.measure.plan import plan
from harnesstrain.rollout.bench import Bench, Cell, Finished
from harnesstrain.store import Store

Play = Callable[[Cell], Outcome]
RUN = Run(id="a" * 64, commit="b" * 40, panel="c" * 64, panel_name="p", regime="d" * 64, seeds=(1,))


class Bench_(Bench):
    """Nothing in it is used: the episodes are played by the tests."""

    def __init__(self) -> None:
        pass


class Seen:
    """Remembers events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on(self, event: Event) -> None:
        self.events.append(event)


class Rig:
    """A driver over episodes that tests play."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = Store.open(tmp_path / "store", create=True)
        self.store.put_run(RUN)
        self.seen = Seen()
        self.stop = threading.Event()
        self._patch = monkeypatch
        self._place = tmp_path

    def drive(
        self,
        names: str,
        play: Play,
        *,
        jobs: int = 1,
        retries: int = 1,
        max_tokens: int | None = None,
        decided: Callable[[], bool] | None = None,
    ) -> Driven:
        """Drive the cells of tasks named by single letters."""

        def attempt(cell: Cell, bench: Bench) -> Finished:
            outcome = play(cell)
            usage = {"prompt": 10}
            rollout = Rollout(
                id=cell.rollout,
                run=cell.run,
                task=cell.task.name,
                task_digest=cell.task.digest,
                seed=cell.seed,
                attempt=cell.attempt,
                outcome=outcome,
                usage=usage,  # type: ignore[arg-type]
            )
            return Finished(rollout=rollout, trace=Trace(rollout=cell.rollout, steps=(), messages={}))

        self._patch.setattr("harnesstrain.measure.driver.attempt", attempt)
        tests = self._place
        tasks = {
            name: Task(
                name=name, digest=name * 64, instruction="", environment=Environment(), verifier=Verifier(tests=tests)
            )
            for name in names
        }
        manifest = Manifest(name="t", command=("true",), surface=("x",))
        driver = Driver(
            self.store,
            RUN,
            tasks,
            Subject(worktree=tests, manifest=manifest),
            Bench_(),
            bus=Bus(self.seen),
            stop=self.stop,
            retries=retries,
            max_tokens=max_tokens,
        )
        executor = LocalExecutor(jobs)
        try:
            todo = plan(list(names), RUN.seeds, self.store.rollouts(RUN.id), retries=retries)
            return driver.drive(todo, executor, jobs, decided=decided)
        finally:
            executor.close()

    def committed(self) -> list[tuple[str, int, Outcome]]:
        """Task, attempt and outcome of every committed rollout."""
        return [(one.task, one.attempt, one.outcome) for one in self.store.rollouts(RUN.id)]


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    made = Rig(tmp_path, monkeypatch)
    yield made  # type: ignore[misc]
    made.store.close()


def solved(cell: Cell) -> Outcome:
    return Outcome.SOLVED


def test_cells_run_in_order_and_are_committed_one_by_one(rig: Rig) -> None:
    counts: list[int] = []

    def play(cell: Cell) -> Outcome:
        counts.append(len(rig.committed()))
        return Outcome.SOLVED

    rig.drive("abc", play)
    assert counts == [0, 1, 2]
    assert [task for task, _, _ in rig.committed()] == ["a", "b", "c"]
    done = [event.data["done"] for event in rig.seen.events if event.kind == "rollout.finished"]
    assert done == [1, 2, 3]


def test_no_more_than_the_jobs_run_at_once(rig: Rig) -> None:
    running, most = [0], [0]
    lock = threading.Lock()
    barrier = threading.Barrier(2, timeout=30)

    def play(cell: Cell) -> Outcome:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        barrier.wait()  # two are needed: they do run at once
        with lock:
            running[0] -= 1
        return Outcome.SOLVED

    rig.drive("abcdef", play, jobs=2)
    assert most == [2]


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_infrastructure_outcomes_are_tried_again(rig: Rig, retries: int) -> None:
    rig.drive("ab", lambda cell: Outcome.INFRA_LLM if cell.task.name == "a" else Outcome.SOLVED, retries=retries)
    tries = [("a", attempt, Outcome.INFRA_LLM) for attempt in range(1, retries + 2)]
    assert rig.committed() == [*tries, ("b", 1, Outcome.SOLVED)]
    assert sum(event.kind == "rollout.retried" for event in rig.seen.events) == retries


@pytest.mark.parametrize("retries", [0, 2])
def test_a_drift_is_tried_once_more_without_kept_states(rig: Rig, retries: int) -> None:
    thorough: list[bool] = []

    def play(cell: Cell) -> Outcome:
        thorough.append(cell.thorough)
        return Outcome.FORKED if cell.task.name == "a" else Outcome.SOLVED

    rig.drive("ab", play, retries=retries)
    assert thorough == [False, True, False]
    assert rig.committed() == [*(("a", n, Outcome.FORKED) for n in (1, 2)), ("b", 1, Outcome.SOLVED)]
    rig.drive("ab", play, retries=retries)  # the second drift stands
    assert len(rig.committed()) == 3


def test_a_drift_that_does_not_come_back_is_no_drift(rig: Rig) -> None:
    rig.drive("a", lambda cell: Outcome.SOLVED if cell.thorough else Outcome.FORKED, retries=0)
    assert rig.committed() == [("a", 1, Outcome.FORKED), ("a", 2, Outcome.SOLVED)]


def test_an_outcome_of_the_harness_is_never_tried_again(rig: Rig) -> None:
    rig.drive("a", lambda cell: Outcome.POLICY_CRASH, retries=5)
    assert rig.committed() == [("a", 1, Outcome.POLICY_CRASH)]


def test_a_later_success_counts(rig: Rig) -> None:
    rig.drive("a", lambda cell: Outcome.SOLVED if cell.attempt == 2 else Outcome.INFRA_SANDBOX)
    assert rig.committed()[-1] == ("a", 2, Outcome.SOLVED)


def test_a_stop_drains(rig: Rig) -> None:
    def play(cell: Cell) -> Outcome:
        rig.stop.set()
        return Outcome.INFRA_LLM

    driven = rig.drive("abc", play)
    assert (driven.executed, driven.stopped) == (1, True)
    assert rig.committed() == [("a", 1, Outcome.INFRA_LLM)]  # not tried again either: the next run does that


def test_a_token_budget_starts_nothing_more(rig: Rig) -> None:
    driven = rig.drive("abcd", solved, max_tokens=15)
    assert (driven.executed, driven.tokens, driven.stopped) == (2, 20, True)


def test_a_defect_propagates_after_what_flies_was_committed(rig: Rig) -> None:
    broken = threading.Event()

    def play(cell: Cell) -> Outcome:
        if cell.task.name == "a":
            broken.set()
            raise ZeroDivisionError("a defect")
        broken.wait(30)
        return Outcome.SOLVED

    with pytest.raises(ZeroDivisionError):
        rig.drive("abcd", play, jobs=2)
    assert rig.committed() == [("b", 1, Outcome.SOLVED)]


def test_what_was_done_is_not_done_again(rig: Rig) -> None:
    rig.drive("ab", solved)
    rig.drive("abc", solved)
    assert [task for task, _, _ in rig.committed()] == ["a", "b", "c"]


def after(rig: Rig, count: int) -> Callable[[], bool]:
    """Decided by the first `count` cells that are done."""
    return lambda: sum(outcome.scorable for _, _, outcome in rig.committed()) >= count


def test_once_it_is_decided_nothing_more_is_started(rig: Rig) -> None:
    played: list[str] = []

    def play(cell: Cell) -> Outcome:
        played.append(cell.task.name)
        return Outcome.SOLVED

    driven = rig.drive("abcd", play, decided=after(rig, 2))
    assert (driven.executed, driven.settled, driven.stopped) == (2, True, False)
    assert played == ["a", "b"]
    again = rig.drive("abcd", play, decided=after(rig, 2))
    assert (again.executed, again.settled, played) == (0, True, ["a", "b"])
    rest = rig.drive("abcd", play)
    assert (rest.executed, rest.settled) == (2, False)


def test_what_is_recorded_does_not_depend_on_who_is_quicker(rig: Rig) -> None:
    """The third is done long before the first; the second decides."""
    third = threading.Event()
    counts: list[int] = []

    def play(cell: Cell) -> Outcome:
        if cell.task.name == "c":
            third.set()
        elif cell.task.name == "a":
            third.wait(30)
            counts.append(len(rig.committed()))
        return Outcome.SOLVED

    driven = rig.drive("abcdefg", play, jobs=3, decided=after(rig, 2))
    assert counts == [0]  # nothing was recorded out of order
    assert [task for task, _, _ in rig.committed()] == ["a", "b"]
    assert (driven.executed, driven.settled) == (2, True)
    assert driven.tokens >= 30  # what was dropped was spent nevertheless


def test_a_cell_that_is_tried_again_keeps_its_place(rig: Rig) -> None:
    def play(cell: Cell) -> Outcome:
        return Outcome.INFRA_LLM if (cell.task.name, cell.attempt) == ("a", 1) else Outcome.SOLVED

    driven = rig.drive("abcd", play, jobs=3, decided=after(rig, 2))
    assert rig.committed() == [
        ("a", 1, Outcome.INFRA_LLM),
        ("a", 2, Outcome.SOLVED),
        ("b", 1, Outcome.SOLVED),
    ]
    assert driven.settled


def test_a_stop_or_a_defect_keeps_what_is_behind_it(rig: Rig) -> None:
    started = threading.Event()

    def stopping(cell: Cell) -> Outcome:
        if cell.task.name == "a":
            started.wait(30)
            rig.stop.set()
            return Outcome.INFRA_LLM
        started.set()
        rig.stop.wait(30)
        return Outcome.SOLVED

    driven = rig.drive("abcd", stopping, jobs=2, decided=lambda: False)
    assert driven.stopped
    assert [task for task, _, _ in rig.committed()] == ["a", "b"]
    rig.stop.clear()
    broken = threading.Event()

    def breaking(cell: Cell) -> Outcome:
        if cell.attempt == 2:
            broken.set()
            raise ZeroDivisionError("a defect")
        broken.wait(30)
        return Outcome.SOLVED

    before = len(rig.committed())
    with pytest.raises(ZeroDivisionError):
        rig.drive("abcd", breaking, jobs=2, decided=lambda: False)
    assert len(rig.committed()) == before + 1


def test_an_executor_drops_what_has_not_started() -> None:
    executor = LocalExecutor(1)
    gate = threading.Event()
    first: Future[Finished] = executor.submit(lambda cell: gate.wait(30), None)  # type: ignore[arg-type, return-value]
    second = executor.submit(lambda cell: None, None)  # type: ignore[arg-type, return-value]
    closing = threading.Thread(target=executor.close)
    closing.start()
    gate.set()
    closing.join(30)
    assert first.done()
    assert second.done()


@pytest.mark.parametrize("before", [(700, 10, 10), (50_000, 5, 5), (0, 10, 10)])
def test_the_collector_is_as_it_was(rig: Rig, before: tuple[int, int, int]) -> None:
    during: list[tuple[int, int, int]] = []

    def play(cell: Cell) -> Outcome:
        during.append(gc.get_threshold())
        if cell.task.name == "b":
            raise ZeroDivisionError
        return Outcome.SOLVED

    usual = gc.get_threshold()
    gc.set_threshold(*before)
    try:
        with pytest.raises(ZeroDivisionError):
            rig.drive("ab", play)
        assert gc.get_threshold() == before
    finally:
        gc.set_threshold(*usual)
    first = before[0] if before[0] in (0, 50_000) else COLLECTED
    assert during == [(first, *before[1:])] * 2
