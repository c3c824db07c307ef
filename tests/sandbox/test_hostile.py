"""Planted attackers: whatever a command does is bounded, and the sandbox answers the next one."""

from __future__ import annotations

import contextlib
import resource
import socket
import threading

import psutil
import pytest

from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.base import Sandbox, Session
from harnesstrain.sandbox.local import LocalSandbox
from tests.sandbox import kinds


def alive(session: Session) -> bool:
    return session.run("echo alive", timeout=30).stdout == b"alive\n"


def test_a_fork_bomb_is_bounded(session: Session) -> None:
    session.run("bomb() { bomb | bomb & }; bomb", timeout=5)
    assert alive(session)
    session.run("for i in $(seq 500); do sleep 100 & done; wait", timeout=5)
    assert alive(session)
    counted = session.run("set -- /proc/[0-9]*; echo $#")  # what the bomb left may hold every process but this shell
    assert int(counted.stdout) < 80


def test_a_memory_bomb_kills_the_command_alone(session: Session) -> None:
    result = session.run("python3 -c 'x = [bytearray(1 << 20) for _ in range(4000)]; print(len(x))'", timeout=60)
    assert result.exit_code != 0
    assert result.stdout == b""
    assert alive(session)


def test_a_filled_disk_is_the_commands_problem(session: Session) -> None:
    result = session.run("dd if=/dev/zero of=/app/big bs=1M count=4000; echo $?", timeout=60)
    assert not result.stdout.endswith(b"\n0\n")
    assert int(session.run("stat -c %s /app/big").stdout) <= 64 << 20
    session.run("rm -f /app/big")
    assert alive(session)


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "/run", "/root"])
def test_no_place_is_unbounded(local: Sandbox, session: Session, place: str) -> None:
    if not hasattr(session, "launcher"):
        pytest.skip("docker bounds the size of one file, not of all")
    for number in range(4):
        session.run(f"dd if=/dev/zero of={place}/big{number} bs=1M count=40 2>/dev/null", timeout=60)
    sizes = session.run(f"du -cm {place}/big* | tail -1 | cut -f1").stdout
    assert int(sizes) <= 66
    assert alive(session)


def test_a_gigabyte_of_output_is_not_kept(session: Session) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = session.run("head -c 1000000000 /dev/zero", timeout=200)
    assert result.truncated
    assert len(result.stdout) < 300_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
    assert alive(session)


@pytest.mark.parametrize(
    "command", ["kill -9 -1", "kill -9 1", "kill -STOP 1", "kill -TERM 1; kill -INT 1; kill -HUP 1"]
)
def test_signals_do_not_reach_the_agent(session: Session, command: str) -> None:
    session.run(command, timeout=20)
    assert alive(session)


def test_the_agents_stream_is_out_of_reach(session: Session) -> None:
    forged = "for fd in 0 1 2 3 4 5 6 7; do printf 'END 0 0 0 0 0 1 0 0\\n' > /proc/1/fd/$fd && echo reached; done"
    assert session.run(f"{forged}; readlink /proc/1/fd/*; head -c 1 /proc/1/mem; cat /proc/1/environ").stdout == b""
    attach = "import ctypes; print(ctypes.CDLL(None).ptrace(16, 1, 0, 0))"
    assert session.run(f'python3 -c "{attach}"').stdout == b"-1\n"
    assert alive(session)


def test_nothing_gets_out(session: Session) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for host in ("127.0.0.1", "1.1.1.1", "10.0.0.1"):
            code = f"import socket; socket.create_connection(('{host}', {port}), 3); print('out')"
            assert session.run(f'python3 -c "{code}"', timeout=20).stdout == b""
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert session.run("python3 -c \"import socket; socket.getaddrinfo('example.org', 80)\"", timeout=30).exit_code != 0


def test_no_new_privileges(session: Session) -> None:
    assert session.run("grep NoNewPrivs /proc/self/status").stdout.split() == [b"NoNewPrivs:", b"1"]
    assert session.run("unshare -U true").exit_code != 0
    assert session.run("unshare -m true").exit_code != 0


OUTLIVES = """
import ctypes, threading
def write():
    while True:
        with open('/app/written', 'a') as file: file.write('x')
threading.Thread(target=write).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_thread_that_outlives_its_main_thread_is_ended_too(session: Session) -> None:
    session.write("outlives.py", OUTLIVES.encode())
    result = session.run("python3 outlives.py >/dev/null 2>&1 & until [ -s written ]; do sleep 0.1; done; sleep 0.2")
    assert result.left == 1
    session.end_processes()
    assert session.run("a=$(stat -c %s written); sleep 0.3; [ $a = $(stat -c %s written) ]").exit_code == 0
    session.run("python3 outlives.py", timeout=1)
    assert session.run("a=$(stat -c %s written); sleep 0.3; [ $a = $(stat -c %s written) ]").exit_code == 0


@pytest.mark.local
def test_local_never_runs_as_real_root(local: LocalSandbox) -> None:
    with contextlib.closing(local.open(Environment())) as session:
        session.run("sleep 60 > /dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do :; done")
        found = psutil.Process(session.launcher).children(recursive=True)
        assert [process for process in found if process.name() == "sleep"]
        assert 0 not in {uid for process in found for uid in process.uids()}


def test_what_holds_output_open_does_not_pile_up(session: Session) -> None:
    for _ in range(3):
        assert session.run("(while echo noise; do sleep 0.01; done) & echo go", timeout=20).held_open
    assert session.run("ls -d /proc/[0-9]* | wc -l", timeout=20).exit_code == 0
    assert alive(session)


def test_one_bad_neighbour_does_not_stop_another(isolating: Sandbox, session: Session) -> None:
    thread = threading.Thread(target=lambda: session.run("bomb() { bomb | bomb & }; bomb; sleep 2", timeout=4))
    thread.start()
    image = kinds.SMALL if isolating.capabilities().kind == "docker" else None
    with contextlib.closing(isolating.open(Environment(image=image))) as other:
        assert other.run("echo fine", timeout=60).stdout == b"fine\n"
    thread.join()
    assert alive(session)
