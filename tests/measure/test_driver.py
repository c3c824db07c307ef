"""The driver: commits what arrives, retries what the infrastructure failed, and never swallows a defect."""

from __future__ import annotations

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
from harnesstrain.measure.driver import Driven, Driver, Subject
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
        self, names: str, play: Play, *, jobs: int = 1, retries: int = 1, max_tokens: int | None = None
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
            return driver.drive(todo, executor, jobs)
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
