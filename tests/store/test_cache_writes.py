"""Entries are written in groups: visible at once, lost only by a kill, and nobody's problem when they cannot be."""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harnesstrain.core.records.cache import StepEntry
from harnesstrain.core.records.llm import Reply
from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.store import Store, pending
from tests.store.making import a_rollout, recorded
from tests.store.test_processes import ROOT, spin, start

FOREVER = 3600.0

BOTH = """
import sys
from harnesstrain.core.records.cache import StepEntry
from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.store import Store
with Store.open(sys.argv[1]) as store:
    cache = store.step_cache()
    sys.stdin.readline()
    for number in range(600):
        mine = f"{sys.argv[2]} {number}".encode() + bytes(range(256))
        if cache.get(f"{number:064x}") is None:
            result = RunResult(exit_code=0, stdout=mine)
            cache.put(f"{number:064x}", StepEntry(result=result, scrubbed="", raw="", rules="1"))
        assert cache.get(f"{number:064x}").result.stdout.endswith(f" {number}".encode() + bytes(range(256)))
"""

ENDLESS = """
import itertools, sys
from harnesstrain.core.records.llm import Reply
from harnesstrain.store import Store
store = Store.open(sys.argv[1])
cache = store.llm_cache()
for number in itertools.count(int(sys.argv[2])):
    cache.put(f"{number:064x}", Reply(content=str(number)))
    print(number, flush=True)
"""

READ_ONLY = """
import logging, os, sys
from harnesstrain.core.records.llm import Reply
from harnesstrain.store import Store
logging.basicConfig(format="%(message)s")
if os.geteuid() == 0:
    os.setgid(65534), os.setuid(65534)
with Store.open(sys.argv[1]) as store:
    cache = store.llm_cache()
    for number in range(3):
        assert cache.get("1" * 64) == Reply(content="kept")
        cache.put("2" * 64, Reply(content="new"))
        store.step_cache().get("1" * 64)
        store.cache_stats()
        assert cache.get("2" * 64) is None
"""


def key(number: int) -> str:
    """A key."""
    return f"{number:064x}"


def in_file(folder: Path, name: str = "llm") -> int:
    """Entries that any process would find."""
    with closing(sqlite3.connect(folder / "cache.db")) as connection:
        count: int = connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
    return count


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No entry is written because time has passed."""
    monkeypatch.setattr(pending, "DELAY", FOREVER)


@pytest.mark.usefixtures("waiting")
def test_what_waits_is_found_and_written_at_the_end(store: Store, folder: Path) -> None:
    cache = store.llm_cache()
    cache.put(key(1), Reply(content="first"))
    cache.put(key(1), Reply(content="second"))
    assert cache.get(key(1)) == Reply(content="first") and store.llm_cache().get(key(1)) == Reply(content="first")
    assert in_file(folder) == 0
    store.close()
    assert in_file(folder) == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "ht-cache-writer"]
    with Store.open(folder) as again:
        assert again.llm_cache().get(key(1)) == Reply(content="first")


@pytest.mark.usefixtures("waiting")
def test_the_first_one_in_the_file_counts(store: Store, folder: Path) -> None:
    """Another process was first, and this one did not know."""
    with Store.open(folder) as other:
        store.llm_cache().put(key(1), Reply(content="mine"))
        other.llm_cache().put(key(1), Reply(content="theirs"))
    assert store.llm_cache().get(key(1)) == Reply(content="theirs")
    store.cache_stats()
    assert store.llm_cache().get(key(1)) == Reply(content="theirs") and in_file(folder) == 1


def test_time_writes_what_waits(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "DELAY", 0.0)
    for number in range(3):
        store.llm_cache().put(key(number), Reply())
        until = time.monotonic() + 60
        while in_file(folder) <= number:
            assert time.monotonic() < until
            time.sleep(0.01)


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("bound", ["ENTRIES", "BYTES"])
def test_no_more_than_so_much_waits(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(pending, bound, {"ENTRIES": 10, "BYTES": 2000}[bound])
    noise = random.Random(1)
    for number in range(9):
        result = RunResult(exit_code=0, stdout=noise.randbytes(190))
        store.step_cache().put(key(number), StepEntry(result=result, scrubbed="", raw="", rules="1"))
    full = in_file(folder, "step")
    store.step_cache().put(key(9), StepEntry(result=RunResult(exit_code=0), scrubbed="", raw="", rules="1"))
    assert (full, in_file(folder, "step")) == {"ENTRIES": (0, 10), "BYTES": (full, full)}[bound]
    assert full > 0 or bound == "ENTRIES"


@pytest.mark.usefixtures("waiting")
def test_a_committed_rollout_finds_its_entries_again(store: Store, folder: Path) -> None:
    run = recorded(store)
    store.llm_cache().put(key(1), Reply())
    store.commit_rollout(a_rollout(run), None)
    assert in_file(folder) == 1


@pytest.mark.usefixtures("waiting")
def test_late_users_of_a_closed_store_are_no_problem(
    store: Store, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = store.llm_cache()
    cache.put(key(1), Reply())
    store.close()
    (folder / "cache.db").unlink()
    cache.put(key(2), Reply())
    assert cache.get(key(1)) is None and cache.get(key(2)) is None
    assert not (folder / "cache.db").exists()
    assert caplog.text.count("going on without it") == 1


def test_two_processes_write_the_same_keys_at_once(store: Store, folder: Path) -> None:
    store.cache_stats()
    writers = [start(BOTH, folder, name) for name in ("left", "right")]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, said = writer.communicate()
        assert writer.returncode == 0 and not said, said
    assert in_file(folder, "step") == 600
    found = [store.step_cache().get(key(number)) for number in range(600)]
    assert all(entry is not None and entry.result.stdout.split()[1][:1].isdigit() for entry in found)
    assert store.cache_stats()[1].broken == 0


@pytest.mark.parametrize("seed", range(6))
def test_a_killed_writer_leaves_a_file_that_works(store: Store, folder: Path, seed: int) -> None:
    store.cache_stats()
    source = random.Random(seed)
    promised = 0
    for turn in range(3):
        writer = start(ENDLESS, folder, promised)
        assert writer.stdout is not None
        for _ in range(source.randrange(1, 1500)):
            assert writer.stdout.readline()
        spin(source.randrange(0, 60_000))
        os.kill(writer.pid, signal.SIGKILL)
        rest, _ = writer.communicate()
        last = int((rest.split() or [str(promised)])[-1])
        with Store.open(folder) as again:
            cache = again.llm_cache()
            kept = [number for number in range(last + 1) if cache.get(key(number)) is not None]
            assert all(cache.get(key(number)) == Reply(content=str(number)) for number in kept)
            cache.put(key(10**9 + turn), Reply(content="works"))
            assert [one.broken for one in again.cache_stats()] == [0, 0, 0]
        promised = last + 1
    with closing(sqlite3.connect(folder / "cache.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        counted = "SELECT (SELECT count(*) FROM llm), (SELECT count(*) FROM llm_use), (SELECT sum(size) FROM llm_use)"
        entries, uses, size = connection.execute(counted).fetchone()
    assert entries == uses == store.cache_stats()[0].entries and size == store.cache_stats()[0].bytes


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that any user may write."""
    place = Path(tempfile.mkdtemp(prefix="ht-cache-"))
    place.chmod(0o777)
    yield place
    shutil.rmtree(place)


def test_a_file_that_may_not_be_written_still_answers(open_to_all: Path) -> None:
    folder = open_to_all / ".ht"
    with Store.open(folder, create=True) as store:
        store.llm_cache().put("1" * 64, Reply(content="kept"))
    folder.chmod(0o777)
    (folder / "store.db").chmod(0o666)
    (folder / "cache.db").chmod(0o444)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", READ_ONLY, str(folder)], cwd=ROOT, capture_output=True, text=True
    )
    if "Permission denied" in done.stderr and "cache" not in done.stderr:
        pytest.skip("another user cannot read this installation")
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == 1 and "going on without it" in done.stderr


def test_a_full_file_is_said_once_and_still_answers(
    store: Store, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = store.llm_cache()
    cache.put(key(1), Reply(content="kept"))
    store.cache_stats()
    engine = store._opened_caches().file.database.engine
    engine.dispose()

    import sqlalchemy as sa

    @sa.event.listens_for(engine, "connect")
    def bounded(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # no page can be added to what is there

    noise = random.Random(2)
    with caplog.at_level(logging.WARNING):
        for number in range(10, 13):
            cache.put(key(number), Reply(content=noise.randbytes(40_000).hex()))
            store._opened_caches().pending.flush()
            assert cache.get(key(number)) is None
    assert cache.get(key(1)) == Reply(content="kept")
    said = [record.message for record in caplog.records if "going on without it" in record.message]
    assert len(said) == 1 and "disk full" in said[0]
