"""Planted attackers: what a harness tries from inside the jail, and what comes of it."""

from __future__ import annotations

import json
import os
import pwd
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core import confinement
from harnesstrain.core.digests import digest_tree
from harnesstrain.core.errors import ConfigError, Prerequisite
from harnesstrain.core.records.harness import Manifest
from harnesstrain.harness import jail
from harnesstrain.harness.environment import interpreter, lock_digest
from harnesstrain.harness.jail import JailLimits
from harnesstrain.harness.process import HarnessLimits, HarnessProcess

Make = Callable[..., tuple[Path, Manifest]]

ATTEMPT = """
import json, os, socket, subprocess, sys
def attempt(what):
    try:
        return ["did", repr(what())[:200]]
    except BaseException as error:
        return ["failed", type(error).__name__, str(error)[:200]]
def tell(**message):
    os.write(1, json.dumps(message).encode() + b"\\n")
"""


def say(harness: Make, program: str, limits: HarnessLimits | None = None) -> dict[str, Any]:
    """Run an attacker in the jail; its one message."""
    place, manifest = harness(ATTEMPT + program)
    with HarnessProcess.start(place, manifest, limits=limits) as process:
        message = process.receive(60)
        ended = process.finish(10)
    assert message is not None, ended.log
    return message


pytestmark = pytest.mark.usefixtures("jailed")


def test_its_own_files_are_read_only(harness: Make) -> None:
    got = say(
        harness,
        """
tell(
    here=os.getcwd(),
    write=attempt(lambda: open("main.py", "a").write("x")),
    make=attempt(lambda: open("new.py", "w")),
    sdk=attempt(lambda: os.unlink("ht_sdk.py")),
    mode=attempt(lambda: os.chmod("main.py", 0o777)),
    remount=attempt(lambda: subprocess.run(["mount", "-o", "remount,rw", "/harness"], check=True, capture_output=True)),
    tmp=attempt(lambda: open("/tmp/x", "w").write("x")),
)
""",
    )
    assert got["here"] == jail.HOME
    assert got["tmp"][0] == "did"
    assert {got[name][0] for name in ("write", "make", "sdk", "mode", "remount")} == {"failed"}


def test_it_leaves_no_trace_in_its_worktree_or_the_next_one_s_tmp(harness: Make) -> None:
    place, manifest = harness(
        ATTEMPT + "tell(before=os.listdir('/tmp'))\nopen('/tmp/left', 'w').write('x')\nimport ht_sdk"
    )
    before = digest_tree(place, ignore=())
    prefix = Path(sys.prefix).parts
    shown = [prefix[2]] if prefix[:2] == ("/", "tmp") else []  # the interpreter itself may lie there
    for _ in range(2):
        with HarnessProcess.start(place, manifest) as process:
            assert process.receive(30) == {"before": shown}
            process.finish(5)
    assert digest_tree(place, ignore=()) == before


def test_nothing_of_the_host_can_be_read(harness: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("canary-0815")
    monkeypatch.setenv("CANARY_SECRET", "canary-0815")
    got = say(
        harness,
        f"""
seen = []
for place, names, files in os.walk("/"):
    if place.startswith(("/proc", "/sys", "/usr", "/lib", "/bin", "/sbin")) or "site-packages" in place:
        names.clear()
        continue
    seen += [os.path.join(place, name) for name in files]
def environments():
    found = ""
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                found += open(f"/proc/{{pid}}/environ").read() + open(f"/proc/{{pid}}/cmdline").read()
            except OSError:
                pass
    return found
tell(
    shadow=attempt(lambda: open("/etc/shadow").read()),
    secret=attempt(lambda: open({str(secret)!r}).read()),
    home=attempt(lambda: os.listdir({str(Path.home())!r})),
    parent=attempt(lambda: os.listdir({str(tmp_path)!r})),
    environments=environments(),
    uid=os.getuid(),
    pids=len([pid for pid in os.listdir("/proc") if pid.isdigit()]),
    etc=sorted(os.listdir("/etc")),
    seen=len(seen),
    root=sorted(os.listdir("/")),
)
""",
    )
    assert got["shadow"][0] == "failed"
    assert got["secret"][0] == "failed"
    assert got["parent"][0] == "failed"
    assert got["home"][0] == "failed" or secret.name not in got["home"][1]
    assert "canary" not in json.dumps(got)
    assert got["uid"] != 0
    assert got["pids"] <= 4
    assert "hostname" not in got["etc"]
    trees = {Path(tree).parts[1] for tree in interpreter().trees}
    system = {"bin", "dev", "etc", "harness", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "sys", "tmp", "usr"}
    assert set(got["root"]) <= system | trees


def test_only_the_interpreter_is_shown_of_the_directories_it_lies_in(harness: Make) -> None:
    tree = Path(sys.prefix)
    if any(part in tree.parents for part in (Path("/usr"),)) or tree == Path("/usr"):
        pytest.skip("the interpreter is the system's own")
    got = say(harness, f"tell(beside=os.listdir({str(tree.parent)!r}))")
    shown = {p.relative_to(tree.parent).parts[0] for p in interpreter().trees if tree.parent in p.parents}
    assert set(got["beside"]) <= shown | {tree.name}


def test_no_network(harness: Make) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    try:
        got = say(
            harness,
            f"""
def dial(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(3)
        s.connect(address)
tell(
    loopback=attempt(lambda: dial(socket.AF_INET, ("127.0.0.1", {port}))),
    outside=attempt(lambda: dial(socket.AF_INET, ("192.0.2.1", 80))),
    name=attempt(lambda: socket.gethostbyname("example.org")),
    interfaces=[name for _, name in socket.if_nameindex()],
    abstract=attempt(lambda: dial(socket.AF_UNIX, "\\0/tmp/dbus")),
)
""",
        )
    finally:
        listener.close()
    assert got["interfaces"] == ["lo"]
    assert {got[name][0] for name in ("loopback", "outside", "name", "abstract")} == {"failed"}


def test_it_cannot_reach_its_keeper_or_the_kernel(harness: Make) -> None:
    got = say(
        harness,
        """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
tell(
    one=attempt(lambda: os.kill(1, 9)),
    parent=attempt(lambda: os.kill(os.getppid(), 9)),
    alive=attempt(lambda: os.stat("/proc/1")),
    core=attempt(lambda: open("/proc/sys/kernel/core_pattern", "w").write("|/tmp/x")),
    hostname=attempt(lambda: open("/proc/sys/kernel/hostname", "w").write("x")),
    setuid=attempt(lambda: os.setuid(0)),
    userns=libc.unshare(0x10000000),
    mount=libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None),
    devices=sorted(os.listdir("/dev")),
    disk=attempt(lambda: os.mknod("/tmp/disk", 0o60660, os.makedev(8, 0))),
)
""",
    )
    assert got["alive"][0] == "did"
    assert {got[name][0] for name in ("core", "hostname", "setuid", "disk")} == {"failed"}
    assert (got["userns"], got["mount"]) == (-1, -1)
    assert not {"kmsg", "mem", "sda", "vda", "kvm", "fuse"} & set(got["devices"])


def test_killing_everything_in_reach_kills_the_harness_alone(harness: Make) -> None:
    place, manifest = harness(
        ATTEMPT
        + """
import signal
tell(x=1)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
os.kill(-1, signal.SIGKILL)
tell(child=child.wait())
os.kill(os.getpid(), 9)
"""
    )
    with HarnessProcess.start(place, manifest) as process:
        assert process.receive(30) == {"x": 1}
        assert process.receive(30) == {"child": -9}
        assert process.receive(30) is None
        assert process.finish(5).code == 137


def test_a_fork_bomb_is_bounded(harness: Make) -> None:
    limits = HarnessLimits(pids=32)
    got = say(
        harness,
        """
import time
born = 0
try:
    while born < 500:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        born += 1
except OSError as error:
    tell(born=born, error=type(error).__name__)
else:
    tell(born=born, error=None)
""",
        limits,
    )
    assert got["error"] == "BlockingIOError"
    assert got["born"] < 40


def test_a_thread_bomb_is_bounded(harness: Make) -> None:
    got = say(
        harness,
        """
import threading, time
born = 0
try:
    while born < 500:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        born += 1
except RuntimeError:
    pass
tell(born=born)
os._exit(0)
""",
        HarnessLimits(pids=32),
    )
    assert got["born"] < 40


def test_a_memory_bomb_is_bounded(harness: Make) -> None:
    place, manifest = harness(ATTEMPT + "held = []\nwhile True: held.append(bytearray(b'x' * (16 << 20)))")
    with HarnessProcess.start(place, manifest, limits=HarnessLimits(memory_mb=200)) as process:
        assert process.receive(60) is None
        assert process.finish(5).code in (1, 137)


def test_processes_share_one_memory_limit(harness: Make) -> None:
    if not confinement.bounds_memory():
        pytest.skip("no control groups here: memory is bounded for each process alone")
    place, manifest = harness(
        ATTEMPT
        + """
import time
for _ in range(8):
    if os.fork() == 0:
        held = bytearray(b"x" * (60 << 20))
        tell(held=len(held))
        time.sleep(60)
time.sleep(60)
"""
    )
    count = 0
    with HarnessProcess.start(place, manifest, limits=HarnessLimits(memory_mb=200)) as process:
        try:
            while process.receive(3) is not None:
                count += 1
        except Exception as error:
            assert type(error).__name__ == "Silent"
    assert count < 8


def test_filling_the_disk_fills_only_its_own_memory(harness: Make) -> None:
    got = say(
        harness,
        """
def fill(name):
    with open(name, "wb") as file:
        for _ in range(2000):
            file.write(b"x" * (1 << 20))
tell(tmp=attempt(lambda: fill("/tmp/a")), shm=attempt(lambda: fill("/dev/shm/a")), root=attempt(lambda: fill("/a")))
""",
        HarnessLimits(tmp_mb=16, memory_mb=512),
    )
    assert got["tmp"][:2] == ["failed", "OSError"]
    assert got["shm"][0] == "failed"
    assert got["root"][0] == "failed"


def test_burning_the_processor_ends(harness: Make) -> None:
    place, manifest = harness(ATTEMPT + "tell(x=1)\nwhile True: pass")
    with HarnessProcess.start(place, manifest, limits=HarnessLimits(cpu_seconds=1)) as process:
        assert process.receive(30) == {"x": 1}
        assert process.receive(60) is None
        assert process.finish(5).code in (128 + 24, 137)


def test_two_at_once_do_not_see_each_other(harness: Make) -> None:
    place, manifest = harness(
        ATTEMPT
        + "open('/tmp/mine', 'x')\ntell(pids=sorted(p for p in os.listdir('/proc') if p.isdigit()))\nsys.stdin.read()"
    )
    found: list[Any] = []

    def one() -> None:
        with HarnessProcess.start(place, manifest) as process:
            found.append(process.receive(30))
            time.sleep(0.2)
            assert process.finish(10).code == 0

    threads = [threading.Thread(target=one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert all(len(message["pids"]) <= 4 for message in found)


def test_a_worktree_that_only_its_owner_may_enter(harness: Make) -> None:
    place, manifest = harness(ATTEMPT + "tell(x=open('main.py').read()[:1])")
    place.chmod(0o700)
    (place / "main.py").chmod(0o600)
    with HarnessProcess.start(place, manifest) as process:
        assert process.receive(30) == {"x": "\n"}


def test_an_environment_of_its_own(harness: Make, tmp_path: Path) -> None:
    import venv

    place = tmp_path / "env"
    venv.create(place, symlinks=True)
    (site,) = (place / "lib").glob("python*/site-packages")
    (site / "only_here.py").write_text("WORD = 'found'\n")
    info = site / "only_here-1.0.dist-info"
    info.mkdir()
    (info / "RECORD").write_text(
        "only_here.py,sha256=abc,15\nonly_here-1.0.dist-info/RECORD,,\n../../../bin/tool,sha256=x,1\n"
    )
    tree, manifest = harness(
        ATTEMPT + "import only_here\ntell(word=only_here.WORD, prefix=sys.prefix)", environment=str(place)
    )
    with HarnessProcess.start(tree, manifest) as process:
        assert process.receive(30) == {"word": "found", "prefix": str(place)}
    first = lock_digest(place)
    (info / "RECORD").write_text("only_here.py,sha256=abc,15\n../../../bin/tool,sha256=other,1\n")
    assert lock_digest(place) == first
    (info / "RECORD").write_text("only_here.py,sha256=def,15\n")
    assert lock_digest(place) != first
    assert lock_digest(None) is None


def test_an_environment_that_is_none(harness: Make, tmp_path: Path) -> None:
    place, manifest = harness("", environment=str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="not a virtual environment"):
        HarnessProcess.start(place, manifest)


def test_no_jail_is_said_with_the_way_out(harness: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confinement, "unavailable", lambda: "bubblewrap is not installed")
    place, manifest = harness("")
    with pytest.raises(Prerequisite, match="no jail for the harness: bubblewrap is not installed") as caught:
        HarnessProcess.start(place, manifest)
    assert "--allow-unisolated" in (caught.value.hint or "")


def test_running_without_a_jail_is_said_aloud(harness: Make, caplog: pytest.LogCaptureFixture) -> None:
    jail._say_aloud.cache_clear()
    place, manifest = harness("")
    HarnessProcess.start(place, manifest, isolated=False).kill()
    assert "NOT ISOLATED" in caplog.text


def test_a_limit_is_not_forgotten(tmp_path: Path) -> None:
    limits = JailLimits(memory_mb=123, pids=45, cpu_seconds=67, tmp_mb=89, file_mb=12)
    manifest = Manifest(name="t", command=("python",), surface=("a/**",))
    made = jail._confine(tmp_path, interpreter(), manifest.command, limits, scratch=False)
    assert (made.memory_mb, made.pids, made.cpu_seconds) == (123, 45, 67)
    assert (made.tmpfs_mb, made.file_mb, made.network, made.inherit) == (89, 12, False, ())
    assert not any(bind.writable for bind in made.binds)


def test_a_python_in_the_home_itself_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(Path(pwd.getpwuid(os.getuid()).pw_dir)))
    with pytest.raises(Prerequisite, match="without showing"):
        interpreter()
