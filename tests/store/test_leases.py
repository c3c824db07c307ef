"""Leases are judged when read: the gone are gone, the silent are taken over, the living are in the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harnesstrain.core.errors import Busy
from harnesstrain.store import Store, leases

HOLDER = """
import sys, time
from harnesstrain.store import Store
with Store.open(sys.argv[1]) as store, store.lease("epoch", ttl=float(sys.argv[2]), purpose="ht epoch"):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(folder: Path, ttl: float = 600.0) -> subprocess.Popen[str]:
    """Another process that holds the lease `epoch` until its stdin closes."""
    command = [sys.executable, "-c", HOLDER, str(folder), str(ttl)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def finish(process: subprocess.Popen[str]) -> None:
    """Let a holder go and collect it."""
    process.communicate()


def test_a_second_holder_is_told_who_and_for_how_long(store: Store, folder: Path) -> None:
    process = holder(folder)
    try:
        with pytest.raises(Busy) as caught, store.lease("epoch"):
            pass
        assert f"process {process.pid}" in caught.value.message and "(ht epoch)" in caught.value.message
        assert caught.value.exit_code == 7 and caught.value.extra["holder"]["pid"] == process.pid
        with store.lease("another"):
            assert [found.name for found in store.holders()] == ["another", "epoch"]
    finally:
        finish(process)
    with store.lease("epoch") as mine:
        assert not mine.lost
    assert store.holders() == []


def test_a_killed_holder_is_gone_at_once_even_before_it_is_reaped(store: Store, folder: Path) -> None:
    process = holder(folder)
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, still a zombie
    assert [found.stale for found in store.holders()] == [True]
    with store.lease("epoch"):
        assert [found.pid for found in store.holders()] == [os.getpid()]
    finish(process)


def test_this_process_does_not_hold_a_lease_twice(store: Store) -> None:
    with store.lease("epoch"), pytest.raises(Busy), store.lease("epoch"):
        pass
    with store.lease("epoch"):
        pass


def test_an_error_in_the_block_gives_the_lease_back(store: Store) -> None:
    with pytest.raises(RuntimeError), store.lease("epoch"):
        raise RuntimeError
    assert store.holders() == []


def test_a_process_number_used_again_is_another_process(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    me = leases.this_process()
    earlier = leases.Identity(pid=me.pid, host=me.host, boot=me.boot, started=str(int(me.started) - 100))
    monkeypatch.setattr(leases, "this_process", lambda: earlier)
    held = leases._take(store._database, "epoch", 600.0, "")
    monkeypatch.undo()
    assert store.holders()[0].stale
    with store.lease("epoch"):
        held.beat()
        assert held.lost


@pytest.mark.parametrize("field", ["host", "boot"])
def test_a_holder_elsewhere_counts_until_it_is_silent(
    store: Store, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    """Process numbers of another machine, boot or container say nothing here."""
    me = leases.this_process()
    values = {"pid": 2**30, "host": me.host, "boot": me.boot, "started": "1", field: "elsewhere"}
    if field == "host":
        values["boot"] = "elsewhere"
    monkeypatch.setattr(leases, "this_process", lambda: leases.Identity(**values))
    leases._take(store._database, "epoch", 600.0, "")
    leases._take(store._database, "silent", -1.0, "")
    monkeypatch.undo()
    assert {found.name: found.stale for found in store.holders()} == {"epoch": False, "silent": True}
    with pytest.raises(Busy), store.lease("epoch"):
        pass
    with store.lease("silent"):
        pass


def test_a_stopped_holder_is_taken_over_and_learns_it(store: Store) -> None:
    stopped = leases._take(store._database, "epoch", -1.0, "")  # no thread keeps its heartbeat
    with store.lease("epoch") as mine:
        stopped.beat()
        assert stopped.lost and not mine.lost
        with pytest.raises(Busy, match="taken over"):
            stopped.check()
        stopped.release()
        mine.beat()
        assert not mine.lost


def test_the_heartbeat_is_kept_while_the_block_runs(store: Store) -> None:
    """With a time to live of 0.3 s, a holder that nobody renewed would be stale long before the tenth look."""
    beaten = threading.Event()
    with store.lease("epoch", ttl=0.3):
        first = store.holders()[0]
        for _ in range(600):
            now = store.holders()[0]
            if now.age - now.silent > first.age + 0.3:
                beaten.set()
                break
            threading.Event().wait(0.02)
    assert beaten.is_set()
    assert not [thread for thread in threading.enumerate() if thread.name == "lease epoch"]


def test_gc_drops_the_leases_of_the_gone(store: Store, folder: Path) -> None:
    process = holder(folder)
    process.kill()
    finish(process)
    with store.lease("mine"):
        assert store.gc().leases == 1
        assert [found.name for found in store.holders()] == ["mine"]
