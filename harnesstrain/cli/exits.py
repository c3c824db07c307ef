"""Errors become one line, a hint and an exit code.  One interrupt drains, two stop.  Bugs leave a log.

0 done · 1 bug · 2 usage, config, unknown id · 3 the answer is no (--exit-code) · 4 unmeasurable · 5 incomplete
6 prerequisite missing · 7 busy · 130/141/143 signals
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from harnesstrain.cli import output
from harnesstrain.core.errors import AnswerNo, HtError

SIGINT, SIGPIPE, SIGTERM = 130, 141, 143

_ENDLESS = re.compile(r"\S{512,}")
SHOWN = 40
"""Characters of either end of an endless word."""


class Stop:
    """The stop signal of a command that can drain.  A second interrupt stops at once."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.drains = False
        """Whether the running command looks at this signal between units of work."""
        self.child: subprocess.Popen[bytes] | None = None
        """A command that this one runs and waits for."""

    def is_set(self) -> bool:
        """Whether work should stop."""
        return self._event.is_set()

    def ask(self, number: int) -> None:
        """A signal arrived.  The first interrupt drains, where the command can; anything else stops at once.

        Nothing committed is lost; children end with their pipes.
        """
        if number == signal.SIGINT and self.drains and not self._event.is_set():
            self._event.set()
            output.say("stopping: what runs is finished first; once more stops at once")
            return
        leave(128 + number)


STOP = Stop()
"""Of this process."""


def leave(code: int) -> NoReturn:
    """Exit at once.  Children end when their pipes close; a command that this one waits for gets the same signal."""
    with contextlib.suppress(OSError, ValueError):
        if STOP.child is not None and STOP.child.poll() is None:
            STOP.child.send_signal(code - 128)
    with contextlib.suppress(OSError, ValueError, HtError):
        sys.stdout.flush()
    os._exit(code)


def install_signals() -> None:
    """SIGINT asks to stop, SIGTERM stops."""

    def handle(number: int, frame: FrameType | None) -> None:
        STOP.ask(number)

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)


def report(error: HtError, *, as_json: bool) -> int:
    """Say what went wrong; returns the exit code."""
    if as_json:
        output.finish(_jsonable(error.payload()))
    first, _, rest = _short(error.message).partition("\n")
    output.say(f"{'answer: no, ' if isinstance(error, AnswerNo) else 'error: '}{first}")
    if rest.strip():
        output.say(rest.rstrip())
    if error.hint:
        output.say(f"hint: {_short(error.hint)}")
    return error.exit_code


def _short(text: str) -> str:
    """`text` without the middle of a word that fills a screen: what was typed is known to who typed it."""
    return _ENDLESS.sub(lambda found: f"{found[0][:SHOWN]}…{found[0][-SHOWN:]}", text)


def bug(error: BaseException, *, as_json: bool) -> int:
    """A defect of this program: a short trace on stderr, the whole one in a log.  Locals are never shown."""
    log = _log(error)
    last = traceback.extract_tb(error.__traceback__)[-3:]
    if as_json:
        output.finish({"kind": "bug", "message": f"{type(error).__name__}: {error}", "hint": str(log)})
    output.say(f"bug: {type(error).__name__}: {error}")
    for frame in last:
        output.say(f"  {Path(frame.filename).name}:{frame.lineno} in {frame.name}")
    output.say(f"hint: the whole trace is in {log}")
    return 1


def _log(error: BaseException) -> Path:
    state = Path.cwd() / ".ht"
    folder = state / "logs" if state.is_dir() else Path(os.environ.get("TMPDIR", "/tmp"))
    path = folder / f"ht-bug-{int(time.time())}-{os.getpid()}.log"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    return path


def _jsonable(payload: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value if isinstance(value, str | int | float | list | None) else str(value)
        for key, value in payload.items()
    }
