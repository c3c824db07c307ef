"""Runs a command and ends its whole process group when whoever holds our standard input goes away.

    python -m harnesstrain.llm.engines.tether COMMAND…

The owner keeps the write end of our standard input open.  When it closes it, or dies in whatever way, the pipe ends;
then the group gets SIGTERM, and SIGKILL after a grace.  When the command ends first, we end with its status.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""


def hold(command: list[str], lifeline: int) -> int:
    """Run `command` in a session of its own until it ends or `lifeline` does.  Its exit status, 128+n for signals."""
    # A signal to our own group (the terminal's Ctrl-C) is for the owner to act on.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, start_new_session=True, restore_signals=True, preexec_fn=_default_signals
    )
    try:
        while child.poll() is None:
            ready, _, _ = select.select([lifeline], [], [], 0.2)
            if ready and not os.read(lifeline, 4096):
                break
    finally:
        _end(child)
    status = child.returncode
    return status if status >= 0 else 128 - status


def _default_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the command's group; helpers that outlived the command itself too."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGTERM)
    until = time.monotonic() + GRACE
    while time.monotonic() < until and _group_lives(child):
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _group_lives(child: subprocess.Popen[bytes]) -> bool:
    child.poll()
    try:
        os.killpg(child.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    sys.exit(hold(sys.argv[1:], 0))
