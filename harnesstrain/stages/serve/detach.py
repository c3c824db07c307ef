"""A server as a process of its own.

The process runs in a session of its own, with its output in a log file.  It gets its plan on standard input (so that no
secret is in a command line, an environment or a file) and says on a pipe, in one JSON line, that it answers or why not.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from harnesstrain.core.errors import HtError, Prerequisite
from harnesstrain.llm.logs import log_size, log_tail
from harnesstrain.llm.server import Served, ServerPlan
from harnesstrain.llm.state import LOG, ServerState
from harnesstrain.stages.serve.vouching import Voucher


def detach(plan: ServerPlan, *, timeout: float, voucher: Voucher | None = None) -> Served:
    """Start a server and wait until it answers.  It outlives us.

    Raises Prerequisite (it ended, or did not answer in time; nothing is left running), or what the server raised.
    """
    log = plan.directory / LOG
    try:
        plan.directory.mkdir(parents=True, exist_ok=True)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Prerequisite(f"'{log}' cannot be written: {error.strerror}", hint="check its owner") from None
    written = log_size(log)
    reading, writing = os.pipe()
    try:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "harnesstrain.stages.serve", str(writing)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd="/",
            pass_fds=(writing,),
            start_new_session=True,
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(output)
        os.close(writing)
    try:
        _hand_over(child, plan, voucher)
        said = _listen(reading, child, time.monotonic() + timeout)
        if said is None:
            raise _silent(child, log, written, timeout)
        if "error" in said:
            raise _revived(said["error"])
        served = Served(ServerState.model_validate(said["state"]), already=said["already"])
    except BaseException:
        _kill(child)
        raise
    finally:
        os.close(reading)
    # Reaps the process when it ends, should we still be there.
    threading.Thread(target=child.wait, name="server", daemon=True).start()
    return served


def _hand_over(child: subprocess.Popen[bytes], plan: ServerPlan, voucher: Voucher | None) -> None:
    assert child.stdin is not None
    package = {
        "plan": plan.model_dump(mode="json"),
        "api_key": plan.engine.api_key,
        "voucher": voucher.model_dump(mode="json") if voucher is not None else None,
    }
    with contextlib.suppress(BrokenPipeError):
        child.stdin.write(json.dumps(package).encode("utf-8"))
    with contextlib.suppress(BrokenPipeError):
        child.stdin.close()


def _listen(reading: int, child: subprocess.Popen[bytes], until: float) -> dict[str, Any] | None:
    """The line that the process says; None when it ended without a word, or `until` is over."""
    heard = b""
    while b"\n" not in heard:
        left = until - time.monotonic()
        if left <= 0:
            return None
        ready, _, _ = select.select([reading], [], [], min(left, 0.2))
        if not ready:
            if child.poll() is not None:
                return None
            continue
        part = os.read(reading, 65_536)
        if not part:
            return None
        heard += part
    said: dict[str, Any] = json.loads(heard.partition(b"\n")[0])
    return said


def _silent(child: subprocess.Popen[bytes], log: Path, written: int, timeout: float) -> Prerequisite:
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(2.0)
    status = child.poll()
    what = f"did not answer within {timeout:g} s" if status is None else f"ended with status {status}"
    tail = log_tail(log, since=written)
    last = f": {tail[-1]}" if tail else ""
    return Prerequisite(f"the model server {what}{last}", hint=f"its log: {log}", log_tail=tail)


def _revived(payload: dict[str, Any]) -> HtError:
    """The error that the server process raised."""
    extra = {name: value for name, value in payload.items() if name not in ("kind", "message", "hint")}
    kinds = {kind.kind: kind for kind in _tree(HtError)}
    return kinds.get(payload["kind"], HtError)(payload["message"], hint=payload["hint"], **extra)


def _tree(root: type[HtError]) -> list[type[HtError]]:
    return [root, *(found for child in root.__subclasses__() for found in _tree(child))]


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End a server that did not come up, gently first: it may have started processes."""
    with contextlib.suppress(ProcessLookupError):
        child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(10.0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
