"""The stage: run a server, say what runs, stop it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path

from harnesstrain.core.errors import Prerequisite
from harnesstrain.llm.server import Served, serve
from harnesstrain.llm.server import check as check_server
from harnesstrain.llm.state import ServerState, alive, answers, read_state, remove_state
from harnesstrain.stages.serve.detach import detach
from harnesstrain.stages.serve.spec import Action, Condition, ServeSpec, Serving


def run(
    spec: ServeSpec,
    *,
    announce: Callable[[Serving], None] | None = None,
    stop_event: threading.Event | None = None,
) -> Serving:
    """Do what `spec.action` says.

    Foreground: blocks until SIGTERM, SIGINT or `stop_event`; `announce` is called when the server answers; the result
    holds the signal.  When the same is served here already, returns at once with `already`.  Detach: returns when it
    answers.

    Raises Busy (something else is served here), Prerequisite (it did not come up; carries `log_tail`), and what the
    engine raises.
    """
    if spec.action is Action.STATUS:
        return status(spec.directory)
    if spec.action is Action.STOP:
        return stop(spec.directory, grace=spec.grace)
    if spec.action is Action.DETACH:
        served = detach(spec.plan(detached=True), timeout=spec.start_timeout, voucher=spec.voucher)
        serving = Serving.of(served.state, Condition.RUNNING, already=served.already)
        if announce is not None:
            announce(serving)
        return serving

    def tell(served: Served) -> None:
        if announce is not None:
            announce(Serving.of(served.state, Condition.RUNNING, already=served.already))

    served = serve(spec.plan(detached=False), announce=tell, stop=stop_event, vouch=spec.voucher)
    condition = Condition.RUNNING if served.already else Condition.STOPPED
    return Serving.of(served.state, condition, already=served.already, signal=served.signal)


def check(spec: ServeSpec) -> Serving | None:
    """Whether `run` would start: what serves the same already, or None.  Changes nothing.

    Raises what `run` would refuse before it starts anything.
    """
    state = check_server(spec.plan(detached=spec.action is Action.DETACH))
    return Serving.of(state, Condition.RUNNING, already=True) if state is not None else None


def status(directory: Path) -> Serving:
    """What runs here, judged by process id and start time, and by whether it answers."""
    state = read_state(directory)
    if state is None:
        return Serving(condition=Condition.STOPPED)
    if not alive(state):
        return Serving.of(state, Condition.STALE)
    return Serving.of(state, Condition.RUNNING if answers(state) else Condition.UNRESPONSIVE)


def stop(directory: Path, *, grace: float = 10.0) -> Serving:
    """End the server: SIGTERM, after `grace` seconds SIGKILL, for it and everything it started.

    A stale state file is removed.  Nothing running is no error.  Raises Prerequisite when it may not be signalled.
    """
    state = read_state(directory)
    if state is None:
        return Serving(condition=Condition.STOPPED)
    if alive(state):
        _end(state, grace)
    remove_state(directory, state.pid)
    return Serving.of(state, Condition.STOPPED)


def _end(state: ServerState, grace: float) -> None:
    import psutil

    try:
        process = psutil.Process(state.pid)
        if not alive(state):
            return
        family = [process, *process.children(recursive=True)]
        process.terminate()
        with contextlib.suppress(psutil.TimeoutExpired):
            process.wait(grace)
        left = [member for member in family if member.is_running()]
        for member in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        psutil.wait_procs(left, timeout=5.0)
    except psutil.NoSuchProcess:
        return
    except psutil.AccessDenied:
        raise Prerequisite(f"process {state.pid} belongs to somebody else", hint="ask its owner to stop it") from None
