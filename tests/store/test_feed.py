"""A feed tells what is new since the last look, and nothing twice; a lease says what its holder is at."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesstrain.store import Store
from tests.store.making import a_rollout, recorded

KINDS = ("run", "epoch", "verdict")


def told(store: Store) -> None:
    """What a feed says of a store that grows."""
    feed = store.feed(KINDS)
    first = feed.look()
    assert (first.entries, first.completed, first.holders) == ((), {}, ())
    run, other = recorded(store), recorded(store, "other")
    assert [(entry.kind, entry.id) for entry in feed.look().entries] == [("run", run.id), ("run", other.id)]
    assert feed.look().entries == ()
    for one in (run, other):
        for task in ("task-0", "task-1"):
            store.commit_rollout(a_rollout(one, task), None)
    entries = feed.attempts(run.id, 0)
    assert [entry.record["task"] for entry in entries] == ["task-0", "task-1"]
    assert [entry.record["task"] for entry in feed.attempts(run.id, entries[0].seq)] == ["task-1"]
    assert feed.spans(run.id, run.panel) == {"task-0": 1.5, "task-1": 1.5}
    assert feed.spans(run.id, "another panel") == {}
    assert feed.certificates(run.id) == 0
    store.complete_run(run.id)
    assert feed.look().completed == {run.id: 2}
    assert feed.look().completed == {}
    with store.lease("loop", purpose="training loop") as lease:
        lease.tell('{"flights": []}')
        (holder,) = feed.look().holders
        assert (holder.purpose, holder.detail, holder.stale) == ("training loop", '{"flights": []}', False)
        lease.tell("more\nlines")
        assert feed.look().holders[0].detail == "more\nlines"


def test_on_sqlite(store: Store) -> None:
    told(store)
    assert not store.copied


@pytest.mark.postgres
def test_on_postgresql(postgres: str, folder: Path) -> None:
    with Store.open(postgres, directory=folder, create=True) as store:
        told(store)


def test_a_lease_that_was_lost_tells_nobody(store: Store) -> None:
    with store.lease("loop") as lease:
        lease.release()
        lease.tell("x")
        assert store.holders() == []
