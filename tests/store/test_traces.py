"""Trace files: small, moved into one per run, never wrong."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from harnesstrain.core.errors import HtError, NotFound, StoreCorrupt
from harnesstrain.core.records.rollout import Outcome, Rollout, Trace
from harnesstrain.core.records.run import Run
from harnesstrain.store import Store
from harnesstrain.store import traces as layout
from tests.store.making import a_rollout, a_trace, recorded, said


def committed(store: Store, run: Run, tasks: int, steps: int = 3, words: int = 200) -> dict[str, Trace]:
    """Commit one rollout per task; traces by rollout id."""
    traces = {}
    for number in range(tasks):
        rollout = a_rollout(run, f"task-{number}", steps=steps)
        traces[rollout.id] = a_trace(rollout, steps, words=words)
        store.commit_rollout(rollout, traces[rollout.id])
    return traces


def parquet(folder: Path) -> list[Path]:
    """Trace files of a store."""
    return sorted((folder / "traces").rglob("*.parquet"))


def size(folder: Path) -> int:
    """Bytes of a store on disk."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(("steps", "tasks"), [(100, 10), (1000, 1)])
def test_a_store_is_no_larger_than_one_and_a_half_times_what_was_said(folder: Path, steps: int, tasks: int) -> None:
    """Observations of 2,000 bytes that hardly compress: whatever is stored twice shows."""
    with Store.open(folder, create=True) as store:
        run = recorded(store)
        traces = committed(store, run, tasks, steps, words=2000)
    total = sum(said(trace) for trace in traces.values())
    assert size(folder) <= 1.5 * total
    with Store.open(folder) as store:
        store.complete_run(run.id)
    assert size(folder) <= 1.5 * total
    print(f"{steps} steps: {size(folder) / total:.3f} bytes on disk per byte said")


def test_completion_moves_traces_into_one_file_and_loses_nothing(store: Store, folder: Path) -> None:
    run = recorded(store)
    traces = committed(store, run, 5)
    assert len(parquet(folder)) == 5
    store.complete_run(run.id)
    store.complete_run(run.id)
    assert len(parquet(folder)) == 1
    assert {identifier: store.trace(identifier) for identifier in traces} == traces
    assert store.fsck() == []


def test_traces_written_before_a_column_was_added_are_read_and_compacted(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded(store)
    with monkeypatch.context() as earlier:
        earlier.setattr(layout, "SCHEMA", layout.SCHEMA.remove(layout.SCHEMA.get_field_index("ran")))
        old = committed(store, run, 2)
    newer = a_rollout(run, "task-2")
    trace = a_trace(newer)
    steps = (trace.steps[0].model_copy(update={"ran": ("agent/loop.py:3",)}), *trace.steps[1:])
    new = {newer.id: trace.model_copy(update={"steps": steps})}
    store.commit_rollout(newer, new[newer.id])
    assert {identifier: store.trace(identifier) for identifier in old | new} == old | new
    store.complete_run(run.id)
    assert len(parquet(folder)) == 1
    assert {identifier: store.trace(identifier) for identifier in old | new} == old | new
    assert store.fsck() == []


def test_messages_that_rollouts_share_are_stored_once_per_run(store: Store, folder: Path) -> None:
    import pyarrow.parquet as pq

    run = recorded(store)
    committed(store, run, 5)
    store.complete_run(run.id)
    texts = [row["text"] for row in pq.read_table(parquet(folder)[0]).to_pylist() if row["row"] == "message"]
    assert len(texts) == len(set(texts)) and sum('"role":"system"' in text for text in texts) == 1


def test_equal_digests_spelt_differently_are_both_kept(store: Store) -> None:
    run = recorded(store)
    traces = {}
    for task, body in (("task-0", {"a": 1, "b": 2.0}), ("task-1", {"b": 2, "a": 1}), ("task-2", {"a": 1, "b": 2.0})):
        rollout = a_rollout(run, task)
        step = a_trace(rollout).steps[0].model_copy(update={"messages": ("0" * 64,)})
        traces[rollout.id] = Trace(rollout=rollout.id, steps=(step,), messages={"0" * 64: body, "1" * 64: {"x": task}})
        store.commit_rollout(rollout, traces[rollout.id])
    store.complete_run(run.id)
    for identifier, trace in traces.items():
        kept = store.trace(identifier)
        assert kept == trace and repr(kept.messages["0" * 64]) == repr(trace.messages["0" * 64])


def test_a_run_can_go_on_after_it_was_completed(store: Store, folder: Path) -> None:
    run = recorded(store)
    traces = committed(store, run, 2)
    store.complete_run(run.id)
    late = a_rollout(run, "task-9")
    traces[late.id] = a_trace(late)
    store.commit_rollout(late, traces[late.id])
    assert not store.is_complete(run.id) and len(parquet(folder)) == 2
    assert {identifier: store.trace(identifier) for identifier in traces} == traces
    store.complete_run(run.id)
    assert store.is_complete(run.id) and len(parquet(folder)) == 1
    assert {identifier: store.trace(identifier) for identifier in traces} == traces
    assert store.fsck() == []


def test_row_groups_do_not_mix_rollouts_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harnesstrain.store.compact.GROUP_BYTES", 20_000)
    run = recorded(store)
    traces = committed(store, run, 12, steps=6)
    store.complete_run(run.id)
    assert {identifier: store.trace(identifier) for identifier in traces} == traces


def test_rollouts_without_steps_or_without_a_trace(store: Store) -> None:
    run = recorded(store)
    empty, none = a_rollout(run, "task-0"), a_rollout(run, "task-1", outcome=Outcome.INFRA_SANDBOX)
    store.commit_rollout(empty, Trace(rollout=empty.id, steps=(), messages={}))
    store.commit_rollout(none, None)
    for _ in range(2):
        assert store.trace(empty.id).steps == ()
        with pytest.raises(NotFound, match="has no trace"):
            store.trace(none.id)
        store.complete_run(run.id)
    assert store.fsck() == []


@pytest.mark.parametrize("complete", [False, True])
def test_a_damaged_trace_is_an_error_and_never_another_trace(store: Store, folder: Path, complete: bool) -> None:
    run = recorded(store)
    traces = committed(store, run, 2)
    if complete:
        store.complete_run(run.id)
    path = parquet(folder)[0]
    whole = path.read_bytes()
    source = random.Random(7)
    refused = 0
    for attempt in range(120):
        damaged = bytearray(whole)
        if attempt % 4 == 0:
            del damaged[source.randrange(len(damaged)) :]
        else:
            for _ in range(source.choice([1, 1, 8])):
                damaged[source.randrange(len(damaged))] ^= 1 << source.randrange(8)
        path.write_bytes(damaged)
        for identifier, trace in traces.items():
            try:
                assert store.trace(identifier) == trace
            except StoreCorrupt as error:
                assert "ht fsck" in str(error.hint) and "\n" not in error.message
                refused += 1
    assert refused > 60
    path.write_bytes(whole)
    assert store.fsck() == []


def test_a_trace_in_the_wrong_place_is_not_taken_for_another(store: Store, folder: Path) -> None:
    run = recorded(store)
    committed(store, run, 2)
    one, other = parquet(folder)
    shutil.copy(one, other)
    broken = 0
    for rollout in store.rollouts(run.id):
        try:
            store.trace(rollout.id)
        except HtError as error:
            assert isinstance(error, StoreCorrupt)
            broken += 1
    assert broken == 1


def test_committing_again_after_a_kill_leaves_one_file(store: Store, folder: Path) -> None:
    run = recorded(store)
    rollout: Rollout = a_rollout(run)
    store.commit_rollout(rollout, a_trace(rollout))
    again = store.commit_rollout(rollout.model_copy(update={"recorded_time": 9.0}), a_trace(rollout, seed=1))
    assert again.recorded_time == 1.5 and again.trace == store.rollout(rollout.id).trace
    assert store.trace(rollout.id) == a_trace(rollout)
    assert len(parquet(folder)) == 1 and store.fsck() == []
