"""Tasks of several containers, with the real `docker compose` client and engine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.errors import SandboxFailure, Unsupported
from harnesstrain.core.records.sandbox import Limits
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox import project
from harnesstrain.sandbox.docker import DockerSandbox
from harnesstrain.sandbox.engine import owner_labels
from tests.sandbox import kinds

pytestmark = pytest.mark.docker

COMPOSE = f"""\
services:
  main:
    build: .
    environment:
      WHO: compose
    volumes:
      - shared:/shared
  web:
    image: {kinds.SMALL}
    container_name: takes-no-name
    command: ["python3", "-m", "http.server", "8000", "--directory", "/shared"]
    healthcheck:
      test: ["CMD", "python3", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000')"]
      interval: 1s
    ports: ["8000:8000"]
    volumes:
      - shared:/shared
      - ./data:/data
    mem_limit: 256m
volumes:
  shared: {{}}
"""
FETCH = "python3 -c \"import urllib.request as u; print(u.urlopen('http://web:8000/note').read())\""


@pytest.fixture(scope="module", autouse=True)
def compose() -> None:
    if project.client_argv() is None:
        pytest.skip("no `docker compose` client")


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    folder = tmp_path / "environment"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "fact").write_text("read only\n")
    (folder / "Dockerfile").write_text(f"FROM {kinds.SMALL}\nWORKDIR /app\nENV WHO=image FROM_IMAGE=yes\n")
    (folder / "docker-compose.yaml").write_text(COMPOSE)
    return Environment(context=folder, compose="docker-compose.yaml", env={"TASK": "set"})


def left(sandbox: DockerSandbox, owner: str | None = None) -> list[str]:
    """What bears the label of this process: containers, networks, volumes."""
    api = sandbox._client.api
    chosen = {"label": f"harnesstrain.owner={owner or owner_labels()['harnesstrain.owner']}"}
    found = [one["Id"] for one in api.containers(all=True, filters=chosen)]
    found += [one["Name"] for one in api.networks(filters=chosen)]
    return found + [one["Name"] for one in api.volumes(filters=chosen)["Volumes"] or ()]


def inspected(sandbox: DockerSandbox) -> Iterator[dict[str, Any]]:
    for one in sandbox._client.api.containers(filters={"label": "harnesstrain.project"}):
        yield sandbox._client.api.inspect_container(one["Id"])


def test_services_answer_and_nothing_stays(docker: DockerSandbox, environment: Environment) -> None:
    with contextlib.closing(docker.open(environment, limits=Limits(memory_mb=512, pids=64))) as session:
        assert session.run("pwd; echo $WHO $FROM_IMAGE $TASK; hostname").stdout == b"/app\ncompose yes set\nsandbox\n"
        session.run("echo hello > /shared/note")
        assert session.run(FETCH).stdout == b"b'hello\\n'\n"
        found = {one["Config"]["Labels"]["com.docker.compose.service"]: one for one in inspected(docker)}
        assert set(found) == {"main", "web"}
        for one in found.values():
            host = one["HostConfig"]
            assert host["CapDrop"] == ["ALL"]
            assert not host["Privileged"]
            assert host["PidsLimit"] > 0
            assert "no-new-privileges:true" in host["SecurityOpt"]
            assert any(option.startswith("seccomp={") for option in host["SecurityOpt"])
            assert host["PortBindings"] in ({}, None)
        assert found["web"]["HostConfig"]["Memory"] == 256 << 20
        assert found["main"]["HostConfig"]["Memory"] == 512 << 20
        assert "takes-no-name" not in found["web"]["Name"]
        assert {mount["RW"] for mount in found["web"]["Mounts"] if mount["Destination"] == "/data"} == {False}
    assert left(docker) == []


def test_two_at_once_do_not_meet(docker: DockerSandbox, environment: Environment) -> None:
    with contextlib.closing(docker.open(environment)) as one, contextlib.closing(docker.open(environment)) as other:
        one.run("echo one > /shared/note")
        other.run("echo other > /shared/note")
        assert one.run(FETCH).stdout == b"b'one\\n'\n"
        assert other.run(FETCH).stdout == b"b'other\\n'\n"
    assert left(docker) == []


def test_networks_lead_nowhere(docker: DockerSandbox, environment: Environment) -> None:
    with contextlib.closing(docker.open(environment)) as session:
        address = (
            session.run("python3 -c \"import socket; print(socket.gethostbyname('web'))\"").stdout.decode().strip()
        )
        gateway = address.rpartition(".")[0] + ".1"
        code = f"import socket; s=socket.socket(); s.settimeout(3); print(s.connect_ex(('{gateway}', 22)))"
        assert session.run(f'python3 -c "{code}"', timeout=20).stdout not in (b"0\n", b"111\n")
    assert left(docker) == []


def test_a_service_that_never_gets_ready_fails_in_time_and_leaves_nothing(
    docker: DockerSandbox, environment: Environment
) -> None:
    assert environment.context is not None
    file = environment.context / "docker-compose.yaml"
    file.write_text(
        COMPOSE.replace("import urllib.request as u; u.urlopen('http://127.0.0.1:8000')", "raise SystemExit(1)")
    )
    with pytest.raises(SandboxFailure, match=r"do not start|not ready"):
        docker.open(environment.model_copy(update={"build_timeout": 20.0}))
    assert left(docker) == []


def test_a_main_that_ends_is_said(docker: DockerSandbox, environment: Environment) -> None:
    assert environment.context is not None
    (environment.context / "docker-compose.yaml").write_text("services: {main: {command: 'true'}}\n")
    with pytest.raises(SandboxFailure):
        docker.open(environment)
    assert left(docker) == []


def test_it_is_refused_where_no_client_is(
    docker: DockerSandbox, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project, "client_argv", lambda: None)
    with pytest.raises(Unsupported, match="`docker compose` is not here"):
        docker.check(environment)
    with pytest.raises(Unsupported):
        docker.open(environment)
    assert left(docker) == []


DRIVER = """
import sys, time
from pathlib import Path
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.docker import DockerSandbox

sandbox = DockerSandbox(docker_host=sys.argv[1], cache_dir=Path(sys.argv[2]), build_network="none")
environment = Environment(context=Path(sys.argv[3]), compose="docker-compose.yaml")
sandbox.prepare(environment)
print("ready", flush=True)
session = sandbox.open(environment)
print("open", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("moment", ["opening", "open"])
def test_nothing_survives_the_kill_of_its_driver(
    docker: DockerSandbox, environment: Environment, tmp_path: Path, moment: str
) -> None:
    argv = [sys.executable, "-c", DRIVER, str(kinds.docker_host()), str(tmp_path / "cache"), str(environment.context)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "ready\n"
        if moment == "open":
            assert driver.stdout.readline() == "open\n"
        else:
            time.sleep(1.5)
        owner = next(
            f"{driver.pid}:{words[19]}"
            for words in [Path(f"/proc/{driver.pid}/stat").read_text().rpartition(")")[2].split()]
        )
        if moment == "open":
            assert len(left(docker, owner)) >= 4
        os.kill(driver.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while left(docker, owner) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left(docker, owner) == []


def test_a_sweep_finds_networks_and_volumes_too(docker: DockerSandbox) -> None:
    api = docker._client.api
    labels = {**owner_labels(), "harnesstrain.owner": "4194303:1"}
    api.create_network("ht-left", labels=labels)
    api.create_volume("ht-left", labels=labels)
    assert docker.sweep() == 2
    assert left(docker, "4194303:1") == []
