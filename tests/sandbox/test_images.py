"""Images that are fetched: tried again where that helps, once however many ask, from archives where there are some."""

from __future__ import annotations

import http.server
import io
import json
import socketserver
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import docker as docker_client
import pytest

from harnesstrain.core.errors import SandboxFailure
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.docker import DockerSandbox
from harnesstrain.sandbox.images import Images, Recipe
from harnesstrain.sandbox.pulling import archive_name
from tests.sandbox import kinds


class Registry(http.server.BaseHTTPRequestHandler):
    """An engine without images, whose pulls answer as they are told: (status, lines)."""

    answers: list[tuple[int, list[dict[str, Any]]]] = []
    asked: list[str] = []
    there: set[str] = set()

    def do_GET(self) -> None:
        name = unquote(self.path.partition("/images/")[2].removesuffix("/json"))
        if self.path.endswith("/version"):
            self._answer(200, [{"ApiVersion": "1.41"}])
        elif name in self.there:
            self._answer(200, [{"Id": f"sha256:{name}"}])
        else:
            self._answer(404, [{"message": f"No such image: {name}"}])

    def do_POST(self) -> None:
        self.asked.append(self.path.partition("?")[2])
        status, lines = self.answers.pop(0)
        if status == 200 and not any("error" in line for line in lines):
            self.there.add(lines[-1]["status"])
        self._answer(status, lines)

    def _answer(self, status: int, lines: list[dict[str, Any]]) -> None:
        data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def address_string(self) -> str:
        return "socket"

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


@pytest.fixture
def paused() -> list[float]:
    return []


@pytest.fixture
def images(tmp_path: Path, paused: list[float], monkeypatch: pytest.MonkeyPatch) -> Iterator[Images]:
    for name, empty in (("answers", []), ("asked", []), ("there", set())):
        monkeypatch.setattr(Registry, name, empty)
    server = Server(str(tmp_path / "s"), Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    client = docker_client.DockerClient(base_url=f"unix://{tmp_path}/s", version="1.41")
    yield Images(client, tmp_path / "locks", None, None, paused.append)
    client.close()
    server.shutdown()
    server.server_close()
    thread.join()


def test_what_may_pass_is_tried_again(images: Images, paused: list[float]) -> None:
    Registry.answers += [
        (500, [{"message": "Get https://registry/v2/: net/http: TLS handshake timeout"}]),
        (200, [{"status": "Pulling"}, {"error": "unexpected EOF"}]),
        (200, [{"status": "org/image:1"}]),
    ]
    assert images.named("org/image:1")["Id"] == "sha256:org/image:1"
    assert paused == [1.0, 2.0]
    assert Registry.asked[0] == "tag=1&fromImage=org%2Fimage"


@pytest.mark.parametrize("status", [404, 200])
def test_what_will_not_pass_is_said_at_once(images: Images, paused: list[float], status: int) -> None:
    reason = "manifest for org/image:1 not found: manifest unknown"
    Registry.answers.append((404, [{"message": reason}]) if status == 404 else (200, [{"error": reason}]))
    with pytest.raises(SandboxFailure, match="image org/image:1 cannot be pulled: manifest for org/image:1") as failure:
        images.named("org/image:1")
    assert paused == []
    assert "docker login" in (failure.value.hint or "")


def test_it_is_given_up_in_the_end(images: Images, paused: list[float]) -> None:
    Registry.answers += [(500, [{"message": "connection reset by peer"}])] * 3
    with pytest.raises(SandboxFailure, match="connection reset"):
        images.named("org/image:1")
    assert len(paused) == 2


def test_an_image_pinned_by_digest_is_asked_for_by_digest(images: Images) -> None:
    name = f"registry.example:5000/org/image@sha256:{'a' * 64}"
    Registry.answers.append((200, [{"status": name}]))
    assert images.named(name)
    assert Registry.asked == [f"tag=sha256%3A{'a' * 64}&fromImage=registry.example%3A5000%2Forg%2Fimage"]


def test_one_pull_however_many_ask(images: Images) -> None:
    Registry.answers.append((200, [{"status": "org/image:1"}]))
    threads = [threading.Thread(target=images.named, args=("org/image:1",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Registry.asked) == 1


def test_bases_are_known_through_their_variables(images: Images, tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text(
        "ARG BASE=one:1\nFROM --platform=linux/amd64 ${BASE} AS b\nFROM $OTHER\nFROM b\n"
    )
    before = images.tag(Recipe(context))
    Registry.there.add("one:1")
    after = images.tag(Recipe(context))
    assert before != after
    assert images.tag(Recipe(context, args={"BASE": "two:2"})) not in (before, after)
    assert images.tag(Recipe(context, target="b")) not in (before, after)


# --- with a real engine ---


def archived(folder: Path, name: str, content: bytes) -> None:
    folder.mkdir(exist_ok=True)
    with tarfile.open(folder / f"{archive_name(name)}.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("from-archive")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))


@pytest.fixture
def with_archives(tmp_path: Path) -> Iterator[DockerSandbox]:
    sandbox = kinds.docker(tmp_path / "cache", archives=tmp_path / "archives")
    yield sandbox
    sandbox.close()


@pytest.mark.docker
def test_a_root_file_system_in_an_archive_is_imported(with_archives: DockerSandbox, tmp_path: Path) -> None:
    name = "example.org/some/base:1.0"
    archived(tmp_path / "archives", name, b"yes\n")
    api = with_archives._client.api
    try:
        with_archives.prepare(Environment(image=name))
        assert api.inspect_image(name)["RepoTags"] == [name]
        api.remove_image(name)
        context = tmp_path / "context"
        context.mkdir()
        (context / "Dockerfile").write_text(f"FROM {name}\nCOPY Dockerfile /\n")
        with_archives.prepare(Environment(context=context))
        assert api.inspect_image(name)
    finally:
        api.remove_image(name, force=True)


@pytest.mark.docker
def test_what_docker_save_wrote_is_loaded(with_archives: DockerSandbox, tmp_path: Path) -> None:
    name = "example.org/saved:2"
    api = with_archives._client.api
    api.tag(kinds.TINY if with_archives._images._find(kinds.TINY) else kinds.SMALL, "example.org/saved", "2")
    (tmp_path / "archives").mkdir()
    with (tmp_path / "archives" / f"{archive_name(name)}.tar").open("wb") as file:
        file.writelines(api.get_image(name))
    api.remove_image(name)
    try:
        with_archives.prepare(Environment(image=name))
        assert api.inspect_image(name)
    finally:
        api.remove_image(name, force=True)


@pytest.mark.docker
def test_an_archive_that_is_none_is_named(with_archives: DockerSandbox, tmp_path: Path) -> None:
    (tmp_path / "archives").mkdir()
    (tmp_path / "archives" / "some_image_1.tar").write_bytes(b"no archive")
    with pytest.raises(SandboxFailure, match=r"some_image_1\.tar is not an archive"):
        with_archives.prepare(Environment(image="some/image:1"))


@pytest.mark.docker
def test_the_image_of_a_digest_stays_while_the_sandbox_is_open(docker: DockerSandbox, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {kinds.SMALL}\n")
    environment = Environment(context=tmp_path, digest="d" * 64)
    first = docker._images.obtain(environment)["Id"]
    (tmp_path / "Dockerfile").write_text(f"FROM {kinds.SMALL}\nENV A=1\n")
    assert docker._images.obtain(environment)["Id"] == first
    assert docker._images.obtain(Environment(context=tmp_path, digest="e" * 64))["Id"] != first
