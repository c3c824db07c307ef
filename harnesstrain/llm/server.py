"""A model server: an engine, a front over its model, and the state file that lets others find it."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from harnesstrain.core.errors import Busy, HtError, Prerequisite
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.llm import Endpoint
from harnesstrain.core.registry import load
from harnesstrain.llm.base import Checked, Engine, EngineSpec, Model, Watched
from harnesstrain.llm.choice import chosen
from harnesstrain.llm.state import LOG, ServerState, alive, birth, read_state, remove_state, starting, write_state

if TYPE_CHECKING:
    from harnesstrain.llm.front import Front

log = logging.getLogger(__name__)

LOOK = 5.0
"""Seconds between looks at what is certified of the endpoint."""
Vouch = Callable[[Endpoint], Endpoint]
"""The endpoint as its certificates describe it."""


class ServerPlan(Record):
    """What to serve and where."""

    engine: EngineSpec
    directory: Path
    """Where the state file goes; usually `.ht`."""
    host: str = "127.0.0.1"
    port: int = 0
    """0: any free one."""
    max_waiting: int = 256
    """Requests in the queue."""
    detached: bool = False
    start_timeout: float = 900.0
    """Seconds to wait for another start that is under way."""

    @property
    def asked(self) -> str:
        """Digest of what decides whether a running server is the one that is asked for."""
        return chosen(self.engine).digest_of(
            "engine", "model", "context_length", "deterministic", "script", "url", "options"
        )


@dataclass(frozen=True)
class Served:
    """How a server ended, or that there was one already."""

    state: ServerState | None
    """None: it was stopped before it answered."""
    already: bool = False
    """Another process serves the same; nothing was started."""
    signal: int | None = None
    """The signal that ended it."""


class _Stopped(BaseException):
    """A signal arrived while the engine was starting."""


class _Stop:
    """Set by a signal, or by the caller."""

    def __init__(self, event: threading.Event) -> None:
        self.event = event
        self.signal: int | None = None
        self.raises = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        self.signal = self.signal or number
        self.event.set()
        if self.raises:
            self.raises = False
            raise _Stopped


def start_model(spec: EngineSpec) -> Model:
    """Start the engine that `spec` names.  Raises NotFound, ConfigError, UsageError, Prerequisite."""
    spec = chosen(spec)
    engine: Engine = load("engines", spec.engine)()
    return engine.start(spec)


def check(plan: ServerPlan) -> ServerState | None:
    """Look at all that `serve` looks at before it starts; the server that serves the same already, if there is one.

    Starts and changes nothing.  Raises what `serve` would.
    """
    running = read_state(plan.directory)
    if running is not None and alive(running):
        if running.asked != plan.asked:
            raise _other(running)
        return running
    _require_port(plan)
    spec = chosen(plan.engine)
    engine: Engine = load("engines", spec.engine)()
    if isinstance(engine, Checked):
        engine.check(spec)
    return None


def serve(
    plan: ServerPlan,
    *,
    announce: Callable[[Served], None],
    stop: threading.Event | None = None,
    vouch: Vouch | None = None,
) -> Served:
    """Serve until SIGTERM, SIGINT or `stop`.  `announce` is called once, when it answers (or another one does).

    `vouch` says what is certified of the endpoint: asked at the start, and again and again while it serves.
    Everything it started has ended when it returns or raises.  Signals are handled in the main thread only.

    Raises Busy (something else is served here), and what starting the engine raises.
    """
    control = _Stop(stop or threading.Event())
    with _signals(control):
        try:
            return _serve(plan, announce, control, vouch)
        except _Stopped:
            return Served(None, signal=control.signal)


def _serve(plan: ServerPlan, announce: Callable[[Served], None], control: _Stop, vouch: Vouch | None) -> Served:
    from harnesstrain.llm.front import Front

    with contextlib.ExitStack() as cleanup:
        control.raises = True
        with starting(plan.directory, timeout=plan.start_timeout, stopped=control.event.is_set):
            running = read_state(plan.directory)
            if running is not None and alive(running):
                control.raises = False
                return _already(plan, running, announce)
            _require_port(plan)
            model = start_model(plan.engine)
            cleanup.callback(model.close)
            front = Front(
                model,
                host=plan.host,
                port=plan.port,
                max_running=plan.engine.max_running,
                max_waiting=plan.max_waiting,
            )
            cleanup.callback(front.close)
            plain = front.endpoint
            _publish(front, plain, vouch)
            front.start()
            control.raises = False
            state = _state(plan, front.url, front.endpoint)
            cleanup.callback(remove_state, plan.directory, state.pid)
            write_state(plan.directory, state)
        log.info("serving %s at %s", front.endpoint.model, front.url)
        announce(Served(state))
        looked = time.monotonic()
        while not control.event.wait(0.5):
            if time.monotonic() - looked >= LOOK:
                looked = time.monotonic()
                if _publish(front, plain, vouch):
                    state = state.model_copy(update={"endpoint": front.endpoint})
                    write_state(plan.directory, state)
            if not front.alive:
                raise Prerequisite("the HTTP front ended by itself", hint="the server's log says why")
            if isinstance(model, Watched) and (trouble := model.trouble()) is not None:
                raise Prerequisite(trouble, hint="the server's log says why")
        log.info("stopping")
        return Served(state, signal=control.signal)


def _publish(front: Front, plain: Endpoint, vouch: Vouch | None) -> bool:
    """Publish what is certified of the endpoint.  Whether that changed anything; trouble with the store does not."""
    try:
        changed = front.publish(vouch(plain)) if vouch is not None else False
    except HtError as error:
        log.warning("certificates could not be read: %s", error.message)
        return False
    if changed:
        what = "certified deterministic" if front.endpoint.deterministic else "not deterministic"
        log.info("%s is %s, for %d requests at once", front.endpoint.model, what, front.endpoint.max_running)
    return changed


def _require_port(plan: ServerPlan) -> None:
    """Raise Prerequisite when the port is taken: before a model is loaded, which may take minutes."""
    family = socket.AF_INET6 if ":" in plan.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((plan.host, plan.port))
        except OSError as error:
            if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                message = f"{plan.host} is no address of this machine: {error.strerror}"
                raise Prerequisite(
                    message, hint="correct --host: 127.0.0.1 for this machine, 0.0.0.0 for all"
                ) from None
            message = f"{plan.host} port {plan.port} cannot be had: {error.strerror}"
            raise Prerequisite(message, hint="choose another --port") from None


def _already(plan: ServerPlan, running: ServerState, announce: Callable[[Served], None]) -> Served:
    if running.asked != plan.asked:
        raise _other(running)
    served = Served(running, already=True)
    announce(served)
    return served


def _other(running: ServerState) -> Busy:
    return Busy(
        f"another model ({running.engine}, {running.endpoint.model}) is served here, at {running.url}",
        hint="`ht serve-llm --stop` ends it",
        pid=running.pid,
        url=running.url,
    )


def _state(plan: ServerPlan, url: str, endpoint: Endpoint) -> ServerState:
    pid = os.getpid()
    born = birth(pid)
    assert born is not None
    return ServerState(
        pid=pid,
        birth=born,
        url=url,
        engine=chosen(plan.engine).engine,
        asked=plan.asked,
        endpoint=endpoint,
        fingerprint=endpoint.fingerprint,
        detached=plan.detached,
        log=str(plan.directory / LOG) if plan.detached else None,
        since=time.time(),
    )


@contextlib.contextmanager
def _signals(control: _Stop) -> Iterator[None]:
    """SIGTERM and SIGINT go to `control`; the handlers of before come back at the end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, control.handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
