"""What only the docker sandbox does: engines, images, entrypoints, users, orphans."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import socketserver
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.errors import Prerequisite, SandboxFailure, Unsupported
from harnesstrain.core.records.sandbox import Limits
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox import open_sandbox
from harnesstrain.sandbox.docker import DockerSandbox, engine_answers
from harnesstrain.sandbox.engine import connect, is_orphan, owner_labels
from tests.sandbox import kinds


class Engine(http.server.BaseHTTPRequestHandler):
    """Answers like an engine that has, or has not, limits."""

    info: dict[str, Any] = {}
    version: dict[str, Any] = {}

    def do_GET(self) -> None:
        body = {"ApiVersion": "1.41", **self.version} if self.path.endswith("/version") else self.info
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def address_string(self) -> str:
        return "socket"

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "s"
    server = socketserver.ThreadingUnixStreamServer(str(path), Engine)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"unix://{path}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("missing", ["MemoryLimit", "PidsLimit"])
def test_an_engine_that_drops_limits_is_refused(engine: str, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "info", {"MemoryLimit": True, "PidsLimit": True, missing: False})
    with pytest.raises(Prerequisite, match="cannot limit"):
        connect(engine)
    assert "cannot limit" in (engine_answers(engine) or "")


def test_an_engine_with_limits_is_taken(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "info", {"MemoryLimit": True, "PidsLimit": True})
    connect(engine).close()
    assert engine_answers(engine) is None


def test_podman_gets_its_filter_as_a_file(engine: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Engine, "info", {"MemoryLimit": True, "PidsLimit": True})
    filters = []
    for components in ([{"Name": "Engine"}, {"Name": "runc"}], [{"Name": "Podman Engine"}]):
        monkeypatch.setattr(Engine, "version", {"Components": components})
        with contextlib.closing(DockerSandbox(docker_host=engine, cache_dir=tmp_path / "cache")) as sandbox:
            made = sandbox._settings.host_config(Environment(), Limits())
        [found] = [option for option in made["SecurityOpt"] if option.startswith("seccomp=")]
        filters.append(found.removeprefix("seccomp="))
    assert json.loads(filters[0]) == json.loads(Path(filters[1]).read_text())


def test_no_engine_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(Prerequisite) as missing:
        open_sandbox("docker", docker_host=f"unix://{tmp_path}/none.sock")
    assert "\n" not in missing.value.message
    assert str(tmp_path) in missing.value.message
    assert missing.value.hint


def test_an_orphan_is_known_by_its_drivers_start() -> None:
    mine = owner_labels()
    assert not is_orphan(mine)
    pid, _, tick = mine["harnesstrain.owner"].partition(":")
    assert is_orphan({**mine, "harnesstrain.owner": f"{pid}:{int(tick) - 1}"})
    assert is_orphan({**mine, "harnesstrain.owner": "4194303:1"})
    assert not is_orphan({**mine, "harnesstrain.host": "elsewhere", "harnesstrain.owner": "4194303:1"})
    assert not is_orphan({})


# --- with a real engine ---


def built(folder: Path, *lines: str) -> Environment:
    folder.mkdir(exist_ok=True)
    (folder / "Dockerfile").write_text("\n".join((f"FROM {kinds.SMALL}", *lines)) + "\n")
    return Environment(context=folder)


@pytest.mark.docker
def test_the_images_user_and_directory_are_kept(docker: DockerSandbox, tmp_path: Path) -> None:
    environment = built(
        tmp_path / "e",
        "RUN echo 'app:x:1234:1234::/home/app:/bin/sh' >> /etc/passwd && mkdir -p /home/app /w && chown 1234 /w",
        "WORKDIR /w",
        "USER app",
        "ENV WHO=image",
    )
    with contextlib.closing(docker.open(environment)) as session:
        assert session.run("id -u; pwd; echo $HOME $WHO; touch /etc/x 2>/dev/null || echo denied").stdout == (
            b"1234\n/w\n/home/app image\ndenied\n"
        )
        session.write("mine", b"x")
        assert session.run("stat -c %u mine").stdout == b"1234\n"
        assert session.run("id -u", user="root").stdout == b"0\n"
    own = environment.model_copy(update={"workdir": "/elsewhere", "user": "0", "env": {"WHO": "task"}})
    with contextlib.closing(docker.open(own)) as session:
        assert session.run("id -u; pwd; echo $WHO").stdout == b"0\n/elsewhere\ntask\n"


@pytest.mark.docker
def test_an_entrypoint_runs_and_the_agent_beside_it(docker: DockerSandbox, tmp_path: Path) -> None:
    environment = built(
        tmp_path / "e",
        r"""RUN printf '#!/bin/sh\ntouch /entered\nexec "$@"\n' > /entry.sh && chmod +x /entry.sh""",
        'ENTRYPOINT ["/entry.sh"]',
        'CMD ["sleep", "infinity"]',
    )
    with contextlib.closing(docker.open(environment)) as session:
        assert session.run("until test -e /entered; do sleep 0.1; done; echo in", timeout=20).stdout == b"in\n"
        result = session.run("setsid sleep 4343 & sleep 4343", timeout=0.5)
        assert result.timed_out
        assert session.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[s]leep 4343'").stdout == b"0\n"
        assert session.run("tr '\\0' ' ' < /proc/1/cmdline").stdout.startswith(b"sh -c cat")


@pytest.mark.docker
def test_an_entrypoint_that_ends_is_an_infrastructure_failure(docker: DockerSandbox, tmp_path: Path) -> None:
    with pytest.raises(SandboxFailure):
        docker.open(built(tmp_path / "e", 'ENTRYPOINT ["/bin/false"]'))


@pytest.mark.docker
def test_one_image_however_many_ask(docker: DockerSandbox, tmp_path: Path) -> None:
    environment = built(tmp_path / "e", "RUN cat /proc/sys/kernel/random/uuid > /once")
    found: list[bytes] = []

    def work() -> None:
        with contextlib.closing(docker.open(environment)) as session:
            found.append(session.read("/once"))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert len(set(found)) == 1


@pytest.mark.docker
def test_what_it_cannot_run_is_refused(docker: DockerSandbox) -> None:
    with pytest.raises(Unsupported, match="network"):
        docker.check(Environment(image=kinds.SMALL, network="host"))
    with pytest.raises(Unsupported, match="neither"):
        docker.check(Environment())


@pytest.mark.docker
def test_a_server_of_a_task_may_have_a_low_port(docker: DockerSandbox) -> None:
    with contextlib.closing(docker.open(Environment(image=kinds.SMALL))) as session:
        able = "print(int(open('/proc/self/status').read().split('CapEff:')[1].split()[0], 16) >> 10 & 1)"
        assert session.run(f'python3 -c "{able}"', user="root").stdout == b"1\n"


@pytest.mark.docker
def test_an_image_that_cannot_be_had(docker: DockerSandbox) -> None:
    with pytest.raises(SandboxFailure, match="no-such-image"):
        docker.open(Environment(image="localhost:1/no-such-image:1"))


@pytest.mark.docker
def test_a_sweep_removes_what_dead_drivers_left(docker: DockerSandbox) -> None:
    labels = {**owner_labels(), "harnesstrain.owner": "4194303:1"}
    container = docker._client.api.create_container(kinds.SMALL, command=["sleep", "1000"], labels=labels)["Id"]
    docker._client.api.start(container)
    with contextlib.closing(docker.open(Environment(image=kinds.SMALL))) as session:
        assert docker.sweep() >= 1
        assert session.run("echo mine").stdout == b"mine\n"
    left = docker._client.api.containers(all=True, filters={"id": container})
    assert left == []


@pytest.mark.docker
def test_pins_hold(docker: DockerSandbox) -> None:
    seen = []
    for _ in range(2):
        with contextlib.closing(docker.open(Environment(image=kinds.SMALL, workdir="/w"))) as session:
            seen.append(
                session.run(
                    "echo $$; python3 -c 'print(object(), {1.5, \"b\"})'; cut -d- -f1 /proc/self/maps | head -3; nproc;"
                    "env | sort; hostname; ulimit -a; python3 -c 'import os; print(os.cpu_count())'"
                ).stdout
            )
    assert seen[0] == seen[1]
    if "proc" in docker.capabilities().pins:
        with contextlib.closing(docker.open(Environment(image=kinds.SMALL), limits=Limits(memory_mb=512))) as session:
            assert b"MemTotal:         524288 kB" in session.run("cat /proc/meminfo").stdout


@pytest.mark.docker
def test_a_container_that_is_removed_behind_its_back(docker: DockerSandbox) -> None:
    session = docker.open(Environment(image=kinds.SMALL))
    [container] = [
        found["Id"]
        for found in docker._client.api.containers(filters={"label": "harnesstrain.owner"})
        if found["Labels"]["harnesstrain.owner"] == owner_labels()["harnesstrain.owner"]
    ]
    docker._client.api.remove_container(container, force=True)
    with pytest.raises(SandboxFailure):
        session.run("true")
    session.close()


@pytest.mark.docker
def test_no_more_start_at_once_than_there_are_processors(
    docker: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    processors = os.cpu_count() or 1
    starting, most, lock = 0, 0, threading.Lock()
    inner = docker._client.api.start
    sessions: list[Any] = []

    def start(container: str) -> None:
        nonlocal starting, most
        with lock:
            starting += 1
            most = max(most, starting)
        time.sleep(0.3)
        inner(container)
        with lock:
            starting -= 1

    monkeypatch.setattr(docker._client.api, "start", start)
    threads = [
        threading.Thread(target=lambda: sessions.append(docker.open(Environment(image=kinds.SMALL))))
        for _ in range(processors + 2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= most <= processors
    assert [session.run("echo runs").stdout for session in sessions] == [b"runs\n"] * len(threads)
    for session in sessions:
        session.close()
