"""An engine that goes away while it is used: the sandbox failed, and cleaning up hides nothing."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harnesstrain.core.errors import SandboxFailure
from harnesstrain.core.records.task import Environment
from harnesstrain.sandbox.docker import DockerSandbox
from harnesstrain.sandbox.engine import SocketChannel, ended, translated
from harnesstrain.sandbox.leftovers import remove_all, remove_container
from tests.sandbox import kinds


class Relay:
    """Hands every connection on to an engine until it is cut; then it hangs up on everybody."""

    def __init__(self, path: Path, engine: str | None) -> None:
        """`engine`: None is cut from the beginning."""
        self.path, self._engine = path, engine
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self) -> None:
        """Break every connection."""
        with self._lock:
            self._engine = None
            for end in self._open:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it."""
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in (self._listener, *self._open):
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                with self._lock:
                    if self._engine is None:
                        near.close()
                        continue
                    far = socket.socket(socket.AF_UNIX)
                    far.connect(self._engine)
                    self._open += [near, far]
                    for pair in ((near, far), (far, near)):
                        self._threads.append(threading.Thread(target=self._copy, args=pair))
                        self._threads[-1].start()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@pytest.fixture
def gone(tmp_path: Path) -> Iterator[Any]:
    """A client of an engine that answers nobody."""
    import docker

    with contextlib.closing(Relay(tmp_path / "s", None)) as relay:
        client = docker.DockerClient(base_url=f"unix://{relay.path}", version="1.41")
        yield client
        client.close()


def test_removing_without_an_engine_is_a_failure_of_the_sandbox(gone: Any) -> None:
    why = r"the Docker engine does not answer \(.+\)$"
    with pytest.raises(SandboxFailure, match=f"removing 0123456789ab: {why}"):
        remove_container(gone, "0123456789abcdef")
    with pytest.raises(SandboxFailure, match=f"looking for what was left: {why}"):
        remove_all(gone, lambda _: True)


def test_closing_a_channel_raises_nothing(gone: Any) -> None:
    near, far = socket.socketpair()
    SocketChannel(near, lambda: remove_container(gone, "0123456789ab")).close()
    far.close()


def test_a_defect_of_cleaning_up_is_no_failure_of_the_engine() -> None:
    with pytest.raises(ZeroDivisionError):
        ended(lambda: 1 / 0)


def test_an_answer_that_breaks_off_is_a_failure_of_the_sandbox() -> None:
    from http.client import IncompleteRead

    from docker.errors import StreamParseError
    from urllib3.exceptions import ProtocolError

    for error in (IncompleteRead(b""), StreamParseError("no JSON"), ProtocolError("broken")):
        with pytest.raises(SandboxFailure, match="^building: "), translated("building"):
            raise error


@pytest.mark.docker
def test_an_engine_that_goes_away(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    kinds.docker(tmp_path / "cache").close()  # skips where there is none
    host = kinds.docker_host() or ""
    if not host.startswith("unix://"):
        pytest.skip("the engine does not listen on a socket of this machine")
    place = tmp_path_factory.mktemp("relay") / "s"
    with (
        contextlib.closing(Relay(place, host.removeprefix("unix://"))) as relay,
        contextlib.closing(DockerSandbox(docker_host=f"unix://{place}", cache_dir=tmp_path / "cache")) as sandbox,
        contextlib.closing(sandbox.open(Environment(image=kinds.SMALL))) as session,
    ):
        assert session.run("echo there").stdout == b"there\n"
        relay.cut()
        with pytest.raises(SandboxFailure):
            session.run("true")
        with pytest.raises(SandboxFailure, match="does not answer"):
            session.changed()
        with pytest.raises(SandboxFailure, match="does not answer"):
            sandbox.open(Environment(image=kinds.SMALL))
