"""What only the local sandbox does: users, layers, forks of forks, identity, a driver without rights."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harnesstrain.core.errors import Prerequisite, Unsupported
from harnesstrain.core.records.sandbox import Limits
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox import open_sandbox, pins
from harnesstrain.sandbox.local import LocalSandbox
from tests.sandbox import kinds

pytestmark = pytest.mark.local


def dockerfile(folder: Path, *lines: str) -> Environment:
    folder.mkdir(exist_ok=True)
    (folder / "Dockerfile").write_text("\n".join(("FROM anything:1", *lines)) + "\n")
    return Environment(context=folder)


def test_a_dockerfile_user_is_that_user(local: LocalSandbox, tmp_path: Path) -> None:
    environment = dockerfile(
        tmp_path / "e", "RUN useradd -m app", "WORKDIR /work", "RUN chown app /work", "USER app", "RUN id -un > made"
    )
    if os.geteuid() != 0:
        with pytest.raises(Unsupported, match="no user 'app'"):
            local.check(environment)
        return
    with contextlib.closing(local.open(environment)) as session:
        assert session.read("made") == b"app\n"
        assert session.run("id -un; echo $HOME; touch /root/x 2>/dev/null || echo denied").stdout == (
            b"app\n/home/app\ndenied\n"
        )
        session.write("mine", b"x")
        assert session.run("stat -c %U mine made").stdout == b"app\napp\n"
        assert session.run("id -u; touch /root/x && echo allowed", user="root").stdout == b"0\nallowed\n"
        assert session.run("id -un", user="nobody").stdout == b"nobody\n"
        assert session.run("id -un", user="stranger").exit_code == 126


def test_root_is_root_among_its_own_users(local: LocalSandbox) -> None:
    if os.geteuid() != 0:
        pytest.skip("a driver without rights has one user")
    with contextlib.closing(local.open(Environment())) as session:
        assert (
            session.run("cd /tmp; echo x > f; chmod 0 f; chown nobody f; cat f; stat -c %U f").stdout == b"x\nnobody\n"
        )


def test_a_layer_is_built_once_and_shared(local: LocalSandbox, tmp_path: Path) -> None:
    environment = dockerfile(tmp_path / "e", "RUN cat /proc/sys/kernel/random/uuid > /once")
    found: list[bytes] = []

    def work() -> None:
        with contextlib.closing(local.open(environment)) as session:
            found.append(session.read("/once"))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1
    other = dockerfile(tmp_path / "e", "RUN cat /proc/sys/kernel/random/uuid > /once", "RUN true")
    with contextlib.closing(local.open(other)) as session:
        assert session.read("/once") not in found


def test_deletions_and_replacements_are_sealed_too(local: LocalSandbox, tmp_path: Path) -> None:
    environment = dockerfile(
        tmp_path / "e",
        "RUN mkdir -p /d/sub && touch /d/a /d/sub/b",
        "RUN rm -r /d && mkdir /d && touch /d/c && rm /etc/fstab",
    )
    with contextlib.closing(local.open(environment)) as session:
        assert session.run("find /d | sort; ls /etc/fstab").stdout == b"/d\n/d/c\n"
        session.run("rm /d/c; mv /d /e; rm -r /var/log; mkdir /var/log; touch /var/log/new")
        with contextlib.closing(session.fork()) as fork:
            assert fork.run("ls -d /d /e /var/log/*").stdout == b"/e\n/var/log/new\n"


def test_forks_of_forks(local: LocalSandbox) -> None:
    session = local.open(Environment(workdir="/w"))
    chain = [session]
    for number in range(4):
        chain[-1].run(f"echo {number} > f{number}; echo {number} > last; rm -f f{number - 2}")
        chain.append(chain[-1].fork())
    assert chain[-1].run("ls; cat last").stdout == b"f2\nf3\nlast\n3\n"
    again = chain[2].fork()
    assert again.run("ls; cat last").stdout == b"f1\nf2\nlast\n2\n"
    chain[0].close()
    assert chain[-1].run("cat last").stdout == b"3\n"
    for one in (*chain, again):
        one.close()


def test_a_fork_keeps_times_inodes_links_and_memory_files(local: LocalSandbox) -> None:
    with contextlib.closing(local.open(Environment(workdir="/w"))) as session:
        session.run("echo a > a; ln a b; ln -s a c; mkfifo p; echo shm > /dev/shm/x; truncate -s 1M holes")
        shown = "stat -c '%n %i %h %s %b %Y %y' a b holes; cat c; test -p p && cat /dev/shm/x"
        before = session.run(shown).stdout
        with contextlib.closing(session.fork()) as fork:
            assert fork.run(shown).stdout == before


def test_what_runs_ends_with_the_fork(local: LocalSandbox) -> None:
    with contextlib.closing(local.open(Environment(workdir="/w"))) as session:
        session.run("(while :; do echo forged > reward; sleep 0.01; done) > /dev/null 2>&1 &")
        with contextlib.closing(session.fork()) as fork:
            fork.run("echo graded > reward; sleep 0.3")
            assert fork.read("reward") == b"graded\n"
            assert session.agent.others() == 0


def test_pins_hold(local: LocalSandbox) -> None:
    seen = []
    for _ in range(2):
        with contextlib.closing(local.open(Environment(workdir="/w"))) as session:
            seen.append(
                session.run(
                    'echo $$; python3 -c \'print(object(), {"a", "b", "c"})\'; cut -d- -f1 /proc/self/maps | head -3;'
                    "cat /proc/uptime /proc/loadavg /proc/meminfo /proc/stat /proc/cpuinfo; nproc; nproc --all;"
                    "python3 -c 'import os; print(os.cpu_count())'; env | sort; date -d @0; ulimit -a; hostname"
                ).stdout
            )
    assert seen[0] == seen[1]
    assert f"PYTHONHASHSEED={pins.ENVIRONMENT['PYTHONHASHSEED']}".encode() in seen[0]


def test_limits_follow_the_task_then_the_regime(local: LocalSandbox) -> None:
    with contextlib.closing(local.open(Environment(storage_mb=32), limits=Limits(storage_mb=500))) as session:
        assert session.run("df -m / | tail -1 | awk '{print $2}'").stdout == b"32\n"
    with contextlib.closing(local.open(Environment(), limits=Limits(storage_mb=50))) as session:
        assert session.run("df -m / | tail -1 | awk '{print $2}'").stdout == b"50\n"


def test_network_the_sandbox_was_not_given_is_refused(local: LocalSandbox) -> None:
    with pytest.raises(Unsupported, match="network"):
        local.check(Environment(network="host"))
    with pytest.raises(Unsupported, match="image"):
        local.check(Environment(image="debian:12"))


def test_the_hosts_network_when_asked_for(tmp_path: Path) -> None:
    sandbox = kinds.local(tmp_path, network="host")
    assert sandbox.identity().network == "host"
    with contextlib.closing(sandbox.open(Environment(network="host"))) as session:
        names = "import socket; print(len(socket.if_nameindex()))"
        assert int(session.run(f"python3 -c '{names}'").stdout) == len(__import__("socket").if_nameindex())
    with contextlib.closing(sandbox.open(Environment(network="none"))) as session:  # a task that wants none gets none
        assert session.run(f"python3 -c '{names}'").stdout == b"1\n"


def test_a_session_whose_agent_is_gone_says_so(local: LocalSandbox) -> None:
    from harnesstrain.core.errors import SandboxFailure

    session = local.open(Environment())
    os.kill(session.launcher, 15)
    with pytest.raises(SandboxFailure, match="went away|Broken pipe"):
        for _ in range(3):
            session.run("true")
    session.close()


def test_a_machine_without_bubblewrap_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harnesstrain.sandbox.local.unavailable", lambda: "bubblewrap is not installed")
    with pytest.raises(Prerequisite, match="bubblewrap is not installed"):
        open_sandbox("local")


@pytest.fixture
def cache_of_another() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid() != 0:
            pytest.skip("every other test here runs as such a driver already")
        os.chown(folder, 54321, 54321)
        yield Path(folder)


def test_a_driver_without_rights_can_use_it(cache_of_another: Path) -> None:
    python = Path("/usr/bin/python3")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if not (python.exists() and python.resolve().name == f"python{version}"):
        pytest.skip(f"no system python{version} that every user may start")
    code = (
        f"import sys; sys.path[:0] = {[str(Path(__file__).parents[2]), *sys.path]!r}; sys.dont_write_bytecode = True\n"
        "from pathlib import Path\n"
        "from harnesstrain.core.confinement import unavailable\n"
        "if unavailable(): sys.exit('unavailable: ' + unavailable())\n"
        "from harnesstrain.sandbox.local import LocalSandbox\n"
        "from harnesstrain.core.records.task import Environment\n"
        f"sandbox = LocalSandbox(cache_dir=Path({str(cache_of_another)!r}))\n"
        "session = sandbox.open(Environment(workdir='/w'))\n"
        "session.run('echo kept > f; rm /etc/fstab')\n"
        "fork = session.fork()\n"
        "print(fork.run('id -u; cat f; ls /etc/fstab').stdout, sandbox.capabilities().notes)\n"
        "sandbox.close()\n"
    )
    done = subprocess.run(
        ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", python, "-S", "-c", code],
        capture_output=True,
        text=True,
        cwd="/",
        env={"HOME": "/", "PATH": os.environ["PATH"]},
        timeout=60,
        check=False,
    )
    if "unavailable: " in done.stderr or "ModuleNotFoundError" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("b'0\\nkept\\n'")
    assert "per process" in done.stdout


def test_without_python_the_shell_agent_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harnesstrain.sandbox.local.PYTHON", "/no/python3")
    sandbox = kinds.local(tmp_path)
    with contextlib.closing(sandbox.open(Environment(workdir="/w"))) as session:
        assert session.agent.kind == "sh"
        assert session.run("echo out; echo err >&2; exit 3").exit_code == 3
        session.write("f", b"\0\xff")
        assert session.run("cat f", timeout=20).stdout == b"\0\xff"
        assert session.run("sleep 50", timeout=0.3).timed_out
        with contextlib.closing(session.fork()) as fork:
            assert fork.read("f") == b"\0\xff"


def test_a_full_disk_of_the_driver_is_said_in_one_line(local: LocalSandbox, tmp_path: Path) -> None:
    from harnesstrain.sandbox.layers import Layers

    def full(part: Path) -> dict[str, str]:
        raise OSError(28, "No space left on device")

    with pytest.raises(Prerequisite, match="No space left on device"):
        Layers(tmp_path / "layers").obtain("d", full)
    assert not list((tmp_path / "layers").glob("part-*"))
