"""A driver that is killed with -9 leaves nothing: no process, mount, control group, container, directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from tests.sandbox import kinds

DRIVER = """
import sys, time
from pathlib import Path
from harnesstrain.sandbox import open_sandbox
from harnesstrain.core.records.task import Environment
kind, image, token, cache, host = sys.argv[1:]
sandbox = open_sandbox(kind, cache_dir=Path(cache), docker_host=host or None)
sessions = [sandbox.open(Environment(image=image or None, workdir="/app")) for _ in range(2)]
if sandbox.capabilities().forks:
    sessions.append(sessions[1].fork())
    sessions[2].run(f"setsid sleep {token} >/dev/null 2>&1 &")
sessions[0].run(f"trap '' TERM HUP; setsid sleep {token} & sleep 0.1; sleep {token} &")
print("ready", flush=True)
sessions[0].run(f"trap '' TERM HUP; sleep {token}")
"""

SURVIVE = 20.0
"""Seconds in which everything must be gone."""


def start(kind: str, token: str, cache: Path) -> subprocess.Popen[str]:
    image = kinds.SMALL if kind == "docker" else ""
    host = (kinds.docker_host() or "") if kind == "docker" else ""
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, kind, image, token, str(cache), host], stdout=subprocess.PIPE, text=True
    )
    assert driver.stdout
    assert driver.stdout.readline() == "ready\n"
    return driver


def left(token: str, driver: int) -> list[str]:
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        words = process.info["cmdline"] or []
        if token in words and words[0] == "sleep":
            found.append(f"process {process.info['pid']}")
    for depth in ("", "*/"):
        found += [str(path) for path in Path("/sys/fs/cgroup").glob(f"{depth}harnesstrain-{driver}-*")]
    found += [str(path) for path in Path(tempfile.gettempdir()).glob(f"ht-process-{driver}-*")]
    return found


def mounts() -> set[str]:
    """Mounts of this machine; an engine's own come and go by themselves."""
    found = Path("/proc/self/mounts")
    return {line for line in found.read_text().splitlines() if "docker" not in line} if found.exists() else set()


def wait_until_gone(token: str, driver: int, already: Sequence[str] = ()) -> list[str]:
    end = time.monotonic() + SURVIVE
    while (found := [one for one in left(token, driver) if one not in already]) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def available(kind: str, cache: Path) -> None:
    (kinds.local if kind == "local" else kinds.docker)(cache).close() if kind != "process" else None


KINDS = [
    pytest.param("local", marks=pytest.mark.local),
    pytest.param("docker", marks=pytest.mark.docker),
    "process",
]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_survives_a_killed_driver(kind: str, tmp_path: Path) -> None:
    available(kind, tmp_path)
    before = mounts()
    token = str(700_000 + os.getpid() % 100_000)
    driver = start(kind, token, tmp_path)
    assert left(token, driver.pid)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    assert wait_until_gone(token, driver.pid) == []
    assert mounts() <= before
    if kind == "docker":
        sandbox = kinds.docker(tmp_path)
        end = time.monotonic() + SURVIVE
        mine = {"label": "harnesstrain.owner"}
        while time.monotonic() < end:
            owners = [c["Labels"]["harnesstrain.owner"] for c in sandbox._client.api.containers(all=True, filters=mine)]
            if not [owner for owner in owners if owner.startswith(f"{driver.pid}:")]:
                break
            time.sleep(0.1)
        else:
            pytest.fail(f"containers of the killed driver are left: {owners}")
        sandbox.close()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_survives_an_orderly_close(kind: str, tmp_path: Path) -> None:
    available(kind, tmp_path)
    token = str(800_000 + os.getpid() % 100_000)
    before = mounts()
    already = left(token, os.getpid())  # groups of launchers that other tests killed: swept when this process is gone
    from harnesstrain.core.records.task import Environment
    from harnesstrain.sandbox import open_sandbox

    host = kinds.docker_host() if kind == "docker" else None
    sandbox = open_sandbox(kind, cache_dir=tmp_path, docker_host=host)
    session = sandbox.open(Environment(image=kinds.SMALL if kind == "docker" else None))
    session.run(f"setsid sleep {token} >/dev/null 2>&1 &")
    sandbox.close()
    assert wait_until_gone(token, os.getpid(), already) == []
    assert mounts() <= before


@pytest.mark.local
def test_a_build_that_was_killed_leaves_no_half_layer(tmp_path: Path) -> None:
    kinds.local(tmp_path).close()
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text("FROM x\nRUN echo done > /made && sleep 1\n")
    code = (
        "import sys; from pathlib import Path; from harnesstrain.sandbox import open_sandbox;"
        "from harnesstrain.core.records.task import Environment;"
        "open_sandbox('local', cache_dir=Path(sys.argv[1])).prepare(Environment(context=Path(sys.argv[2])))"
    )
    for delay in (0.3, 0.6, 0.9, 1.2):
        driver = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(context)])
        time.sleep(delay)
        driver.kill()
        driver.wait()
    sandbox = kinds.local(tmp_path)
    sandbox.sweep()
    assert not list((tmp_path / "layers").glob("part-*"))
    from harnesstrain.core.records.task import Environment

    session = sandbox.open(Environment(context=context))
    assert session.read("/made") == b"done\n"
    sandbox.close()
