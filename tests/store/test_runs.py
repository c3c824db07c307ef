"""Rollouts of a run: chained, counted, completed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from harnesstrain.core.errors import HtError, NotFound, StoreCorrupt
from harnesstrain.core.records.rollout import Outcome, latest_attempts
from harnesstrain.store import Store
from harnesstrain.store.runs import link
from tests.store.making import a_rollout, a_run, a_trace, recorded


def test_rollouts_come_back_in_order_with_their_trace_named(store: Store) -> None:
    run = recorded(store)
    for task in ("task-2", "task-0", "task-1"):
        rollout = a_rollout(run, task)
        committed = store.commit_rollout(rollout, a_trace(rollout))
        assert committed.trace and committed == rollout.model_copy(update={"trace": committed.trace})
        assert store.rollout(rollout.id) == committed
    assert [rollout.task for rollout in store.rollouts(run.id)] == ["task-2", "task-0", "task-1"]
    assert store.rollouts("0" * 64) == []


def test_a_rollout_needs_its_run_and_its_own_trace(store: Store) -> None:
    run = a_run()
    rollout = a_rollout(run)
    with pytest.raises(NotFound, match="no run"):
        store.commit_rollout(rollout, a_trace(rollout))
    store.put_run(run)
    with pytest.raises(HtError, match="given for"):
        store.commit_rollout(rollout, a_trace(a_rollout(run, "task-1")))
    assert store.rollouts(run.id) == []


def test_two_measurements_of_one_rollout_are_corruption(store: Store) -> None:
    run = recorded(store)
    rollout = a_rollout(run)
    store.commit_rollout(rollout, a_trace(rollout))
    with pytest.raises(StoreCorrupt, match="solved, then no_submit"):
        store.commit_rollout(rollout.model_copy(update={"outcome": Outcome.NO_SUBMIT}), a_trace(rollout))
    assert [rollout.outcome for rollout in store.rollouts(run.id)] == [Outcome.SOLVED]


def test_rollouts_of_a_run_form_a_chain_that_starts_at_its_id(store: Store, folder: Path) -> None:
    run, other = recorded(store), recorded(store, "other")
    for task in ("task-0", "task-1"):
        for owner in (run, other):
            rollout = a_rollout(owner, task)
            store.commit_rollout(rollout, a_trace(rollout))
    with closing(sqlite3.connect(folder / "store.db")) as connection:
        rows = connection.execute("SELECT run, previous, digest, chain FROM rollouts ORDER BY seq").fetchall()
    for owner in (run, other):
        previous = owner.id
        for _, before, digest, chain in [row for row in rows if row[0] == owner.id]:
            assert before == previous and chain == link(previous, digest)
            previous = chain


def test_completeness_is_a_fact_about_the_rows(store: Store) -> None:
    run = recorded(store)
    with pytest.raises(NotFound):
        store.complete_run("0" * 64)
    assert not store.is_complete(run.id)
    store.complete_run(run.id)
    assert store.is_complete(run.id)
    rollout = a_rollout(run)
    store.commit_rollout(rollout, a_trace(rollout))
    assert not store.is_complete(run.id) and not store.summaries()[0].complete
    store.complete_run(run.id)
    assert store.is_complete(run.id) and store.summaries()[0].complete


def test_summaries_count_the_newest_attempt_of_each_cell(store: Store) -> None:
    first, second = recorded(store), recorded(store, "second")
    for task, attempt, outcome in (
        ("task-0", 1, Outcome.SOLVED),
        ("task-1", 1, Outcome.INFRA_LLM),
        ("task-1", 2, Outcome.SOLVED),
        ("task-2", 1, Outcome.NO_SUBMIT),
        ("task-3", 1, Outcome.INFRA_SANDBOX),
    ):
        rollout = a_rollout(first, task, outcome=outcome, attempt=attempt)
        store.commit_rollout(rollout, a_trace(rollout))
    one, two = store.summaries()
    rollouts = store.rollouts(first.id)
    newest = latest_attempts(rollouts)
    assert (one.run, two.run) == (first.id, second.id)
    assert (one.cells, one.solved, one.scorable, one.attempts) == (4, 2, 3, 5)
    assert one.solved == sum(rollout.solved for rollout in newest) and one.attempts == len(rollouts)
    assert one.tokens == sum(rollout.usage.total for rollout in newest)
    assert one.recorded_time == sum(rollout.recorded_time for rollout in newest)
    assert (two.cells, two.solved, two.complete) == (0, 0, False)


def test_summaries_open_no_trace(store: Store, folder: Path) -> None:
    run = recorded(store)
    rollout = a_rollout(run)
    store.commit_rollout(rollout, a_trace(rollout))
    for path in (folder / "traces").rglob("*.parquet"):
        path.unlink()
    assert store.summaries()[0].solved == 1 and store.rollouts(run.id)[0].solved


def test_a_run_corrected_keeps_the_time_it_was_first_recorded(store: Store) -> None:
    run = recorded(store)
    before = store.summaries()[0]
    store.put_run(run.model_copy(update={"split": "train"}))
    after = store.summaries()[0]
    assert after == before.model_copy(update={"split": "train"})
