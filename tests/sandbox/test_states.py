"""Kept states of the local sandbox: a restored session is the live one, in all that a command can see of files."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from harnesstrain.core.errors import SandboxFailure
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.local import LocalSandbox
from harnesstrain.sandbox.local_session import LocalSession
from tests.sandbox.states import ENVIRONMENT, LOOK, key

pytestmark = pytest.mark.local


@pytest.fixture
def live(local: LocalSandbox) -> LocalSession:
    return local.open(ENVIRONMENT)


def restored(local: LocalSandbox, live: LocalSession) -> LocalSession:
    name = key()
    assert live.seal(name)
    assert local.sealed([key(), name, key()]) == name
    return local.open(ENVIRONMENT, at=name)


def same(local: LocalSandbox, live: LocalSession, look: str = LOOK) -> bytes:
    """What both see, which is equal."""
    with contextlib.closing(live), contextlib.closing(restored(local, live)) as copy:
        assert copy.state() == live.state() is not None
        assert copy.workdir == live.workdir
        seen, again = live.run(look).stdout, copy.run(look).stdout
        assert again.decode(errors="replace").splitlines() == seen.decode(errors="replace").splitlines()
        assert seen == again
        return seen


CHANGES = {
    "files and permissions": "echo a > a; mkdir -p d/e; echo b > d/e/b; chmod 600 a; chmod 1777 d; chmod 2755 d/e",
    "a setuid bit": "cp /usr/bin/id own; chmod 4755 own; chmod 6711 own",
    "links": "echo a > a; mkdir d; ln a d/a; ln a b; ln -s a s; ln -s /nowhere dangling; ln -s . loop; ln s t",
    "a hole": "truncate -s 300M hole; printf x | dd of=hole bs=1 seek=100000000 conv=notrunc; printf end >> hole",
    "attributes": "python3 -c \"import os; open('f', 'w'); os.setxattr('f', 'user.note', b'\\0\\xff'); os.mkdir('g'); "
    "os.setxattr('g', 'user.n', b'1')\"",
    "deleted files of the base": "rm /etc/fstab /etc/shells; ls /etc",
    "a directory of the base made afresh": "rm -r /var/log /etc/skel; mkdir /var/log; echo x > /var/log/x",
    "renames": "mv /etc/hosts /etc/guests; mkdir d; echo 1 > d/1; mv d e; mv e/1 one; mv /etc/shells /app/",
    "changed files of the base": "chmod 600 /etc/hosts; echo more >> /etc/hostname; touch -d @5.123456789 /etc/group",
    "memory files": "echo shared > /dev/shm/file; mkdir /dev/shm/d; echo x > /run/x; echo t > /tmp/t",
    "a git repository": "git init -q r; cd r; git config user.email a@b; git config user.name a; seq 9 > f; git add f; "
    "git commit -qm one; echo 2 > f; git rm -q --cached f; git add f; git stash -q; git tag v1",
    "other owners": "id nobody && echo n > n && chown nobody n && mkdir m && chown 33:33 m",
    "names": "python3 -c \"import os\nfor name in (b'new\\nline', b'\\xff\\xfe', 'ü☃'.encode(), b' ', b'-r', b'a' * 9):"
    "\n open(name, 'w').close()\n os.mkdir(name + b'.d')\"",
    "times": "touch -d @1.5 old; mkdir d; touch d/x; touch -d @2.000000001 d; touch -h -d @3 l 2>/dev/null; sleep 0.01",
    "a pipe": "mkfifo -m 640 pipe",
    "the order of names": "for n in 5 3 9 1 7; do echo $n > f$n; done; rm f3; mv f9 f2; mkdir z y x; mv f1 z; mv f5 z",
    "the working directory gone": "cd /; rm -r /app",
    "many processes": "for n in $(seq 300); do /bin/true; done",
    "nothing": "true",
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_restored_session_sees_what_the_live_one_sees(local: LocalSandbox, live: LocalSession, what: str) -> None:
    live.run(CHANGES[what], timeout=60)
    assert b"pid " in same(local, live, LOOK) or what == "the working directory gone"


def test_both_go_on_alike(local: LocalSandbox, live: LocalSession) -> None:
    live.run("mkdir d; echo 1 > d/f; rm -r /var/log; git init -q r; cd r; echo 1 > f; git add f")
    with contextlib.closing(live), contextlib.closing(restored(local, live)) as copy:
        for command in (
            "echo $$; rm -r d; mkdir d; ls -A d; mkdir -p /var/log/x; ls -A /var/log",
            "cd r; git status -s; git -c user.name=a -c user.email=b commit -qm x; git log --format=%H; echo $!",
            "mv d e; rmdir e; rm /etc/hosts; ls -U /etc | head -3; python3 -c 'import os; print(os.getpid())'",
        ):
            assert copy.run(command).stdout == live.run(command).stdout
            assert copy.state() == live.state()


def test_a_state_of_a_restored_session_and_the_fork_of_one(local: LocalSandbox, live: LocalSession) -> None:
    live.run("echo 1 > one; rm /etc/fstab")
    with contextlib.closing(live), contextlib.closing(restored(local, live)) as second:
        second.run("echo 2 > two; rm -r /var/log")
        with contextlib.closing(restored(local, second)) as third:
            assert third.run("cat one two; ls /etc/fstab /var/log").stdout == b"1\n2\n"
            with contextlib.closing(third.fork()) as fork:
                assert fork.run("cat one two; ls /etc/fstab /var/log").stdout == b"1\n2\n"
                assert not fork.seal(key())
                assert fork.state() is None


def test_git_finds_nothing_changed_after_a_restore(local: LocalSandbox, live: LocalSession) -> None:
    live.run("git init -q r; cd r; seq 50 | split -l 1; git add .; git -c user.name=a -c user.email=b commit -qm x")
    with contextlib.closing(live), contextlib.closing(restored(local, live)) as copy:
        assert copy.run("cd r; git diff-index HEAD; git diff-files").stdout == b""
        assert copy.run("cd r; GIT_CONFIG_COUNT=0 git diff-index HEAD | wc -l").stdout == b"50\n"
        assert copy.run("cd r; echo x > xaa; git diff-index --name-only HEAD").stdout == b"xaa\n"
        own = (
            "cd r; git config core.trustctime true; git config --local core.trustctime; git config a.b c; git config -l"
        )
        said = copy.run(own).stdout
        assert said.startswith(b"true\n")
        assert b"a.b=c\n" in said


def test_make_finds_nothing_to_do_after_a_restore(local: LocalSandbox, live: LocalSession) -> None:
    if not shutil.which("make"):
        pytest.skip("no make on this machine")
    live.run("printf 'b: a\\n\\tcp a b\\n' > Makefile; touch a; make; sleep 0.01; touch a")
    with contextlib.closing(live), contextlib.closing(restored(local, live)) as copy:
        assert copy.run("make -n").stdout == live.run("make -n").stdout == b"cp a b\n"


def test_process_ids_go_on(local: LocalSandbox, live: LocalSession) -> None:
    live.run("for n in $(seq 40); do /bin/true; done; python3 -c 'import threading as t; t.Thread(target=int).start()'")
    with contextlib.closing(live), contextlib.closing(restored(local, live)) as copy:
        for _ in range(3):
            command = "echo $$ $BASHPID; sh -c 'echo $$'; (sleep 0 & echo $!; wait)"
            assert copy.run(command).stdout == live.run(command).stdout


@pytest.mark.parametrize(
    ("what", "command"),
    [
        ("a background process", "sleep 100 >/dev/null 2>&1 &"),
        ("a daemon", "setsid sh -c 'sleep 100 & sleep 100' >/dev/null 2>&1 &"),
        (
            "a thread that outlives its main thread",
            "python3 -c 'import ctypes, threading, time; threading.Thread(target=time.sleep, args=(100,)).start(); "
            "ctypes.CDLL(None).pthread_exit(None)' >/dev/null 2>&1 & sleep 0.5",
        ),
        ("shared memory", "python3 -c 'import ctypes; print(ctypes.CDLL(None).shmget(7, 4096, 0o1666))'"),
        ("a semaphore", "python3 -c 'import ctypes; print(ctypes.CDLL(None).semget(7, 1, 0o1666))'"),
        ("a message queue", "python3 -c 'import ctypes; print(ctypes.CDLL(None).msgget(7, 0o1666))'"),
        ("a socket", "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'"),
        ("a command that was killed", "kill -9 $$"),
    ],
)
def test_what_files_do_not_hold_is_not_kept(local: LocalSandbox, live: LocalSession, what: str, command: str) -> None:
    with contextlib.closing(live):
        live.run(command, timeout=20)
        name = key()
        assert not live.seal(name), what
        assert local.sealed([name]) is None
        assert live.run("echo on").stdout == b"on\n"


def test_queues_that_nothing_shows_cannot_be_made(live: LocalSession) -> None:
    with contextlib.closing(live):
        made = "import ctypes; print(ctypes.CDLL(None).mq_open(b'/q', 0o102, 0o600, None))"
        assert live.run(f'python3 -c "{made}"').stdout == b"-1\n"


def test_it_is_kept_again_once_the_process_is_gone(local: LocalSandbox, live: LocalSession) -> None:
    with contextlib.closing(live):
        live.run("sleep 100 >/dev/null 2>&1 & echo $! > pid")
        assert not live.seal(key())
        live.run("kill -9 $(cat pid); sleep 0.2")
        assert live.seal(key())


def test_a_timed_out_step_is_not_kept_and_the_next_is(live: LocalSession) -> None:
    with contextlib.closing(live):
        assert live.run("echo half > half; sleep 100", timeout=0.3).timed_out
        assert not live.seal(key())
        live.run("true")
        assert live.seal(key())


def test_the_session_that_was_sealed_is_not_disturbed(local: LocalSandbox, live: LocalSession) -> None:
    with contextlib.closing(live), contextlib.closing(local.open(ENVIRONMENT)) as other:
        other.run("echo a > a; mkdir d; ln -s a l")
        live.run("echo a > a; mkdir d; ln -s a l")
        look = "stat -c '%n %i %x %y %z %w %h %s' a d l . /"
        before = live.run(look).stdout
        for _ in range(3):
            assert live.seal(key())
            assert live.state()
        assert live.run(look).stdout == before
        for _ in range(2):
            other.run(look)
        inode = "touch new; stat -c %i new; echo $$"
        assert live.run(inode).stdout == other.run(inode).stdout


def test_a_state_of_another_environment_is_refused(local: LocalSandbox, live: LocalSession, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM x\nRUN echo other > /other\n")
    name = key()
    with contextlib.closing(live):
        assert live.seal(name)
    with pytest.raises(SandboxFailure, match="another environment"):
        local.open(Environment(context=tmp_path), at=name)
    assert local.sealed([name]) is None


def test_a_task_with_layers_and_a_user_of_its_own(local: LocalSandbox, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a driver without rights has one user")
    lines = ("RUN useradd -m app && mkdir /d && touch /d/a /d/b", "RUN rm /d/a", "WORKDIR /home/app", "USER app")
    (tmp_path / "Dockerfile").write_text("\n".join(("FROM x", *lines)) + "\n")
    environment = Environment(context=tmp_path)
    name = key()
    with contextlib.closing(local.open(environment)) as live:
        nothing = live.state()
        live.run("id > mine; rm -rf /d/b; mkdir -p sub")
        live.run("rm -r /d; mkdir /d; echo back > /d/b", user="root")
        assert live.seal(name)
        with contextlib.closing(local.open(environment, at=name)) as copy:
            look = "id; pwd; ls -la --full-time . /d; cat mine"
            assert copy.run(look).stdout == live.run(look).stdout
            assert copy.state() == live.state() != nothing


def test_a_driver_without_rights_keeps_states_too(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("every other test here runs as such a driver already")
    python = Path("/usr/bin/python3")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if not (python.exists() and python.resolve().name == f"python{version}"):
        pytest.skip(f"no system python{version} that every user may start")
    with tempfile.TemporaryDirectory() as cache:
        os.chown(cache, 54321, 54321)
        code = WITHOUT_RIGHTS.format(path=[str(Path(__file__).parents[2]), *sys.path], cache=cache, look=LOOK)
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
    assert done.stdout == "True True True False\nTrue True\n"


WITHOUT_RIGHTS = """
import sys; sys.path[:0] = {path!r}; sys.dont_write_bytecode = True
from pathlib import Path
from harnesstrain.core.confinement import unavailable
if unavailable(): sys.exit('unavailable: ' + unavailable())
from harnesstrain.sandbox.local import LocalSandbox
from harnesstrain.core.records.task import Environment
sandbox = LocalSandbox(cache_dir=Path({cache!r}))
environment, look = Environment(workdir="/app"), {look!r}
live = sandbox.open(environment)
live.run("echo a > a; ln a b; ln -s a s; rm /etc/fstab; rm -r /var/log; mkdir /var/log; mkfifo p; chmod 4700 a")
live.run("mkdir d; touch -d @7 d; truncate -s 1G hole; echo x > /dev/shm/x; chmod 600 /etc/hosts")
kept = live.seal("ab" * 32)
copy = sandbox.open(environment, at="ab" * 32)
same = live.state() == copy.state() is not None
seen = live.run(look).stdout
equal = copy.run(look).stdout == seen
live.run("chmod 0 a")  # what this driver may not read it does not keep
print(kept, same, equal, live.seal("cd" * 32))
print(sandbox.capabilities().snapshots, len(seen) > 2000)
sandbox.close()
"""
