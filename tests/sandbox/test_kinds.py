"""Opening sandboxes by kind, and what the weakest kind does."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from harnesstrain.core.errors import ConfigError, NotFound, UsageError
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox import open_sandbox, rootfs
from harnesstrain.sandbox.base import FileFault
from harnesstrain.sandbox.kinds import best_kind
from harnesstrain.sandbox.process import ProcessSandbox


def test_kinds_are_found_by_name() -> None:
    with contextlib.closing(open_sandbox("process")) as sandbox:
        assert sandbox.capabilities().kind == "process"
        assert not sandbox.capabilities().isolated
        assert sandbox.identity().network == "host"
    own = open_sandbox("harnesstrain.sandbox.process:ProcessSandbox")
    assert isinstance(own, ProcessSandbox)


def test_auto_is_the_strongest_kind_here(tmp_path: Path) -> None:
    with contextlib.closing(open_sandbox("auto", cache_dir=tmp_path)) as sandbox:
        assert sandbox.capabilities().kind == best_kind()


def test_what_cannot_be_opened_says_why() -> None:
    with pytest.raises(NotFound, match="proces"):
        open_sandbox("proces")
    with pytest.raises(UsageError, match="network"):
        open_sandbox("process", network="everything")
    with pytest.raises(UsageError, match="colour"):
        open_sandbox("process", colour="red")
    with pytest.raises(ConfigError):
        open_sandbox("no.such.module:Sandbox")


def test_the_tasks_directories_are_moved_and_the_hosts_left_alone(tmp_path: Path) -> None:
    context = tmp_path / "e"
    (context / "app").mkdir(parents=True)
    (context / "app" / "run.sh").write_text("cat /app/data; ls /tests\n")
    (context / "app" / "data").write_text("data\n")
    (context / "Dockerfile").write_text("FROM x\nWORKDIR /app\nCOPY app/ /app/\nRUN mkdir -p /logs/verifier\n")
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test.sh").write_text("mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt\n")
    with contextlib.closing(open_sandbox("process")) as sandbox:
        session = sandbox.open(Environment(context=context))
        session.put(tests, "/tests")
        assert session.run("sh /app/run.sh").stdout == b"data\ntest.sh\n"
        session.run("bash /tests/test.sh", user="root")
        assert session.read("/logs/verifier/reward.txt") == b"1\n"
        assert session.run("ls /usr/bin/env; ls /application 2>/dev/null").stdout == b"/usr/bin/env\n"
        for target in ("/usr/tests", "/etc", "/tmp/x"):
            with pytest.raises(FileFault):
                session.put(tests, target)
        session.close()
    assert not Path("/app/data").exists()
    assert not Path("/logs/verifier").exists()
    assert not Path("/tests/test.sh").exists()


def test_a_killed_agent_leaves_a_directory_that_a_sweep_removes() -> None:
    sandbox = ProcessSandbox()
    session = sandbox.open(Environment())
    [agent] = [child for child in psutil.Process().children() if child.cwd().startswith(str(session.root))]
    agent.send_signal(signal.SIGKILL)
    agent.wait(10)
    assert session.root.exists()
    session.root.rename(abandoned := session.root.with_name("ht-process-4194303-abandoned"))
    assert sandbox.sweep() >= 1
    assert not abandoned.exists()
    session.close()


def test_other_processes_of_the_machine_are_not_touched() -> None:
    bystander = psutil.Popen(["sleep", "60"])
    with contextlib.closing(ProcessSandbox().open(Environment())) as session:
        assert session.run("sleep 60", timeout=0.2).timed_out
        session.run("sleep 60 > /dev/null 2>&1 &")
        assert session.agent.kill() == 0
    time.sleep(0.1)
    assert bystander.is_running() and bystander.status() != psutil.STATUS_ZOMBIE
    bystander.kill()
    bystander.wait()


def test_the_identity_of_the_host_follows_its_programs(tmp_path: Path) -> None:
    host = tmp_path / "host"
    (host / "usr/bin").mkdir(parents=True)
    (host / "etc").mkdir()
    (host / "etc/os-release").write_text("ID=test\n")
    (host / "usr/bin/tool").write_text("one")
    first = rootfs.identity(host)
    os.utime(host / "usr/bin/tool", (1, 1))
    rootfs.identity.cache_clear()
    assert rootfs.identity(host) == first
    (host / "usr/bin/tool").write_text("another")
    rootfs.identity.cache_clear()
    assert rootfs.identity(host) != first
    rootfs.identity.cache_clear()


def test_the_generated_root_holds_nothing_private(tmp_path: Path) -> None:
    host = tmp_path / "host"
    (host / "etc/alternatives").mkdir(parents=True)
    (host / "etc/alternatives/awk").symlink_to("/usr/bin/gawk")
    (host / "etc/ssl/certs").mkdir(parents=True)
    (host / "etc/ssl/certs/public.pem").write_text("public")
    (host / "etc/ssl/certs/private.pem").write_text("private")
    (host / "etc/ssl/certs/private.pem").chmod(0o600)
    (host / "usr/bin").mkdir(parents=True)
    (host / "bin").symlink_to("usr/bin")
    rootfs.generate(tmp_path / "root", host)
    root = tmp_path / "root"
    assert (root / "etc/alternatives/awk").readlink() == Path("/usr/bin/gawk")
    assert (root / "etc/ssl/certs/public.pem").read_text() == "public"
    assert not (root / "etc/ssl/certs/private.pem").exists()
    assert (root / "bin").readlink() == Path("usr/bin")
    assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777
    assert "root:x:0:0" in (root / "etc/passwd").read_text()
