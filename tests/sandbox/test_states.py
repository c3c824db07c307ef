"""Kept states of the local sandbox: a restored session is the live one, in all that a command can see of files."""

from __future__ import annotations

import contextlib
import marshal
import os
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import zlib
from io import BufferedWriter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harnesstrain.core import packed
from harnesstrain.core.errors import SandboxFailure
from harnesstrain.core.records.sandbox import Limits
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.local import LocalSandbox
from harnesstrain.sandbox.local_session import LocalSession
from harnesstrain.sandbox.states import States, StatesSize
from tests.sandbox import kinds

pytestmark = pytest.mark.local

ENVIRONMENT = Environment(workdir="/app")
LOOK = r"""
echo "pid $$"
cd /; ls -lUR --full-time /app /var /root /home /tmp /dev/shm
find / /dev/shm \( -path /proc -o -path /sys -o -path /usr -o -path /dev \) -prune -o \
  -printf '%p|%y|%m|%U|%G|%s|%b|%k|%n|%l|%A+|%T+|%S\n'
find /app /dev/shm /etc -xdev -type f -print0 | sort -z | xargs -0 sha256sum
python3 - <<'END'
import os
for folder, folders, files in os.walk('/app'):
    for name in folders + files:
        path = os.path.join(folder, name)
        print(ascii(path), [(key, os.getxattr(path, key, follow_symlinks=False))
                            for key in os.listxattr(path, follow_symlinks=False)])
END
"""
"""Everything but device, inode and the times at which these changed and were made."""


def key() -> str:
    return secrets.token_hex(32)


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


# --- hostile ---


def test_no_link_leads_out_of_the_tree(local: LocalSandbox, live: LocalSession, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary")
    tmp_path.chmod(0o755)
    for name in ("changes", "fs", "file", "d/deeper"):
        live.run(f"mkdir -p $(dirname {name}); ln -s {secret} {name}; ln -s {tmp_path} {name}.d; ln -s / {name}.root")
    name = key()
    with contextlib.closing(live):
        assert live.seal(name)
        [kept] = local.states.root.glob(f"*/{name}")
        assert b"canary" not in kept.read_bytes()
        with contextlib.closing(local.open(ENVIRONMENT, at=name)) as copy:
            assert copy.run("readlink file; cat file").stdout == f"{secret}\n".encode()
            assert copy.run("echo x > file.d/made").exit_code != 0
            copy.run("rm -rf file.d/ d/deeper.root/")
    assert secret.read_text() == "canary"
    assert list(tmp_path.iterdir()) == [secret]


def test_a_link_swapped_in_while_it_is_looked_at_is_not_followed(local: LocalSandbox, live: LocalSession) -> None:
    swap = "while :; do mkdir -p d; echo x > d/f; rm -rf d; ln -s /etc d; rm d; done >/dev/null 2>&1"
    with contextlib.closing(live):
        live.run(f"({swap}) & sleep 0.1", timeout=30)
        for _ in range(30):
            live.state()
            assert not live.seal(key())


@pytest.mark.parametrize(
    "command",
    [
        "head -c 300000000 /dev/zero | tr '\\0' x > big",
        'python3 -c "import os\nfor n in range(120000): os.close(os.open(str(n), 65))"',
        "python3 -c \"import os\nfor n in range(300): os.mkdir('d'); os.chdir('d')\"",
    ],
)
def test_what_is_too_large_is_not_kept(local: LocalSandbox, live: LocalSession, command: str) -> None:
    with contextlib.closing(live):
        assert live.run(command, timeout=120).exit_code == 0
        name = key()
        assert not live.seal(name)
        assert local.sealed([name]) is None
        assert not list(local.states.root.glob("part-*"))
        assert live.run("echo on").stdout == b"on\n"


def test_a_tree_with_a_device_is_not_packed(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root makes devices")
    (tmp_path / "tree").mkdir()
    os.mknod(tmp_path / "tree" / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    folder = os.open(tmp_path / "tree", os.O_RDONLY)
    try:
        with (tmp_path / "packed").open("wb") as out, pytest.raises(packed.Unfit, match="device"):
            packed.pack(folder, out, {}, newest_first=True, max_bytes=1000, max_entries=10)
    finally:
        os.close(folder)


@pytest.mark.parametrize("name", [b"..", b"../out", b"/out", b"", b"."])
def test_a_forged_name_leads_nowhere(tmp_path: Path, name: bytes) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_text("forged")
    (tmp_path / "target").mkdir()
    folder = os.open(tmp_path / "tree", os.O_RDONLY)
    with (tmp_path / "packed").open("wb") as out:
        packed.pack(folder, out, {}, newest_first=True, max_bytes=10, max_entries=10)
    os.close(folder)
    data, tail = (tmp_path / "packed").read_bytes(), packed.TRAILER.size
    form, n_bytes, n_index, n_facts, *sums = packed.TRAILER.unpack(data[-tail:])
    entries = marshal.loads(data[n_bytes : n_bytes + n_index])
    entries[1] = (0, name, *entries[1][2:])
    index, facts = marshal.dumps(entries, packed.MARSHAL), data[n_bytes + n_index : -tail]
    trailer = packed.TRAILER.pack(form, n_bytes, len(index), n_facts, sums[0], zlib.crc32(index), sums[2])
    (tmp_path / "packed").write_bytes(data[:n_bytes] + index + facts + trailer)
    file = os.open(tmp_path / "packed", os.O_RDONLY)
    with pytest.raises(packed.Damaged):
        packed.unpack(file, str(tmp_path / "target"), owners=False)
    os.close(file)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["packed", "target", "tree"]


def test_a_state_of_another_environment_is_refused(local: LocalSandbox, live: LocalSession, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM x\nRUN echo other > /other\n")
    name = key()
    with contextlib.closing(live):
        assert live.seal(name)
    with pytest.raises(SandboxFailure, match="another environment"):
        local.open(Environment(context=tmp_path), at=name)


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


# --- state digests ---


def digest_after(local: LocalSandbox, *commands: str) -> str | None:
    with contextlib.closing(local.open(ENVIRONMENT)) as session:
        for command in commands:
            session.run(command)
        return session.state()


def test_a_digest_is_of_content_alone(local: LocalSandbox) -> None:
    nothing = digest_after(local)
    assert nothing
    for unchanged in (
        "touch -d @7 /etc/hosts; chmod 644 /etc/hosts",
        "cat /etc/hosts > /tmp/h; cat /tmp/h > /etc/hosts; rm /tmp/h",
        "mv /etc/shells /tmp/s; cp -p /tmp/s /etc/shells; rm /tmp/s",
        "mkdir new; touch new/x; rm -r new; true > x; rm x",
        "cp -a /etc/skel /tmp/skel; rm -r /etc/skel; mv /tmp/skel /etc/skel",
    ):
        assert digest_after(local, unchanged) == nothing, unchanged
    changed = [
        "rm /etc/hosts",
        "rm -r /var/log",
        "chmod 600 /etc/hosts",
        "echo x >> /etc/hosts",
        "touch empty",
        "mkdir empty",
        "mkfifo empty",
        "ln -s a empty",
        "ln -s b empty",
        "truncate -s 5 empty",
        "printf 'aaaaa' > empty",
        "touch empty; chmod 600 empty",
        "touch other",
        "rm -r /etc/pam.d; mkdir /etc/pam.d",
        "echo x > /dev/shm/x",
        "chmod 700 /",
    ]
    if os.geteuid() == 0:
        changed.append("touch empty; chown nobody empty")
    found = [digest_after(local, command) for command in changed]
    assert len({nothing, *found}) == len(changed) + 1
    zeros = "head -c 3000000 /dev/zero > z; printf x >> z"
    hole = "truncate -s 3000000 z; printf x >> z"
    assert digest_after(local, zeros) == digest_after(local, hole) != digest_after(local, "truncate -s 3000001 z")


def test_the_notes_of_git_do_not_count_and_what_is_staged_does(local: LocalSandbox) -> None:
    def after(*commands: str) -> str | None:
        return digest_after(local, "git init -q . && echo 1 > f && echo 2 > g && git add f", *commands)

    assert after() == after("touch -d @99 f; git update-index --refresh")
    assert after("git rm -q --cached f") != after()
    assert after("git update-index --chmod=+x f") != after()
    assert after("git update-index --index-version 4; git add g") == after("git add g")


# --- many at once, and ends ---


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


# --- chains ---

NAMES = st.sampled_from(["a", "b", "d/c", "d/e/f", "/etc/hosts", "/etc/skel/x", "/var/log/y", "/dev/shm/s", "é ü"])
STEPS = st.one_of(
    st.builds("mkdir -p \"$(dirname '{0}')\"; echo {1} >> '{0}'".format, NAMES, st.integers(0, 99)),
    st.builds("rm -rf '{}'".format, NAMES),
    st.builds("rm -rf \"$(dirname '{}')\"".format, NAMES.filter(lambda name: name != "a")),
    st.builds("mv -T '{}' '{}'".format, NAMES, NAMES),
    st.builds("ln -f '{}' '{}'".format, NAMES, NAMES),
    st.builds("ln -sfn '{}' '{}'".format, NAMES, NAMES),
    st.builds("chmod {} '{}'".format, st.sampled_from(["600", "4755", "1777", "u+w,g-r"]), NAMES),
    st.builds("touch -d @{} '{}'".format, st.integers(0, 10**9), NAMES),
    st.builds("truncate -s {} '{}'".format, st.integers(0, 50_000_000), NAMES),
    st.builds("mkdir -p '{}'; mkfifo p{}".format, NAMES, st.integers(0, 3)),
    st.just("git init -q . ; git add -A; git -c user.name=a -c user.email=b commit -qm x; git status -s"),
    st.just("git stash -qu; git checkout -qf HEAD; git gc -q"),
    st.just("sleep 0.2 >/dev/null 2>&1 &"),
    st.just("cp -a /etc/skel /app/; rm -rf /etc/skel; mkdir /etc/skel"),
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chain=st.lists(STEPS, min_size=2, max_size=12), data=st.data())
def test_any_chain_goes_on_from_any_state_as_if_it_had_not_stopped(
    local: LocalSandbox, chain: list[str], data: st.DataObject
) -> None:
    keys: dict[int, str] = {}
    with contextlib.closing(local.open(ENVIRONMENT)) as live:
        seen = []
        for number, command in enumerate(chain):
            result = live.run(command, timeout=30)
            seen.append((result.exit_code, result.stdout, result.stderr))
            name = key()
            if live.seal(name):
                assert result.left == 0
                keys[number] = name
        final = live.state()
        look = live.run(LOOK).stdout
    with contextlib.closing(local.open(ENVIRONMENT)) as again:  # the whole chain, from the start
        for command, expected in zip(chain, seen, strict=True):
            result = again.run(command, timeout=30)
            assert (result.exit_code, result.stdout, result.stderr) == expected
        assert again.state() == final
    for number in data.draw(st.sets(st.sampled_from(sorted(keys)), max_size=3)) if keys else ():
        with contextlib.closing(local.open(ENVIRONMENT, at=keys[number])) as copy:
            for later, command in enumerate(chain[number + 1 :], start=number + 1):
                result = copy.run(command, timeout=30)
                assert (result.exit_code, result.stdout, result.stderr) == seen[later]
            assert copy.state() == final
            if number == len(chain) - 1:
                assert copy.run(LOOK).stdout == look
