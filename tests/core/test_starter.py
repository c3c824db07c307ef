"""Processes that the fork server starts: the same as those started alone, and nothing of it is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from harnesstrain.core import starter
from harnesstrain.core.confinement import PROGRAMS, Bind, Confinement, launch_argv, stop, unavailable
from harnesstrain.core.starter import Started

pytestmark = pytest.mark.local
ENV = {"PATH": PROGRAMS, "FACT": "1"}
SHOWN = "id -u; pwd; env | sort; ls -l /proc/self/fd | wc -l; ls /; cat /given/note"
BOUNDS = "grep Sig /proc/self/status; cat /proc/self/limits"
STARTER = """
import os, time
from harnesstrain.core.confinement import PROGRAMS, Confinement
from harnesstrain.core import starter
started = starter.start(Confinement(command=("/bin/sleep", "1000"), env={"PATH": PROGRAMS}))
print(started.pid, starter._starter._server._process.pid, flush=True)
time.sleep(1000)
"""


@pytest.fixture(autouse=True)
def usable() -> None:
    reason = unavailable()
    if reason:
        pytest.skip(f"nothing can be confined here: {reason}")


def confined(*command: str, **options: object) -> Confinement:
    return Confinement(command=command, env=ENV, **options)  # type: ignore[arg-type]


def ended(started: Started | subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    assert started.stdin is not None and started.stdout is not None and started.stderr is not None
    with started.stdin, started.stdout, started.stderr:
        started.stdin.close()
        out, err = started.stdout.read(), started.stderr.read()
        return started.wait(60), out, err


def test_what_is_started_does_not_know_by_whom(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("a note\n")
    what = confined(
        "sh", "-c", f"{SHOWN}; {BOUNDS}; echo said >&2; exit 3", binds=(Bind(tmp_path, "/given"),), memory_mb=256
    )
    started = starter.start(what)
    assert isinstance(started, Started)
    alone = subprocess.run(launch_argv(what), stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    again = starter.start(what)  # with what the server kept of the first start
    assert ended(started) == ended(again) == (alone.returncode, alone.stdout, alone.stderr)
    assert b"a note" in alone.stdout and alone.returncode == 3


def test_a_start_that_fails_says_so_as_it_does_alone() -> None:
    code, _, said = ended(starter.start(confined("true", binds=(Bind(Path("/no/such"), "/x"),))))
    assert code == 125
    assert said.startswith(b"confinement: ") and said.count(b"\n") == 1


def test_it_is_waited_for_and_ended_as_a_popen_is() -> None:
    started = starter.start(confined("sleep", "1000"))
    assert started.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        started.wait(0.01)
    assert stop(started) == started.wait() == started.poll() == 137
    assert not psutil.pid_exists(started.pid)
    started.kill()
    ended(started)


def test_without_the_server_it_is_started_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = starter._Starter()
    monkeypatch.setattr(starter, "_starter", mine)
    first = starter.start(confined("cat"))
    assert mine._server is not None
    os.kill(mine._server._process.pid, signal.SIGKILL)
    mine._server._process.wait()
    second = starter.start(confined("echo", "alone"))
    assert isinstance(first, Started) and isinstance(second, subprocess.Popen)
    assert ended(second) == (0, b"alone\n", b"")
    assert first.stdin is not None
    first.stdin.write(b"still there")
    assert ended(first) == (0, b"still there", b"")


def test_a_fork_of_this_process_leaves_the_server_alone() -> None:
    assert ended(starter.start(confined("true")))[0] == 0
    child = os.fork()
    if child == 0:
        os._exit(0 if starter._starter._server is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert ended(starter.start(confined("true")))[0] == 0
    assert starter._starter._server is not None


def test_nothing_outlives_a_killed_driver() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        launcher, server = (psutil.Process(int(pid)) for pid in driver.stdout.readline().split())
        deadline = time.monotonic() + 20
        while not (inside := launcher.children(recursive=True)) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert launcher.ppid() == driver.pid
        driver.kill()
    _, alive = psutil.wait_procs([launcher, server, *inside], timeout=20)
    assert alive == []
