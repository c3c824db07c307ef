"""The Docker engine: finding it, its limits, the byte stream to a container, errors in our words."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

from harnesstrain.core.errors import Prerequisite, SandboxFailure

log = logging.getLogger(__name__)

ANSWERS_WITHIN = 60
"""Seconds for one answer of the engine."""
PROBE_WITHIN = 5
LAST_WORDS = 2000
CHUNK = 1 << 16


def connect(host: str | None, within: int = ANSWERS_WITHIN) -> Any:
    """A client of the engine at `host`, or where Docker's own variables say.  Raises Prerequisite.

    An engine that would silently drop memory or process limits is refused.
    """
    import docker
    from docker.constants import DEFAULT_UNIX_SOCKET
    from docker.errors import DockerException
    from docker.utils import kwargs_from_env

    found: dict[str, Any] = {"base_url": host} if host else {**kwargs_from_env()}
    where = str(found.get("base_url") or DEFAULT_UNIX_SOCKET)
    _knock(where)
    try:
        client = docker.DockerClient(**found, timeout=within)
        info = client.info()
    except (DockerException, OSError) as error:
        raise _missing(where, said(error)) from None
    for name, what in (("MemoryLimit", "memory"), ("PidsLimit", "processes")):
        if not info.get(name):
            client.close()
            raise Prerequisite(
                f"the Docker engine cannot limit {what}", hint="mount the control groups, then restart the engine"
            )
    return client


def _knock(where: str) -> None:
    """The client leaves a socket behind when nobody listens; this finds out first."""
    kind, _, path = where.rpartition("unix://")
    if kind not in ("", "http+"):
        return
    with socket.socket(socket.AF_UNIX) as knocking:
        try:
            knocking.connect(path)
        except OSError as error:
            raise _missing(where, error.strerror or str(error)) from None


def _missing(where: str, reason: str) -> Prerequisite:
    return Prerequisite(f"no Docker engine answers at {where}: {reason}", hint="start Docker, or set DOCKER_HOST")


def reason_against(host: str | None) -> str | None:
    """Why the engine cannot be used, in one sentence; None when it can."""
    try:
        connect(host, PROBE_WITHIN).close()
    except Prerequisite as error:
        return error.message
    return None


@contextlib.contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raises SandboxFailure for whatever the engine answers, or fails to, while `doing` something."""
    try:
        yield
    except troubles() as error:
        raise SandboxFailure(f"{doing}: {said(error)}", hint="`docker info` shows the engine's state") from error


def troubles() -> tuple[type[Exception], ...]:
    """What the client raises when the engine refuses, goes away, or stops in the middle of an answer."""
    from docker.errors import DockerException, StreamParseError
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    return (DockerException, StreamParseError, RequestException, HTTPError, HTTPException, OSError)


def ended(end: Callable[[], object]) -> None:
    """Call `end`, which removes something.  A failure is only logged: what happened before it counts.

    What stays ends with its stream, and the sweep of a later driver removes it.
    """
    try:
        end()
    except SandboxFailure as error:
        log.info("not removed: %s", error.message)


def is_podman(client: Any) -> bool:
    """Whether it is Podman that answers: it takes some things otherwise."""
    return any("podman" in str(one.get("Name")).lower() for one in client.version().get("Components") or ())


def owner_labels() -> dict[str, str]:
    """Labels that say which driver a container belongs to."""
    return {
        "harnesstrain.host": _boot(),
        "harnesstrain.owner": f"{os.getpid()}:{_started(os.getpid())}",
    }


def is_orphan(labels: dict[str, str]) -> bool:
    """Whether a labelled container's driver ran on this machine and no longer lives."""
    if labels.get("harnesstrain.host") != _boot():
        return False
    pid, _, tick = labels.get("harnesstrain.owner", "").partition(":")
    return pid.isdigit() and _started(int(pid)) != tick


def _started(pid: int) -> str:
    """The tick in which a process started; empty when it is gone, or dead and not yet collected."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if words[0] in ("Z", "X") else words[19]
    return ""


def _boot() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return socket.gethostname()


def said(error: BaseException) -> str:
    """What an exception of the client, or the engine through it, says: one line."""
    lost = _lost(error)
    if lost is not None:
        return f"the Docker engine does not answer ({lost.strerror or lost})"
    text = str(getattr(error, "explanation", None) or error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _lost(error: BaseException) -> OSError | None:
    """What broke the connection to the engine, inside the client's exception for that."""
    from requests.exceptions import ConnectionError as Broken

    inner: BaseException | None = error if isinstance(error, Broken) else None
    while inner is not None and (isinstance(inner, Broken) or not isinstance(inner, OSError)):
        inner = next((one for one in reversed(inner.args) if isinstance(one, BaseException)), None)
    return inner


def changed_paths(client: Any, container: str) -> tuple[str, ...]:
    """Paths of a container that are new, changed or gone against its image, and the directories above them."""
    with translated("comparing a container with its image"):
        return tuple(item["Path"] for item in client.api.diff(container) or ())


class SocketChannel:
    """A container's stdin and stdout, multiplexed by the engine in frames of 8 bytes and data."""

    changed: Callable[[], tuple[str, ...]] | None = None
    """Asks the engine which paths differ from the image."""

    def __init__(self, attached: Any, end: Any) -> None:
        """`attached`: what the client returned; `end`: called to remove what the agent runs in."""
        self._held: list[Any] = []
        self._end = end
        self._wire = bytearray()
        self._said = bytearray()
        self.switch(attached)

    def switch(self, attached: Any) -> None:
        """Talk over `attached` from now on; earlier connections stay open as long as this channel."""
        self._held.append(attached)
        self._socket: socket.socket = getattr(attached, "_sock", attached)

    def send(self, data: bytes, deadline: float | None) -> None:
        self._patience(deadline)
        self._socket.sendall(data)

    def receive(self, deadline: float | None) -> bytes:
        while True:
            found = self._frames()
            if found:
                return found
            self._patience(deadline)
            data = self._socket.recv(CHUNK)
            if not data:
                return b""
            self._wire += data

    def _patience(self, deadline: float | None) -> None:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    def _frames(self) -> bytes:
        out = bytearray()
        at = 0
        while len(self._wire) - at >= 8:
            kind, size = struct.unpack_from(">BxxxL", self._wire, at)
            if len(self._wire) - at < 8 + size:
                break
            data = self._wire[at + 8 : at + 8 + size]
            if kind == 1:
                out += data
            else:
                self._said = (self._said + data)[-LAST_WORDS:]
            at += 8 + size
        del self._wire[:at]
        return bytes(out)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        for attached in self._held:  # the connection, its reader and its response each hold the descriptor
            for part in (getattr(attached, "_response", None), attached, getattr(attached, "_sock", None)):
                with contextlib.suppress(OSError):
                    part.close() if part is not None else None
        ended(self._end)

    def last_words(self) -> str:
        return self._said.decode(errors="replace").strip()
