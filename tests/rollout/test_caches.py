"""Whole rollouts from cold, warm and half-warm caches: what they decide and record is the same."""

from __future__ import annotations

import random
import sqlite3
import threading
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.errors import SandboxFailure
from harnesstrain.core.records.rollout import Outcome, Source, StepKind
from harnesstrain.core.records.run import Budgets
from harnesstrain.core.records.task import Environment, Task
from harnesstrain.rollout.bench import Bench, Cell, Finished
from harnesstrain.rollout.episode import attempt
from harnesstrain.sandbox.base import Sandbox
from harnesstrain.store import Store
from tests.rollout.making import Workbench
from tests.rollout.walking import Kept

pytestmark = pytest.mark.local

TALK = """
messages = [{"role": "user", "content": "begin"}]
while True:
    reply = ep.complete(messages)
    messages += [reply.message(), {"role": "user", "content": ep.run(reply.content).stdout}]
    if reply.content == "touch done":
        ep.submit()
        break
"""
"""Runs what the model says until it says the last thing."""


def rules(*commands: str) -> list[dict[str, Any]]:
    """Replies that say they took four seconds each, and took none."""
    return [{"turn": turn, "reply": command, "duration": 4.0} for turn, command in enumerate(commands)]


class Caches:
    """The three caches, and a task of its own."""

    def __init__(self, workbench: Workbench) -> None:
        self.llm, self.steps, self.grades = Kept(), Kept(), Kept()
        self.workbench = workbench
        self.task: Task = workbench.task(environment=Environment(workdir="/app", digest=uuid.uuid4().hex * 2))

    def bench(self, script: list[dict[str, Any]], **more: Any) -> Bench:
        caches: dict[str, Any] = {"cache": self.llm, "step_cache": self.steps, "verify_cache": self.grades}
        return self.workbench.bench(script, **{**caches, **more})

    def solve(self, script: list[dict[str, Any]], body: str = TALK, seed: int = 1, **more: Any) -> Finished:
        return self.workbench.solve(body, self.bench(script, **more), self.task, seed=seed)

    def halve(self, seed: int) -> None:
        """Remove a random half of every cache."""
        dice = random.Random(seed)
        for cache in (self.llm, self.steps, self.grades):
            for key in list(cache):
                if dice.random() < 0.5:
                    del cache[key]


@pytest.fixture
def caches(workbench: Workbench) -> Caches:
    return Caches(workbench)


def facts(finished: Finished) -> dict[str, Any]:
    """What must not depend on caches."""
    rollout = finished.rollout
    steps = [(s.index, s.kind, s.action, s.stdout, s.error is None, s.timed_out) for s in finished.trace.steps]
    return {"measurement": rollout.measurement, "outcome": rollout.outcome, "reason": rollout.reason, "steps": steps}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("seconds", "commands", "outcome"),
    [
        (60.0, ("echo one > f", "cat f; echo $RANDOM > g", "touch done"), Outcome.SOLVED),
        (11.5, ("echo one > f", "cat f", "touch done"), Outcome.NO_SUBMIT),  # the last call passes the limit
        (8.5, ("echo one > f", "cat f; sleep 20", "touch done"), Outcome.NO_SUBMIT),  # the second command does
        (3.0, ("echo one > f", "touch done"), Outcome.NO_SUBMIT),
    ],
    ids=["enough", "call", "command", "nothing"],
)
def test_the_same_cell_four_times_under_a_tight_budget(
    caches: Caches, seed: int, seconds: float, commands: tuple[str, ...], outcome: Outcome
) -> None:
    script, budgets = rules(*commands), Budgets(time=seconds)
    cold = caches.solve(script, budgets=budgets)
    assert cold.rollout.outcome is outcome
    assert not cold.rollout.from_caches
    warm = caches.solve(script, budgets=budgets)
    assert warm.rollout.from_caches
    assert warm.rollout.recorded_time == cold.rollout.recorded_time
    caches.halve(seed)
    half = caches.solve(script, budgets=budgets)
    last = caches.solve(script, budgets=budgets)
    assert last.rollout.from_caches
    assert facts(cold) == facts(warm) == facts(half) == facts(last)


@pytest.mark.parametrize("grading", ["submitted", "final_state"])
def test_an_action_that_the_time_does_not_suffice_for(caches: Caches, grading: str) -> None:
    script = rules("echo one > f", "touch done; sleep 20")
    more = {"budgets": Budgets(time=8.5), "grading": grading}
    cold = caches.solve(script, **more)
    step = cold.trace.steps[-1]
    assert (cold.rollout.outcome, cold.rollout.reason) == (Outcome.NO_SUBMIT, "time_limit")
    assert (step.kind, step.timed_out, step.exit_code, step.stdout) == (StepKind.RUN, True, None, None)
    assert cold.rollout.recorded_time == 8.5
    assert cold.rollout.actions == 2
    assert cold.rollout.reward == (0.0 if grading == "final_state" else None)
    warm = caches.solve(script, **more)
    assert warm.rollout.from_caches
    assert facts(warm) == facts(cold)
    assert warm.trace.steps[-1].source is Source.CACHE
    longer = caches.solve(script, budgets=Budgets(time=60.0))  # another budget, the same caches
    assert longer.trace.steps[-1].source is Source.LIVE
    again = caches.solve(script, **more)
    assert facts(again) == facts(cold)
    assert again.rollout.executions == 0


def test_a_warm_rollout_starts_no_sandbox_and_no_thread(caches: Caches, monkeypatch: pytest.MonkeyPatch) -> None:
    script = rules("echo one > f", "cat f", "touch done")
    cold = caches.solve(script)
    assert cold.rollout.outcome is Outcome.SOLVED
    assert (cold.rollout.actions_cached, cold.rollout.executions, cold.rollout.grade_cached) == (0, 3, False)

    def refuse(*args: object, **kwargs: object) -> None:
        raise SandboxFailure("no environment may be opened here")

    started: list[str] = []
    start = threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        started.append(thread.name)
        start(thread)

    monkeypatch.setattr(caches.workbench.sandbox, "open", refuse)
    monkeypatch.setattr(threading.Thread, "start", noted)
    warm = caches.solve(script)
    assert facts(warm) == facts(cold)
    assert (warm.rollout.actions_cached, warm.rollout.executions, warm.rollout.grade_cached) == (3, 0, True)
    assert warm.rollout.from_caches
    assert not [name for name in started if name.startswith("open")]
    assert {s.source for s in warm.trace.steps if s.kind is StepKind.RUN} == {Source.CACHE}
    cold_steps = [(s.scrubbed_digest, s.raw_digest, s.duration) for s in cold.trace.steps]
    assert [(s.scrubbed_digest, s.raw_digest, s.duration) for s in warm.trace.steps] == cold_steps


def test_a_second_seed_runs_only_what_differs(caches: Caches) -> None:
    caches.solve(rules("echo one > f", "cat f", "touch done"))
    other = caches.solve(rules("echo one > f", "wc -c f", "touch done"), seed=2).rollout
    assert (other.outcome, other.actions_cached, other.executions) == (Outcome.SOLVED, 1, 3)


def test_while_the_model_thinks_the_environment_is_brought_to_its_state(
    caches: Caches, monkeypatch: pytest.MonkeyPatch
) -> None:
    caches.solve(rules("echo one > f", "touch done"))
    opened = threading.Event()
    start = caches.workbench.sandbox.open

    def noted(*args: Any, **kwargs: Any) -> Any:
        opened.set()
        return start(*args, **kwargs)

    monkeypatch.setattr(caches.workbench.sandbox, "open", noted)
    thought: list[bool] = []
    bench = caches.bench([{"turn": 0, "reply": "echo one > f", "duration": 4.0}, *rules("-", "touch  done")[1:]])
    complete = bench.model._model.complete

    def slowly(request: Any) -> Any:
        thought.append(opened.wait(20))
        return complete(request)

    monkeypatch.setattr(bench.model._model, "complete", slowly)
    body = TALK.replace('"touch done"', '"touch  done"')
    rollout = caches.workbench.solve(body, bench, caches.task).rollout
    assert thought[0] is True
    assert (rollout.outcome, rollout.executions) == (Outcome.SOLVED, 2)


def test_what_does_not_repeat_forks_with_its_evidence(caches: Caches) -> None:
    noise = "head -c 9 /dev/urandom | od -An -tx1"
    caches.solve([], f"ep.run('true')\nep.run({noise!r})\nep.run('echo a')")
    body = f"ep.run('true')\nep.run({noise!r})\nep.run('echo b')\nep.submit()"
    rollout = caches.solve([], body).rollout
    assert (rollout.outcome, rollout.reason, rollout.reward) == (Outcome.FORKED, None, None)
    assert rollout.detail == f"step 1 did not repeat: {noise}"
    assert rollout.drift is not None
    assert (rollout.drift.step, rollout.drift.command) == (1, noise)
    assert rollout.drift.recorded != rollout.drift.observed
    assert not rollout.outcome.scorable
    cell = caches.workbench.cell("", caches.task)
    thorough = Cell(**{**vars(cell), "thorough": True})
    (cell.worktree / "main.py").write_text(
        "from ht_sdk import *\ndef solve(ep):\n"
        + "".join(f"    {line}\n" for line in body.splitlines())
        + "serve(solve)\n"
    )
    assert attempt(thorough, caches.bench([])).rollout.outcome is Outcome.FORKED  # a second drift stands


def test_a_sandbox_that_does_not_isolate_is_never_remembered(plain: Workbench) -> None:
    """Its temporary directory is in what commands print."""
    caches = Caches(plain)
    for _ in range(2):
        rollout = caches.solve([], "ep.run('pwd; touch done')\nep.submit()").rollout
        assert (rollout.outcome, rollout.executions) == (Outcome.SOLVED, 1)
    assert not caches.steps
    assert not caches.grades


def test_a_cache_in_a_real_store(caches: Caches, tmp_path: Path) -> None:
    script = rules("printf '\\xff\\x00' > f; cat f", "touch done")
    with Store.open(tmp_path / "store", create=True) as store:
        more = {"cache": store.llm_cache(), "step_cache": store.step_cache(), "verify_cache": store.verify_cache()}
        cold = caches.solve(script, **more)
        warm = caches.solve(script, **more)
    with Store.open(tmp_path / "store") as store:
        more = {"cache": store.llm_cache(), "step_cache": store.step_cache(), "verify_cache": store.verify_cache()}
        later = caches.solve(script, **more)
    assert cold.rollout.outcome is Outcome.SOLVED
    assert warm.rollout.from_caches
    assert later.rollout.from_caches
    assert facts(cold) == facts(warm) == facts(later)
    assert cold.trace.steps[1].stdout == b"\xff\0"


def test_a_damaged_entry_is_a_miss(caches: Caches, tmp_path: Path) -> None:
    script = rules("echo one > f; echo said", "cat f", "touch done")

    def solved(store: Store) -> Finished:
        more = {"cache": store.llm_cache(), "step_cache": store.step_cache(), "verify_cache": store.verify_cache()}
        return caches.solve(script, **more)

    with Store.open(tmp_path / "store", create=True) as store:
        cold = solved(store)
    with closing(sqlite3.connect(store.places.cache)) as connection, connection:
        for table in ("step", "verify"):
            connection.execute(f"UPDATE {table} SET value = CAST(value || x'00' AS BLOB) WHERE seq % 2 = 0")
            connection.execute(f"UPDATE {table} SET value = x'2a' WHERE seq % 2 = 1")
    with Store.open(tmp_path / "store") as store:
        again = solved(store)
        broken = {one.name: one.broken for one in store.cache_stats()}
    assert facts(again) == facts(cold)
    assert again.rollout.llm_cached == 3
    assert (again.rollout.actions_cached, again.rollout.executions, again.rollout.grade_cached) == (0, 3, False)
    assert broken["step"] == 4  # the working directory, too
    assert broken["verify"] == 1


def test_a_rollout_is_not_served_by_another_sandbox(caches: Caches, local: Sandbox) -> None:
    caches.solve([], "ep.run('echo a')")
    regime = caches.bench([]).regime
    other = regime.sandbox.model_copy(update={"pins": "other"})
    bench = caches.bench([])
    changed = Bench(**{**vars(bench), "regime": regime.model_copy(update={"sandbox": other})})
    assert caches.workbench.solve("ep.run('echo a')", changed, caches.task).rollout.executions == 1
    assert caches.workbench.solve("ep.run('echo a')", bench, caches.task).rollout.executions == 0
