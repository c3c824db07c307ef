"""The state file of a model server, and who counts as alive."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.errors import Busy, Prerequisite
from harnesstrain.core.records.llm import Endpoint
from harnesstrain.llm.state import (
    STATE,
    ServerState,
    alive,
    answers,
    birth,
    read_state,
    remove_state,
    starting,
    write_state,
)


def state(**changes: Any) -> ServerState:
    endpoint = Endpoint(engine="scripted", model="m", context_length=10)
    pid = os.getpid()
    fields: dict[str, Any] = {
        "pid": pid,
        "birth": birth(pid),
        "url": "http://127.0.0.1:1/v1",
        "engine": "scripted",
        "asked": "a" * 64,
        "endpoint": endpoint,
        "fingerprint": endpoint.fingerprint,
        "detached": True,
        "since": 5.0,
    }
    return ServerState(**{**fields, **changes})


def test_a_state_is_written_read_and_removed(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
    write_state(tmp_path, state())
    assert read_state(tmp_path) == state()
    assert stat.S_IMODE((tmp_path / STATE).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [STATE]
    remove_state(tmp_path, 1)
    assert read_state(tmp_path) is not None
    remove_state(tmp_path, os.getpid())
    remove_state(tmp_path, os.getpid())
    assert read_state(tmp_path) is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\x00", b'{"pid": 1}'])
def test_a_state_that_cannot_be_read_says_nothing(tmp_path: Path, data: bytes) -> None:
    (tmp_path / STATE).write_bytes(data)
    assert read_state(tmp_path) is None
    write_state(tmp_path, state())
    assert read_state(tmp_path) is not None


def test_a_process_is_known_by_id_and_birth() -> None:
    assert alive(state())
    assert not alive(state(birth="another boot:1"))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        there = state(pid=child.pid, birth=birth(child.pid))
        assert alive(there)
        child.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not alive(there)  # a zombie is nobody
    assert birth(child.pid) is None
    assert not alive(there)


def test_a_server_that_does_not_answer() -> None:
    assert not answers(state())


def test_one_start_at_a_time(tmp_path: Path) -> None:
    inside = threading.Event()
    with starting(tmp_path / "new", timeout=1, stopped=lambda: False):
        with pytest.raises(Busy), starting(tmp_path / "new", timeout=0.1, stopped=lambda: False):
            inside.set()
        with pytest.raises(Busy), starting(tmp_path / "new", timeout=60, stopped=lambda: True):
            inside.set()
    assert not inside.is_set()
    with starting(tmp_path / "new", timeout=0.1, stopped=lambda: False):
        inside.set()
    assert inside.is_set()


def test_a_killed_start_does_not_keep_the_lock(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from harnesstrain.llm.state import starting\n"
        "with starting(pathlib.Path(sys.argv[1]), timeout=5, stopped=lambda: False): print('in', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == b"in\n"
        with pytest.raises(Busy), starting(tmp_path, timeout=0.1, stopped=lambda: False):
            pass
        child.kill()
    with starting(tmp_path, timeout=5, stopped=lambda: False):
        pass


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Prerequisite), starting(tmp_path / "file" / "x", timeout=1, stopped=lambda: False):
        pass
