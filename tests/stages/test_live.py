"""What is going on, read from a real store, look by look."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from harnesstrain.core.events import Bus
from harnesstrain.core.records.flight import Flight, UnderWay, told
from harnesstrain.core.records.rollout import Outcome
from harnesstrain.core.records.verdict import Epoch, Memo
from harnesstrain.stages.evaluate.telling import telling
from harnesstrain.stages.report.live import KINDS, Watch
from harnesstrain.stages.report.moment import Live, RunNow
from harnesstrain.stages.report.pace import Eta, Pace, eta
from harnesstrain.store import Store
from tests.store.making import COMMIT, a_candidate, a_rollout, a_run, a_verdict, recorded


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    with Store.open(tmp_path / ".ht", create=True) as opened:
        yield opened


@contextmanager
def looking(store: Store) -> Iterator[Watch]:
    """Somebody who looks on, in a connection of their own."""
    with Store.open(store.places.folder) as other:
        yield Watch(other.feed(KINDS), other)


def states(run: RunNow) -> list[str]:
    return [cell.state for cell in run.cells]


def only(live: Live) -> RunNow:
    (run,) = live.runs
    return run


def test_nothing_was_recorded(store: Store) -> None:
    with looking(store) as watch:
        live = watch.look()
    assert (live.state, live.epoch, live.runs, live.at_work, live.unfinished) == ("nothing", None, (), False, False)


def test_a_run_from_its_first_cell_to_its_last(store: Store) -> None:
    run = recorded(store)
    with looking(store) as watch:
        assert (watch.look().state, only(watch.look()).state) == ("idle", "incomplete")
        with store.lease(f"run {run.id[:16]}") as lease:
            now = watch.look()
            assert (now.state, states(only(now)), only(now).eta) == ("measuring", ["waiting"] * 6, None)
            flights = (Flight(task="task-0", seed=1, since=0.0), Flight(task="task-1", seed=1, since=0.0))
            lease.tell(UnderWay(flights=flights).model_dump_json())
            assert states(only(watch.look())) == ["running", "running", *["waiting"] * 4]
            store.commit_rollout(a_rollout(run, "task-0"), None)
            store.commit_rollout(a_rollout(run, "task-1", outcome=Outcome.INFRA_LLM), None)
            now = watch.look()
            assert states(only(now)) == ["solved", "infra_llm", *["waiting"] * 4]
            assert (only(now).done, only(now).solved, only(now).unmeasurable, only(now).tokens) == (2, 1, 1, 220)
            assert only(now).eta is not None
            lease.tell(UnderWay(flights=(Flight(task="task-1", seed=1, attempt=2, since=0.0),)).model_dump_json())
            assert only(watch.look()).cells[1].state == "running"
            store.commit_rollout(a_rollout(run, "task-1", attempt=2), None)
            assert only(watch.look()).cells[1].state == "solved"
        store.put_run(run.model_copy(update={"early_stop_against": a_run("other").id}))
        store.complete_run(run.id)
        now = watch.look()
    assert (now.state, only(now).state, now.unfinished) == ("idle", "complete", False)
    assert states(only(now)) == ["solved", "solved", *["not needed"] * 4]


def test_only_what_is_new_is_asked_for(store: Store) -> None:
    run = recorded(store)
    for name in ("task-0", "task-1"):
        store.commit_rollout(a_rollout(run, name), None)
    with Store.open(store.places.folder) as other:
        watch = Watch(other.feed(KINDS), other)
        watch.look()
        read: list[str] = []

        @sa.event.listens_for(other._database.engine, "after_cursor_execute")
        def count(connection: object, cursor: object, statement: str, *_: object) -> None:
            assert statement.split()[0] in ("SELECT", "BEGIN") and "IMMEDIATE" not in statement
            read.extend(["SELECT"] if statement.startswith("SELECT") else [])

        feed = other.feed(KINDS)
        assert len(feed.look().entries) == 1
        assert feed.look().entries == ()
        assert len(feed.attempts(run.id, 0)) == 2
        assert feed.attempts(run.id, 2) == ()
        before = len(read)
        watch.look()
        assert len(read) - before == len(KINDS) + 3  # completions, leases, rollouts of the run shown


HOLDER = """
import sys
from harnesstrain.store import Store
with Store.open(sys.argv[1]) as store, store.lease("loop"), store.lease(sys.argv[2]) as run:
    run.tell(sys.argv[3])
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_killed_process_is_stale_and_its_cells_are_broken_off(store: Store) -> None:
    run = recorded(store)
    cells = UnderWay(flights=(Flight(task="task-3", seed=1, since=0.0),)).model_dump_json()
    command = [sys.executable, "-c", HOLDER, str(store.places.folder), f"run {run.id[:16]}", cells]
    with looking(store) as watch:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        assert only(watch.look()).cells[3].state == "running"
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        live = watch.look()
    assert (live.state, only(live).state, only(live).cells[3].state) == ("stale", "stale", "broken off")
    assert (live.at_work, live.unfinished, only(live).eta) == (False, True, None)


def test_the_stages_of_an_epoch(store: Store) -> None:
    base = recorded(store)
    row = Epoch(number=1, base=COMMIT, state="started")
    store.put_epoch(row)
    candidate = a_candidate(1, epoch=1)
    cand = a_run(commit=candidate.commit or "")
    seen: list[str] = []
    with looking(store) as watch, store.lease("loop"):

        def stage() -> str:
            epoch = watch.look().epoch
            assert epoch is not None
            return epoch.stage

        with store.lease(f"run {base.id[:16]}"):
            assert stage() == "measuring the baseline"
        store.complete_run(base.id)
        assert stage() == "certifying the baseline"
        store.put_epoch(row := row.model_copy(update={"base_run": base.id}))
        assert stage() == "proposing"
        store.put_candidate(candidate)
        store.put_run(cand)
        live = watch.look()
        assert live.epoch is not None and live.epoch.hypothesis == "shorter prompt"
        assert (live.epoch.stage, [run.role for run in live.runs]) == ("measuring the candidate", ["candidate"])
        store.put_epoch(row := row.model_copy(update={"candidate": candidate.id, "cand_run": cand.id}))
        assert stage() == "judging"
        verdict = a_verdict(base, cand)
        store.put_verdict(verdict)
        store.put_epoch(row := row.model_copy(update={"verdict": verdict.id}))
        live = watch.look()
        assert live.epoch is not None and live.epoch.stage == "promoting or rejecting"
        assert [(one.epoch, one.decision, one.hypothesis) for one in live.verdicts] == [
            (1, "rejected", "shorter prompt")
        ]
        store.put_epoch(row.model_copy(update={"state": "rejected"}))
        assert stage() == "writing the memo"
        store.put_memo(Memo(id="m" * 64, text="", epoch=1))
        assert stage() == "ended"
        seen.append(watch.look().state)
    with looking(store) as watch:
        assert (seen, watch.look().epoch) == (["working"], None)


def test_text_of_others_is_plain(store: Store) -> None:
    hostile = "\x1b]52;c;eA==\x07\x1b[5mx\u202e"
    store.put_epoch(Epoch(number=1, base=COMMIT, state="started"))
    store.put_candidate(a_candidate(1, epoch=1, hypothesis=hostile))
    run = recorded(store)
    store.put_run(run.model_copy(update={"panel_name": hostile}))
    with looking(store) as watch:
        live = watch.look()
    assert live.epoch is not None
    assert (live.epoch.hypothesis, only(live).panel) == ("x", "x")


def test_what_is_under_way_is_told_and_taken_back() -> None:
    said: list[str] = []
    bus = Bus()
    with telling(bus, said.append, "r"):
        assert said == []
        bus.emit("rollout.started", run="other", task="a", seed=1, attempt=1)
        bus.emit("run.started", run="r")
        bus.emit("rollout.started", run="r", task="a", seed=1, attempt=1)
        bus.emit("rollout.started", run="r", task="b", seed=1, attempt=1)
        while not said or len(told(said[-1])) < 2:
            time.sleep(0.01)
        bus.emit("rollout.retried", run="r", task="a", seed=1)
        bus.emit("rollout.started", run="r", task="a", seed=1, attempt=2)
        bus.emit("rollout.finished", run="r", task="b", seed=1)
        while [(one.task, one.attempt) for one in told(said[-1])] != [("a", 2)]:
            time.sleep(0.01)
    bus.emit("rollout.started", run="r", task="c", seed=1, attempt=1)
    assert len(said) <= 3


@pytest.mark.parametrize("detail", ["", "text", '{"flights": 3}', '{"flights": [], "more": 1}'])
def test_a_detail_of_another_version_is_nothing(detail: str) -> None:
    assert told(detail) == ()


def pace(**changes: object) -> Pace:
    fields: dict[str, object] = {"spans": {}, "made": (), "under_way": (), "waiting": (), "elapsed": 0.0}
    return Pace.model_validate({**fields, **changes})


def test_about_how_long() -> None:
    assert eta(pace(waiting=("a",))) is None
    assert eta(pace(made=("a",), elapsed=3.0)) == Eta(seconds=0.0, basis="pace")
    half = eta(pace(made=("a", "b"), waiting=("c", "d"), elapsed=8.0))
    assert half == Eta(seconds=8.0, basis="pace")
    weighed = eta(pace(spans={"a": 1.0, "b": 9.0}, made=("a",), waiting=("b",), elapsed=2.0))
    assert weighed == Eta(seconds=18.0, basis="pace")
    cached = eta(pace(spans={"a": 100.0, "b": 100.0}, made=("a",), waiting=("b",), elapsed=0.1))
    assert cached is not None and cached.seconds == pytest.approx(0.1)
    under_way = eta(pace(made=("a",), under_way=("b",), elapsed=3.0))
    assert under_way == Eta(seconds=1.0, basis="pace")
    earlier = eta(pace(spans={"a": 10.0, "b": 20.0}, under_way=("a", "b"), elapsed=1.0))
    assert earlier == Eta(seconds=7.5, basis="earlier runs")
