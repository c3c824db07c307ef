"""Several processes on one store, and processes killed at any moment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harnesstrain.core.records.rollout import Rollout
from harnesstrain.core.records.run import Run
from harnesstrain.store import Store
from tests.store.making import a_rollout, a_run, a_trace, recorded

ROOT = Path(__file__).parents[2]

WRITER = """
import sys
from harnesstrain.core.records.llm import Reply
from harnesstrain.core.records.verdict import Memo
from harnesstrain.store import Store
from tests.store.making import a_rollout, a_trace, recorded
folder, number, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with Store.open(folder, create=True) as store:
    run = recorded(store, f"of-{number}")
    shared = recorded(store, "shared")
    cache = store.llm_cache()
    for task in range(count):
        with store.lease(f"lease-{number}"):
            rollout = a_rollout(run, f"task-{task}")
            store.commit_rollout(rollout, a_trace(rollout))
            mine = a_rollout(shared, f"task-{number}-{task}")
            store.commit_rollout(mine, a_trace(mine))
            common = a_rollout(shared, f"task-{task}")
            store.commit_rollout(common, a_trace(common))
            cache.put(f"{task:064x}", Reply(content=str(task)))
            assert cache.get(f"{task:064x}").content == str(task)
            store.put_memo(Memo(id=f"{number * 1000 + task:064x}", text=f"{number} {task}"))
            store.summaries()
    store.complete_run(run.id)
    store.complete_run(shared.id)
    assert not store.cache_stats()[0].broken
"""

OPENER = """
import sys
from harnesstrain.store import Store
sys.stdin.readline()
for _ in range(10):
    with Store.open(sys.argv[1], create=True) as store:
        store.summaries()
        store.llm_cache().get("0" * 64)
"""

COMMITTER = """
import sys
from harnesstrain.core.records.llm import Reply
from harnesstrain.store import Store
from tests.store.making import a_rollout, a_trace, recorded
with Store.open(sys.argv[1], create=True) as store:
    run = recorded(store)
    done = {rollout.id for rollout in store.rollouts(run.id)}
    cache = store.llm_cache()
    with store.lease("run"):
        for number in range(10_000):
            rollout = a_rollout(run, f"task-{number}")
            if rollout.id in done:
                continue
            cache.put(f"{number:064x}", Reply(content=str(number)))
            store.commit_rollout(rollout, a_trace(rollout, 4))
            print(f"task-{number}", flush=True)
            if number % 5 == 4:
                store.complete_run(run.id)
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    """A Python process that can import this project's tests."""
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_writers_never_meet_a_locked_database(folder: Path) -> None:
    """Six processes create one store, write all of its parts and complete a run they share, all at once."""
    count = 8
    writers = [start(WRITER, folder, number, count) for number in range(6)]
    for writer in writers:
        _, said = writer.communicate()
        assert writer.returncode == 0, said
    with Store.open(folder) as store:
        assert len(list(store.export("memo"))) == 6 * count
        for number in range(6):
            assert len(store.rollouts(a_run(f"of-{number}").id)) == count
            assert store.is_complete(a_run(f"of-{number}").id)
        shared = store.rollouts(a_run("shared").id)
        assert len(shared) == 6 * count + count
        for rollout in shared:
            assert store.trace(rollout.id) == a_trace(rollout)
        store.complete_run(a_run("shared").id)
        store.gc(grace=0)
        assert store.fsck() == [] and store.holders() == []
        assert [found.entries for found in store.cache_stats()] == [count, 0, 0]


def test_opening_and_closing_at_once_never_fails(folder: Path) -> None:
    """The last connection to close folds the log in and removes it, which needs the file for itself."""
    openers = [start(OPENER, folder) for _ in range(6)]
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("go\n")
        opener.stdin.flush()
    for opener in openers:
        _, said = opener.communicate()
        assert opener.returncode == 0, said


def survivors(store: Store, run: Run, promised: set[str]) -> dict[str, Rollout]:
    """Committed rollouts by task, each with its trace intact and everything promised among them."""
    kept = {rollout.task: rollout for rollout in store.rollouts(run.id)}
    assert promised <= set(kept)
    for rollout in kept.values():
        assert store.trace(rollout.id) == a_trace(rollout, 4)
    return kept


@pytest.mark.parametrize("seed", range(2))
def test_a_writer_killed_at_any_moment_loses_nothing_committed(folder: Path, seed: int) -> None:
    """Killed with -9 between two instants of its work, again and again, resumed each time."""
    source = random.Random(seed)
    run, promised = a_run(), set[str]()
    for _ in range(8):
        writer = start(COMMITTER, folder)
        assert writer.stdout is not None and writer.stderr is not None
        for _ in range(source.randrange(1, 7)):
            line = writer.stdout.readline().strip()
            assert line, writer.stderr.read()
            promised.add(line)
        spin(source.randrange(0, 60_000))
        os.kill(writer.pid, signal.SIGKILL)
        rest, said = writer.communicate()
        assert not said
        promised.update(rest.split())
        with Store.open(folder) as store:
            kept = survivors(store, run, promised)
            assert len(store.rollouts(run.id)) == len(kept)
            assert {finding.kind for finding in store.fsck()} <= {"orphan"}
            assert all(found.stale for found in store.holders())
            assert all(store.llm_cache().get(f"{int(task[5:]):064x}") for task in kept)
    with Store.open(folder) as store:
        store.complete_run(run.id)
        store.gc(grace=0)
        assert store.fsck() == []
        survivors(store, run, promised)


def spin(turns: int) -> None:
    """Let a short, arbitrary time pass."""
    for _ in range(turns):
        pass


def test_a_reader_sees_a_run_whole_while_it_is_being_completed(store: Store, folder: Path) -> None:
    run = recorded(store)
    rollouts = [a_rollout(run, f"task-{number}") for number in range(3)]
    for rollout in rollouts:
        store.commit_rollout(rollout, a_trace(rollout, 4))
    writer = start(COMMITTER, folder)
    assert writer.stdout is not None
    try:
        for _ in range(12):
            assert writer.stdout.readline()
            for rollout in rollouts:
                assert store.trace(rollout.id) == a_trace(rollout, 4)
    finally:
        writer.kill()
        writer.communicate()
