"""Epochs, gc and export of the caches."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harnesstrain.core.errors import UsageError
from harnesstrain.core.records.cache import GradeEntry, StepEntry
from harnesstrain.core.records.llm import Reply, ToolCall, Usage
from harnesstrain.core.records.sandbox import Grade, RunResult
from harnesstrain.store import Store
from harnesstrain.store.base import Bumped, CacheStats
from tests.store.test_cache_entries import GRADE, STEP


def key(number: int) -> str:
    """A key."""
    return f"{number:064x}"


def noise(number: int) -> Reply:
    """A reply that does not compress."""
    return Reply(content="".join(chr(33 + (number * 7919 + place * place) % 90) for place in range(200)))


def stats(store: Store, name: str) -> CacheStats:
    """Statistics of one cache."""
    return next(one for one in store.cache_stats() if one.name == name)


def test_a_raised_epoch_puts_what_is_there_out_of_reach(store: Store, folder: Path) -> None:
    steps, replies = store.step_cache(), store.llm_cache()
    steps.put(key(1), STEP)
    steps.put(key(2), STEP)
    replies.put(key(1), Reply(content="stays"))
    assert store.cache_bump(["step"], dry_run=True) == [Bumped(name="step", epoch=2, outdated=2)]
    assert steps.get(key(1)) == STEP
    assert store.cache_bump(["step"]) == [Bumped(name="step", epoch=2, outdated=2)]
    assert steps.get(key(1)) is None and replies.get(key(1)) == Reply(content="stays")
    later = STEP.model_copy(update={"raw": "later"})
    steps.put(key(1), later)
    assert steps.get(key(1)) == later
    store.close()
    with Store.open(folder) as again:
        assert again.step_cache().get(key(1)) == later and again.step_cache().get(key(2)) is None
        found = stats(again, "step")
        assert (found.epoch, found.entries, found.outdated) == (2, 3, 2)
        assert [one.epoch for one in again.cache_bump(["llm", "step", "verify"])] == [2, 3, 2]
        with pytest.raises(UsageError, match="'steps'"):
            again.cache_bump(["step", "steps"])
        assert stats(again, "step").epoch == 3


def test_a_process_at_work_keeps_the_epoch_it_started_with(store: Store, folder: Path) -> None:
    store.step_cache().put(key(1), STEP)
    store.cache_stats()
    with Store.open(folder) as other:
        other.cache_bump(["step"])
        assert other.step_cache().get(key(1)) is None
        assert store.step_cache().get(key(1)) == STEP
        store.step_cache().put(key(2), STEP)
        assert stats(store, "step").outdated == 2
        assert other.step_cache().get(key(2)) is None


def test_without_the_file_epochs_start_again(store: Store, folder: Path) -> None:
    store.step_cache().put(key(1), STEP)
    store.cache_bump(["step"])
    store.close()
    for path in folder.glob("cache.db*"):
        path.unlink()
    with Store.open(folder) as again:
        assert stats(again, "step") == CacheStats(name="step", entries=0, bytes=0, epoch=1)


def test_gc_takes_older_epochs_first_and_then_what_was_not_used(store: Store) -> None:
    cache = store.llm_cache()
    for number in range(4):
        cache.put(key(number), noise(number))
    store.cache_bump(["llm"])
    for number in range(10, 20):
        cache.put(key(number), noise(number))
        store.cache_stats()
    cache.get(key(12))
    cache.get(key(10))
    live = stats(store, "llm").bytes - sum(one.bytes for one in store.cache_gc(10**9, dry_run=True))
    planned = store.cache_gc(live * 45 // 100, dry_run=True)
    assert [(one.name, one.entries, one.outdated) for one in planned] == [
        ("llm", 10, 4),
        ("step", 0, 0),
        ("verify", 0, 0),
    ]
    assert stats(store, "llm").entries == 14
    assert store.cache_gc(live * 45 // 100) == planned
    assert [number for number in range(10, 20) if cache.get(key(number))] == [10, 12, 18, 19]
    found = stats(store, "llm")
    assert (found.entries, found.outdated) == (4, 0) and found.bytes <= live * 45 // 100
    assert [one.entries for one in store.cache_gc(10**9)] == [0, 0, 0]


def test_gc_bounds_every_cache(store: Store) -> None:
    store.llm_cache().put(key(1), noise(1))
    store.step_cache().put(key(1), STEP)
    store.verify_cache().put(key(1), GRADE)
    assert [one.entries for one in store.cache_gc(0)] == [1, 1, 1]
    assert [(one.entries, one.bytes) for one in store.cache_stats()] == [(0, 0)] * 3
    assert store.step_cache().get(key(1)) is None


def test_an_export_is_read_back_as_it_was(store: Store, folder: Path, tmp_path: Path) -> None:
    started = time.time()
    call = ToolCall(id="1", name="run", arguments='{"a": ')
    reply = Reply(
        content="é\x00",
        reasoning="r",
        tool_calls=(call,),
        usage=Usage(prompt=9, cached=4, completion=3, reasoning=2),
        token_ids=(1, 2, 3),
        logprobs=(-0.1, float("-inf"), 0.0),
        duration=0.1 + 0.2,
    )
    store.llm_cache().put(key(1), reply)
    store.llm_cache().put(key(2), Reply(content="plain"))
    store.step_cache().put(key(3), STEP)
    store.cache_bump(["step"])
    store.step_cache().put(key(4), StepEntry(result=RunResult(exit_code=0), scrubbed="s", raw="r", rules="2"))
    store.verify_cache().put(key(5), GradeEntry(grade=Grade(reward=0.5, rewards={"a": 1.0}, output="ok", duration=2.0)))
    store.verify_cache().put(key(6), GradeEntry(grade=None, ungradable="no verifier"))
    store.verify_cache().put(key(7), GRADE)
    store.cache_stats()
    with closing(sqlite3.connect(folder / "cache.db")) as behind, behind:
        behind.execute("UPDATE verify SET seal = zeroblob(16) WHERE key = ?", (bytes.fromhex(key(7)),))
        behind.execute("UPDATE verify_use SET used = 'never' WHERE seq = 1")
    target = tmp_path / "new" / "export"
    made = store.cache_export(target)
    assert [(one.name, one.file, one.entries, one.broken) for one in made] == [
        ("llm", target / "llm.parquet", 2, 0),
        ("step", target / "step.parquet", 2, 0),
        ("verify", target / "verify.parquet", 2, 1),
    ]
    assert sorted(path.name for path in target.iterdir()) == ["llm.parquet", "step.parquet", "verify.parquet"]
    replies, steps, grades = (pq.read_table(one.file).to_pylist() for one in made)
    used = replies[0].pop("used").replace(tzinfo=UTC)
    assert datetime.fromtimestamp(started - 2, UTC) < used < datetime.fromtimestamp(time.time() + 2, UTC)
    assert replies[0].pop("bytes") > 0
    assert json.loads(replies[0].pop("tool_calls")) == [call.model_dump()]
    assert replies[0] == {
        "key": key(1),
        "epoch": 1,
        **{"content": "é\x00", "reasoning": "r", "finish_reason": "stop"},
        **{"prompt_tokens": 9, "cached_tokens": 4, "completion_tokens": 3, "reasoning_tokens": 2},
        **{"token_ids": [1, 2, 3], "logprobs": [-0.1, float("-inf"), 0.0], "duration": 0.1 + 0.2},
    }
    assert (replies[1]["key"], replies[1]["token_ids"]) == (key(2), None)
    assert [(row["key"], row["epoch"]) for row in steps] == [(key(3), 1), (key(4), 2)]
    assert {name: steps[0][name] for name in RunResult.model_fields} == STEP.result.model_dump()
    assert {name: steps[0][name] for name in StepEntry.model_fields if name != "result"} == STEP.model_dump(
        exclude={"result"}
    )
    assert [(row["key"], row["reward"], row["output"], row["ungradable"]) for row in grades] == [
        (key(5), 0.5, "ok", ""),
        (key(6), None, None, "no verifier"),
    ]
    assert json.loads(grades[0]["rewards"]) == {"a": 1.0} and grades[0]["used"] is None


def test_an_export_replaces_its_files_and_refuses_what_is_no_folder(store: Store, tmp_path: Path) -> None:
    for number in range(2):
        store.llm_cache().put(key(number), noise(number))
        store.cache_export(tmp_path / "out")
        assert pq.read_metadata(tmp_path / "out" / "llm.parquet").num_rows == number + 1
    assert pq.read_table(tmp_path / "out" / "step.parquet").num_rows == 0
    with pytest.raises(UsageError, match="not a folder"):
        store.cache_export(tmp_path / "out" / "llm.parquet")


def test_an_export_of_many_entries(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harnesstrain.store import cacheexport

    monkeypatch.setattr(cacheexport, "GROUP", 7)
    for number in range(40):
        store.llm_cache().put(key(number), Reply(content=str(number)))
    assert store.cache_export(tmp_path)[0].entries == 40
    table = pq.read_table(tmp_path / "llm.parquet", columns=["key", "content"])
    assert table.to_pylist() == [{"key": key(number), "content": str(number)} for number in range(40)]
