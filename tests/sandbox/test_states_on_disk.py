"""Kept states on disk: many writers, killed writers, damage, room."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from io import BufferedWriter
from pathlib import Path

import pytest

from harnesstrain.core import packed
from harnesstrain.core.errors import SandboxFailure
from harnesstrain.core.records.sandbox import Limits
from harnesstrain.sandbox.local import LocalSandbox
from harnesstrain.sandbox.local_session import LocalSession
from harnesstrain.sandbox.states import States, StatesSize
from tests.sandbox import kinds
from tests.sandbox.states import ENVIRONMENT, key

pytestmark = pytest.mark.local


@pytest.fixture
def live(local: LocalSandbox) -> LocalSession:
    return local.open(ENVIRONMENT)


def test_threads_that_seal_one_key_at_once(local: LocalSandbox) -> None:
    name = key()
    sessions = [local.open(ENVIRONMENT) for _ in range(4)]
    for session in sessions:
        session.run("seq 1000 > f")
    threads = [threading.Thread(target=session.seal, args=(name,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with contextlib.closing(local.open(ENVIRONMENT, at=name)) as copy:
        assert copy.run("wc -l < f").stdout == b"1000\n"
    for session in sessions:
        session.close()


SEALER = """
import sys
from pathlib import Path
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox import open_sandbox
cache, name, count = sys.argv[1:]
session = open_sandbox("local", cache_dir=Path(cache)).open(Environment(workdir="/app"))
session.run("for n in $(seq 30); do head -c 100000 /dev/urandom > f$n; done; cat f* | sha256sum > sum; rm -f x")
print("ready", flush=True)
for number in range(int(count)):
    session.seal(name if count == "1" else f"{number:064x}")
print("done", flush=True)
"""


def test_processes_that_seal_one_key_at_once(tmp_path: Path) -> None:
    sandbox = kinds.local(tmp_path)
    name = key()
    argv = [sys.executable, "-c", SEALER, str(tmp_path), name, "1"]
    sealers = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for sealer in sealers:
        assert sealer.communicate(timeout=60)[0] == "ready\ndone\n"
    with contextlib.closing(sandbox.open(ENVIRONMENT, at=name)) as copy:
        assert copy.run("cat f* | sha256sum | diff - sum && echo whole").stdout == b"whole\n"


def test_a_sealer_that_is_killed_leaves_nothing_half(tmp_path: Path) -> None:
    sandbox = kinds.local(tmp_path)
    for delay in (0.0, 0.02, 0.05, 0.1):
        sealer = subprocess.Popen(
            [sys.executable, "-c", SEALER, str(tmp_path), key(), "1000"], stdout=subprocess.PIPE, text=True
        )
        assert sealer.stdout
        assert sealer.stdout.readline() == "ready\n"
        threading.Event().wait(delay)
        sealer.kill()
        sealer.communicate()
        for kept in sandbox.states.root.glob("??/*"):
            with contextlib.closing(sandbox.open(ENVIRONMENT, at=kept.name)) as copy:
                assert copy.run("cat f* | sha256sum | diff - sum && echo whole").stdout == b"whole\n"
            kept.unlink()
    sandbox.sweep()
    assert not list(sandbox.states.root.glob("part-*"))


def test_a_damaged_state_is_a_failure_and_is_dropped(tmp_path: Path) -> None:
    sandbox = kinds.local(tmp_path)
    for spoil in (
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data[:10] + bytes([data[10] ^ 1]) + data[11:],
        lambda data: data[:-60] + bytes([data[-60] ^ 1]) + data[-59:],
    ):
        name = key()
        with contextlib.closing(sandbox.open(ENVIRONMENT)) as live:
            live.run("seq 1000 > f")
            assert live.seal(name)
        [kept] = sandbox.states.root.glob(f"*/{name}")
        kept.write_bytes(spoil(kept.read_bytes()))
        with pytest.raises(SandboxFailure, match="damaged"):
            sandbox.open(ENVIRONMENT, at=name)
        assert sandbox.sealed([name]) is None


def test_a_state_that_vanished_or_does_not_fit_is_a_failure(local: LocalSandbox, live: LocalSession) -> None:
    name = key()
    with contextlib.closing(live):
        live.run("head -c 60000000 /dev/urandom > big")
        assert live.seal(name)
    with pytest.raises(SandboxFailure, match="No space left"):
        local.open(ENVIRONMENT, limits=Limits(storage_mb=32), at=name)
    with pytest.raises(SandboxFailure, match="no state"):
        local.open(ENVIRONMENT, at=name)


def test_a_cache_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    sandbox = kinds.local(tmp_path)
    (tmp_path / "states").write_text("in the way")
    with contextlib.closing(sandbox.open(ENVIRONMENT)) as live:
        assert not live.seal(key())
    assert sandbox.sealed([key()]) is None
    assert sandbox.sweep() == 0


def test_the_longest_unused_states_go_first(tmp_path: Path) -> None:
    states = States(tmp_path / "states", all_bytes=50 * 4096)
    (tmp_path / "tree").mkdir()
    folder = os.open(tmp_path / "tree", os.O_RDONLY)
    names = [f"{number:02x}" * 32 for number in range(100)]

    def write_nothing(out: BufferedWriter) -> None:
        packed.pack(folder, out, {}, newest_first=True, max_bytes=10, max_entries=10)

    for number, name in enumerate(names):
        assert states.keep(name, write_nothing)
        [path] = states.root.glob(f"*/{name}")
        os.utime(path, (number, number))
        if number > 5:
            states.find(names[5])
    os.close(folder)
    size = states.size()
    assert size.bytes <= 50 * 4096
    assert 20 <= size.count <= 50
    assert states.first([names[0]]) is None
    assert states.first([names[5], names[99]]) == names[5]
    assert states.first(names[90:]) == names[90]
    assert states.shrink(0, dry_run=True) == size == states.size()
    assert states.shrink(size.bytes) == StatesSize(0, 0)
    assert states.shrink(0) == size
    assert states.size().count == 0
