"""Replies, steps and grades come back exactly, or not at all."""

from __future__ import annotations

import math
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesstrain.core.records.cache import GradeEntry, StepEntry
from harnesstrain.core.records.llm import Reply
from harnesstrain.core.records.sandbox import Grade, RunResult
from harnesstrain.store import Store, entries

KEY, OTHER = "a" * 64, "b" * 64
STEP = StepEntry(
    result=RunResult(
        exit_code=3, stdout=b"\x00\xff\xfe caf\xe9 \xf0\x9f", stderr=b"\r\n\x1b[0m\x80", duration=0.1 + 0.2
    ),
    scrubbed="5" * 64,
    raw="e" * 64,
    rules="1",
    errno="ENOENT",
    message="no such file",
)
GRADE = GradeEntry(grade=Grade(reward=0.1, rewards={"é\x00": math.inf}, output="\x00\n" * 400, duration=1e-9))

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
numbers = st.floats(allow_nan=False)
streams = st.one_of(st.binary(max_size=3000), st.sampled_from([b"", b"\x00" * 5000, b"abc\n" * 900, bytes(range(256))]))
results = st.builds(
    RunResult,
    exit_code=st.integers(-(2**40), 2**40),
    stdout=streams,
    stderr=streams,
    timed_out=st.booleans(),
    truncated=st.booleans(),
    duration=numbers,
    left=st.integers(0, 99),
    held_open=st.booleans(),
)
steps = st.builds(
    StepEntry,
    result=results,
    scrubbed=texts,
    raw=texts,
    rules=texts,
    errno=st.none() | texts,
    message=st.none() | texts,
)
grades = st.builds(
    GradeEntry,
    grade=st.none()
    | st.builds(
        Grade, reward=numbers, rewards=st.dictionaries(texts, numbers, max_size=3), output=texts, duration=numbers
    ),
    ungradable=texts,
)


@given(steps)
def test_any_step_comes_back_exactly(entry: StepEntry) -> None:
    assert entries.step_from(entries.unpacked(entries.packed(entries.step_bytes(entry)))) == entry


@given(grades)
def test_any_grade_comes_back_exactly(entry: GradeEntry) -> None:
    assert entries.grade_from(entries.unpacked(entries.packed(entries.grade_bytes(entry)))) == entry


@given(steps.map(entries.step_bytes), st.integers(0), st.binary(min_size=1, max_size=300))
def test_bytes_that_are_no_step_are_refused(value: bytes, cut: int, more: bytes) -> None:
    for wrong in (value[: cut % len(value)], value + more, more):
        with pytest.raises(ValueError, match="."):
            entries.step_from(wrong)


@given(st.binary(max_size=2000))
def test_any_bytes_are_unpacked_or_refused(stored: bytes) -> None:
    assert entries.unpacked(entries.packed(stored)) == stored
    if stored[:1] not in (entries.PLAIN, entries.ZSTD):
        with pytest.raises(ValueError, match="unknown packing"):
            entries.unpacked(stored)
    with pytest.raises(ValueError, match="."):
        entries.unpacked(entries.ZSTD + stored[:8])


def test_compressing_is_done_where_it_pays() -> None:
    assert len(entries.packed(b"all the same " * 100)) < 100
    noise = random.Random(1).randbytes(2000)
    assert entries.packed(noise) == entries.PLAIN + noise


def test_steps_and_grades_are_kept_apart_and_stay(store: Store, folder: Path) -> None:
    steps, grades = store.step_cache(), store.verify_cache()
    assert steps.get(KEY) is None and grades.get(KEY) is None
    steps.put(KEY, STEP)
    grades.put(KEY, GRADE)
    steps.put(KEY, STEP.model_copy(update={"raw": "later"}))
    grades.put(OTHER, GradeEntry(grade=None, ungradable="the verifier did not start"))
    assert steps.get(KEY) == STEP and steps.get(OTHER) is None and store.llm_cache().get(KEY) is None
    store.close()
    with Store.open(folder) as again:
        again.step_cache().put(KEY, STEP.model_copy(update={"raw": "later"}))
        assert again.step_cache().get(KEY) == STEP and again.verify_cache().get(KEY) == GRADE
        assert again.verify_cache().get(OTHER) == GradeEntry(grade=None, ungradable="the verifier did not start")
        counted = [(one.name, one.entries, one.hits, one.misses, one.broken) for one in again.cache_stats()]
        assert counted == [("llm", 0, 0, 1, 0), ("step", 1, 2, 2, 0), ("verify", 2, 2, 1, 0)]


class LaterStep(StepEntry):
    """A step as a later version records it."""

    signal: int = 9


class LaterGrade(GradeEntry):
    """A grade as a later version records it."""

    appeal: str = ""


def test_an_entry_of_another_version_is_a_miss_and_is_made_again(store: Store) -> None:
    steps, grades = store.step_cache(), store.verify_cache()
    steps.put(KEY, LaterStep(**dict(STEP)))
    grades.put(KEY, LaterGrade(grade=None))
    store.cache_stats()
    assert steps.get(KEY) is None and grades.get(KEY) is None
    steps.put(KEY, STEP)
    grades.put(KEY, GRADE)
    assert steps.get(KEY) == STEP and grades.get(KEY) == GRADE
    assert [one.broken for one in store.cache_stats()] == [0, 1, 1]


@pytest.fixture
def behind(store: Store, folder: Path) -> Iterator[sqlite3.Connection]:
    """cache.db with one entry in each cache, open behind the store's back."""
    store.llm_cache().put(KEY, Reply(content="hello"))
    store.step_cache().put(KEY, STEP)
    store.verify_cache().put(KEY, GRADE)
    store.cache_stats()
    with closing(sqlite3.connect(folder / "cache.db", isolation_level=None)) as connection:
        yield connection


@pytest.mark.parametrize("name", ["llm", "step", "verify"])
def test_every_flipped_byte_of_a_row_is_a_miss(store: Store, behind: sqlite3.Connection, name: str) -> None:
    cache = getattr(store, f"{name}_cache")()
    good = cache.get(KEY)
    assert good is not None
    row = behind.execute(f"SELECT seq, epoch, key, seal, value FROM {name}").fetchone()
    restore = f"INSERT OR REPLACE INTO {name} (seq, epoch, key, seal, value) VALUES (?, ?, ?, ?, ?)"
    for column in ("key", "seal", "value"):
        whole = row[("seq", "epoch", "key", "seal", "value").index(column)]
        for place in range(len(whole)):
            flipped = whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :]
            behind.execute(f"UPDATE {name} SET {column} = ?", (flipped,))
            assert cache.get(KEY) is None
            behind.execute(f"DELETE FROM {name}")
            behind.execute(restore, row)
    assert cache.get(KEY) == good


@pytest.mark.parametrize("strange", ["NULL", "1", "0.5", "'text'", "CAST(x'ff00fe' AS TEXT)", "x''"])
@pytest.mark.parametrize("column", ["seal", "value"])
def test_a_value_of_another_type_is_a_miss(store: Store, behind: sqlite3.Connection, column: str, strange: str) -> None:
    behind.execute("PRAGMA ignore_check_constraints = 1")
    behind.execute("PRAGMA writable_schema = 1")
    behind.execute("UPDATE sqlite_master SET sql = replace(sql, 'BLOB NOT NULL', 'BLOB') WHERE name = 'step'")
    behind.execute("PRAGMA writable_schema = RESET")
    behind.execute(f"UPDATE step SET {column} = {strange}")
    assert store.step_cache().get(KEY) is None
    store.step_cache().put(KEY, STEP)
    assert store.step_cache().get(KEY) == STEP


def test_an_entry_moved_to_another_place_is_a_miss(store: Store, behind: sqlite3.Connection) -> None:
    behind.execute("UPDATE step SET key = ?", (bytes.fromhex(OTHER),))
    behind.execute("INSERT INTO verify (epoch, key, seal, value) SELECT epoch, key, seal, value FROM step")
    assert store.step_cache().get(OTHER) is None and store.verify_cache().get(OTHER) is None
    behind.execute("UPDATE llm SET epoch = 7")
    behind.execute("UPDATE caches SET epoch = 7")
    store.close()
    with Store.open(store.places.folder) as again:
        assert again.llm_cache().get(KEY) is None


def test_a_flipped_byte_anywhere_in_the_file_is_never_a_wrong_hit(store: Store, folder: Path) -> None:
    store.step_cache().put(KEY, STEP)
    store.close()
    path = folder / "cache.db"
    whole = path.read_bytes()
    value = entries.packed(entries.step_bytes(STEP))
    start = whole.index(value) - 80
    for place in range(start, start + 80 + len(value) + 4, 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        with Store.open(folder) as again:
            assert again.step_cache().get(KEY) in (None, STEP)
        for beside in folder.glob("cache.db-*"):
            beside.unlink()
