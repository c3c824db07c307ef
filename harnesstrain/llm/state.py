"""Who runs: the state file of a model server, judged by process id and start time.

`.ht/server.json` is written when the server answers and removed when it stops.  After a `kill -9` it stays, and is
recognised as stale: no process of that id was born at that time.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ValidationError

from harnesstrain.core.errors import Busy, Prerequisite
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import Endpoint

STATE = "server.json"
LOCK = "server.lock"
LOG = "server.log"


class ServerState(Record):
    """One running model server."""

    pid: int
    birth: str
    """When the process was born, in a form that is compared and not read."""
    url: str
    """Base URL, ending in /v1."""
    engine: str
    """Name in the registry."""
    asked: str
    """Digest of what was asked for: a second start of the same is no second server."""
    endpoint: Endpoint
    fingerprint: str
    detached: bool
    log: str | None = None
    """Path of the log file; None: the terminal."""
    since: float
    """Seconds since 1970, for display."""


def birth(pid: int) -> str | None:
    """When process `pid` was born; None when there is none, or only its remains (a zombie)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        if Path("/proc/self/stat").exists():
            return None
        return _birth_elsewhere(pid)
    if fields[0] in (b"Z", b"X"):
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}:{fields[19].decode()}"


def _birth_elsewhere(pid: int) -> str | None:
    """`birth` without /proc."""
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return None


def alive(state: ServerState) -> bool:
    """Whether the process that wrote `state` still runs."""
    return birth(state.pid) == state.birth


def read_state(directory: Path) -> ServerState | None:
    """The state file in `directory`; None when there is none or it cannot be read (then it says nothing)."""
    try:
        return ServerState.model_validate_json((directory / STATE).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None


def write_state(directory: Path, state: ServerState) -> None:
    """Replace the state file, atomically.  Only its owner may read it."""
    descriptor, name = tempfile.mkstemp(dir=directory, prefix=".server-", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(state.model_dump(mode="json"), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(directory / STATE)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def remove_state(directory: Path, pid: int) -> None:
    """Remove the state file if it is still that of process `pid`."""
    state = read_state(directory)
    if state is not None and state.pid == pid:
        (directory / STATE).unlink(missing_ok=True)


@contextlib.contextmanager
def starting(directory: Path, *, timeout: float, stopped: Callable[[], bool]) -> Iterator[None]:
    """Held while a server starts, so that two starts at once make one server.  Ends with its process, however it ends.

    Waits up to `timeout` seconds, or until `stopped`; then raises Busy.  Raises Prerequisite where the directory cannot
    be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Prerequisite(f"'{directory}' cannot be written: {error.strerror}", hint="check its owner") from None
    try:
        until = time.monotonic() + timeout
        while not _locked(descriptor):
            if stopped() or time.monotonic() > until:
                raise Busy("another model server is starting here", hint="`ht serve-llm --status` says when it is up")
            time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def answers(state: ServerState, timeout: float = 2.0) -> bool:
    """Whether the server says that it is healthy, and that it is the one in `state`."""
    url = urlsplit(state.url)
    connection = HTTPConnection(url.hostname or "", url.port, timeout=timeout)
    try:
        connection.request("GET", "/health")
        said = json.loads(connection.getresponse().read(65_536))
    except (OSError, HTTPException, ValueError):
        return False
    finally:
        connection.close()
    return isinstance(said, dict) and said.get("fingerprint") == state.fingerprint
