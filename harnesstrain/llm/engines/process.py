"""A server program as a process of its own: started, waited for, watched, ended.

Its output goes to a log file.  Between us and the program stands the tether, so that the program ends with us, however
we end.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from harnesstrain.core.errors import HtError, LlmFailure, Prerequisite
from harnesstrain.core.ports import StopSignal
from harnesstrain.core.records.llm import Endpoint, LlmRequest, Reply
from harnesstrain.llm.client import OpenAIModel
from harnesstrain.llm.logs import log_size, log_tail
from harnesstrain.llm.transport import Patience, Transport

START_TIMEOUT = 1800.0
"""Seconds that a program may take to load its model."""


@dataclass(frozen=True)
class Launch:
    """How a server program is started and recognised."""

    engine: str
    command: Sequence[str]
    """The whole command line, host and port included."""
    port: int
    health: str
    """Path that answers 200 once requests can be served."""
    identity: Mapping[str, Any]
    """What is known about it before it runs: flags and weights, never host, port or directory."""
    context_length: int | None
    max_running: int
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to our own."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """Fields added to every request."""
    log: Path | None = None
    """None: a temporary file."""
    start_timeout: float = START_TIMEOUT


class ProcessModel:
    """A model in a program of its own.  Closing it ends the program."""

    def __init__(self, launch: Launch) -> None:
        """Start and wait until it is healthy.  Raises Prerequisite with the end of its log when it does not come up."""
        self._launch = launch
        self._temporary = launch.log is None
        self._log = launch.log or _temporary_log()
        self._log_start = log_size(self._log)
        self._child = _spawn(launch, self._log)
        self._client: OpenAIModel | None = None
        try:
            self._wait()
            self._client = OpenAIModel(
                f"http://127.0.0.1:{launch.port}/v1",
                context_length=launch.context_length,
                max_running=launch.max_running,
                body=launch.body,
            )
            self._endpoint = self._described(self._client)
        except BaseException:
            self.close()
            raise

    def endpoint(self) -> Endpoint:
        """The engine, its flags, and what the program says about itself."""
        return self._endpoint

    def complete(self, request: LlmRequest) -> Reply:
        """One reply from the program."""
        return self._running().complete(request)

    def inspect(self, request: LlmRequest, *, cold: bool = False, stop: StopSignal | None = None) -> Reply:
        """One reply with what the program tells of it."""
        return self._running().inspect(request, cold=cold, stop=stop)

    def count_tokens(self, messages: Sequence[Mapping[str, Any]]) -> int:
        """Prompt tokens as the program counts them."""
        return self._running().count_tokens(messages)

    def trouble(self) -> str | None:
        """Whether the program has ended."""
        status = self._child.poll()
        return None if status is None else f"{self._launch.engine} ended with status {status}"

    def close(self) -> None:
        """End the program and everything it started."""
        if self._client is not None:
            self._client.close()
        if self._child.stdin is not None:
            with contextlib.suppress(OSError):
                self._child.stdin.close()
        self._child.wait()
        if self._temporary:
            self._log.unlink(missing_ok=True)

    def _running(self) -> OpenAIModel:
        if self._client is None:
            raise LlmFailure(f"{self._launch.engine} is not running")
        return self._client

    def _wait(self) -> None:
        until = time.monotonic() + self._launch.start_timeout
        brief = Patience(connect=2.0, attempt=10.0, deadline=10.0, absent=0.0, garbled=1)
        probe = Transport(f"http://127.0.0.1:{self._launch.port}", api_key=None, patience=brief, max_bytes=1 << 20)
        try:
            while True:
                status = self._child.poll()
                if status is not None:
                    self._failed(f"ended with status {status} while it started")
                if time.monotonic() > until:
                    self._failed(f"did not come up within {self._launch.start_timeout:g} s")
                if probe.answers(self._launch.health):
                    return
                time.sleep(0.2)
        finally:
            probe.close()

    def _failed(self, what: str) -> NoReturn:
        tail = log_tail(self._log, since=self._log_start)
        last = tail[-1] if tail else "it wrote nothing"
        hint = f"its log: {self._log}" if not self._temporary else "start it with a log file to see more"
        raise Prerequisite(f"{self._launch.engine} {what}: {last}", hint=hint, log_tail=tail)

    def _described(self, client: OpenAIModel) -> Endpoint:
        try:
            said = client.endpoint()
        except HtError as error:
            raise Prerequisite(f"{self._launch.engine} came up, but: {error.message}", hint=error.hint) from None
        return Endpoint(
            engine=self._launch.engine,
            model=said.model,
            context_length=said.context_length,
            deterministic=False,
            max_running=said.max_running,
            identity={**self._launch.identity, "server": said.identity},
        )


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _temporary_log() -> Path:
    with tempfile.NamedTemporaryFile(prefix="ht-engine-", suffix=".log", delete=False) as file:
        return Path(file.name)


def _spawn(launch: Launch, log: Path) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    tether = [sys.executable, "-P", "-m", "harnesstrain.llm.engines.tether", *launch.command]
    with log.open("ab") as output:
        return subprocess.Popen(
            tether,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **launch.environment},
            start_new_session=True,
        )
