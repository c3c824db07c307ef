"""Confinement: what is seen, what is bounded, who it runs as, what is left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from harnesstrain.core.confinement import (
    PROGRAMS,
    Bind,
    Confinement,
    bounds_memory,
    bubblewrap,
    launch_argv,
    stop,
    unavailable,
)

pytestmark = pytest.mark.local
ENV = {"PATH": PROGRAMS}


@pytest.fixture(autouse=True)
def usable() -> None:
    reason = unavailable()
    if reason:
        pytest.skip(f"nothing can be confined here: {reason}")


def run(*command: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    confinement = Confinement(command=command, env=ENV, **options)  # type: ignore[arg-type]
    return subprocess.run(launch_argv(confinement), capture_output=True, timeout=60, check=False)


def test_exit_codes_and_streams_are_the_commands() -> None:
    done = run("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    assert run("sh", "-c", "kill -9 $$").returncode == 137


def test_a_confinement_that_cannot_be_made_says_why() -> None:
    done = run("true", binds=(Bind(Path("/no/such"), "/x"),))
    assert done.returncode == 125
    assert done.stderr.startswith(b"confinement: ")
    assert b"/no/such" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_private_files_are_seen_only_where_they_are_bound(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / "note").write_text("secret")
    (private / "note").chmod(0o600)
    done = run("cat", "/given/note", binds=(Bind(private, "/given"),))
    assert done.stdout == b"secret"
    assert run("sh", "-c", "echo x > /given/note", binds=(Bind(private, "/given"),)).returncode != 0
    assert run("cat", str(private / "note")).returncode != 0
    assert run("cat", "/etc/shadow").returncode != 0


def test_what_is_written_belongs_to_the_starter(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    done = run(
        "sh", "-c", "echo new > new; mkdir d; rm -f old; id -u", binds=(Bind(folder, "/work", True),), cwd="/work"
    )
    assert done.stdout == b"1000\n"
    assert {path.stat().st_uid for path in folder.iterdir()} == {os.geteuid()}
    assert (folder / "new").read_text() == "new\n"


def test_the_environment_is_given_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "secret-value")
    monkeypatch.setenv("TOKEN", "given-value")
    confinement = Confinement(command=("env",), env=ENV, inherit=("TOKEN",))
    argv = launch_argv(confinement)
    assert not any("given-value" in word or b"given-value".hex() in word for word in argv)
    done = subprocess.run(argv, capture_output=True, check=True, timeout=60)
    assert b"secret-value" not in done.stdout
    assert b"TOKEN=given-value" in done.stdout


def test_no_place_outside_can_be_written() -> None:
    for place in ("/x", "/usr/x", "/etc/x", "/dev/x", "/proc/sys/kernel/panic", "/sys/x"):
        assert run("sh", "-c", f"echo 1 > {place}").returncode != 0, place
    done = run("sh", "-c", "dd if=/dev/zero of=/tmp/x bs=1M count=64 2>/dev/null; stat -c %s /tmp/x", tmpfs_mb=16)
    assert int(done.stdout) <= 16 << 20


def test_files_are_shown() -> None:
    assert run("cat", "/etc/motto", files={"/etc/motto": "know thyself\n"}).stdout == b"know thyself\n"


def test_there_is_no_network() -> None:
    code = "import socket; print(sorted(name for _, name in socket.if_nameindex()))"
    assert run("python3", "-c", code).stdout == b"['lo']\n"


def test_processes_are_bounded() -> None:
    done = run("sh", "-c", "for i in $(seq 100); do sleep 1 & done; echo all", pids=20)
    assert done.stdout == b""
    assert b"ork" in done.stderr


def test_memory_is_bounded() -> None:
    done = run("python3", "-c", "x = bytearray(400 << 20); print(len(x))", memory_mb=120)
    assert done.returncode != 0
    assert done.stdout == b""


def test_no_namespaces_of_its_own_unless_allowed() -> None:
    assert run("unshare", "-U", "true").returncode != 0
    assert run("unshare", "-U", "true", nested=True).returncode == 0


def test_it_ends_with_stop_and_leaves_no_group() -> None:
    before = groups(os.getpid())  # of launchers that other tests killed: swept when this process is gone
    command = ("sh", "-c", "trap '' TERM INT HUP; setsid sleep 600 & echo up; sleep 600")
    process = subprocess.Popen(launch_argv(Confinement(command=command, env=ENV, memory_mb=64)), stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"up\n"
    children = psutil.Process(process.pid).children(recursive=True)
    assert 0 not in {uid for child in children for uid in child.uids()} or os.geteuid() != 0
    assert stop(process) == 137
    assert stop(process) == 137
    process.stdout.close()
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert set(groups(os.getpid())) <= set(before)


def groups(owner: int) -> list[Path]:
    root = Path("/sys/fs/cgroup")
    return [path for depth in ("", "*/") for path in root.glob(f"{depth}harnesstrain-{owner}-*")]


def test_it_ends_with_its_starter() -> None:
    code = (
        "import subprocess, time\n"
        "from harnesstrain.core.confinement import *\n"
        "c = Confinement(command=('sh', '-c', 'echo $$; sleep 600'), env={'PATH': PROGRAMS}, memory_mb=64)\n"
        "p = subprocess.Popen(launch_argv(c), stdout=subprocess.PIPE)\n"
        "p.stdout.readline(); print(p.pid, flush=True); time.sleep(600)\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert starter.stdout
    launcher = psutil.Process(int(starter.stdout.readline()))
    family = [launcher, *launcher.children(recursive=True)]
    assert len(family) >= 3
    starter.kill()
    starter.communicate()
    end = time.monotonic() + 20
    while time.monotonic() < end and (any(one.is_running() for one in family) or groups(starter.pid)):
        time.sleep(0.05)
    assert not [one for one in family if one.is_running()]
    assert not groups(starter.pid)


def test_it_works_for_a_user_without_rights(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("the other tests run as such a user already")
    python = Path("/usr/bin/python3")
    if not python.exists():
        pytest.skip("no interpreter that every user may start")
    package = Path(__file__).resolve().parents[2]
    code = (
        f"import sys; sys.path.insert(0, {str(package)!r}); sys.dont_write_bytecode = True\n"
        "import subprocess\n"
        "from harnesstrain.core.confinement import *\n"
        "print(unavailable())\n"
        "c = Confinement(command=('sh', '-c', 'id -u; echo x > /nope'), env={'PATH': PROGRAMS}, pids=30)\n"
        "d = subprocess.run(launch_argv(c), capture_output=True)\n"
        "print(d.stdout, d.returncode)\n"
    )
    done = subprocess.run(
        ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", python, "-c", code],
        capture_output=True,
        text=True,
        cwd="/",
        timeout=60,
        check=False,
    )
    if "None" not in done.stdout:
        assert "could not be started" in done.stdout, done.stderr
        pytest.skip(f"this machine gives users no namespaces: {done.stdout.strip()}")
    assert done.stdout.splitlines()[1] == "b'1000\\n' 2"


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bubblewrap()
    monkeypatch.setattr("harnesstrain.core.confinement.bubblewrap", lambda: None)
    unavailable.cache_clear()
    try:
        assert "bubblewrap" in (unavailable() or "")
    finally:
        unavailable.cache_clear()


def test_root_with_control_groups_bounds_all_processes_together() -> None:
    if not bounds_memory():
        pytest.skip("no control groups: memory is bounded per process")
    each = "python3 -c 'x = bytearray(60 << 20); import time; time.sleep(3); print(1)'"
    done = run("sh", "-c", f"for i in 1 2 3 4; do {each} & done; wait", memory_mb=150)
    assert done.stdout.count(b"1") < 4
