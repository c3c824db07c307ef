"""A terminal taken over for a while: redrawn in place, resized, left as it was found, whatever ends the command."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from types import FrameType
from typing import Any

from harnesstrain.cli import exits
from harnesstrain.cli.styled import Line, rich_text

QUIT = frozenset("qQ")
"""Keys that end it."""
RESTORE = "\x1b[?1049l\x1b[?25h"
"""The screen that was there before, and the cursor."""


class Waiter:
    """Waits between two looks.  A signal that ends the command, a key, or a new size of the terminal ends a wait."""

    def __init__(self, *, keys: bool) -> None:
        self.code: int | None = None
        """Why to leave: 0 for a key, 128 + the signal's number; None: go on."""
        self.screen: Screen | None = None
        """What is put aside while the command is suspended, and given back when it is killed."""
        self._keys = keys and sys.stdin.isatty()
        self._modes = termios.tcgetattr(sys.stdin) if self._keys else None
        self._suspended = False
        self._signals, self._wakes = os.pipe()

    def wait(self, seconds: float) -> None:
        """Return after `seconds`, or as soon as something happened."""
        until = time.monotonic() + seconds
        sources = [self._signals, *([sys.stdin.fileno()] if self._keys else [])]
        while self.code is None and (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select(sources, [], [], left)
            if self._signals in ready:
                os.read(self._signals, 4096)
                if self._suspended:
                    self._suspend()
                return
            if ready:
                pressed = os.read(sys.stdin.fileno(), 1024).decode("latin-1")
                self._keys = bool(pressed)
                sources = sources if pressed else sources[:1]
                if QUIT & set(pressed):
                    self.code = 0

    @contextlib.contextmanager
    def listening(self) -> Iterator[Waiter]:
        """Take the signals and the keys for the block."""
        handlers: dict[int, Any] = dict.fromkeys((signal.SIGINT, signal.SIGTERM), self._asked)
        handlers[signal.SIGWINCH] = self._woken
        if self._modes is not None:
            handlers[signal.SIGTSTP] = self._put_aside
        os.set_blocking(self._wakes, False)
        woken = signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            self._press()
            yield self
        finally:
            self._release()
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(woken)
            os.close(self._signals)
            os.close(self._wakes)

    def _press(self) -> None:
        """Have keys at once and unseen."""
        if self._modes is not None:
            tty.setcbreak(sys.stdin, termios.TCSANOW)

    def _release(self) -> None:
        """Leave the keyboard as it was."""
        if self._modes is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(sys.stdin, termios.TCSANOW, self._modes)

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if self.code is not None:  # a look that does not come to an end
            self._release()
            if self.screen is not None:
                sys.stdout.write(RESTORE)
            exits.leave(128 + number)
        self.code = 128 + number

    def _woken(self, number: int, frame: FrameType | None) -> None:
        """The pipe wakes the wait; nothing else is to be done."""

    def _put_aside(self, number: int, frame: FrameType | None) -> None:
        self._suspended = True

    def _suspend(self) -> None:
        """Give the terminal to the shell, and take it again when the command goes on."""
        self._suspended = False
        if self.screen is not None:
            self.screen.leave()
        self._release()
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, ours)
        self._press()
        if self.screen is not None:
            self.screen.enter()


class Screen:
    """The whole terminal, drawn in place.  Whoever opens it sees what was there before when it is closed."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, screen=True, auto_refresh=False, redirect_stdout=False)

    @property
    def width(self) -> int:
        """Columns now."""
        return self._console.width

    @property
    def height(self) -> int:
        """Lines now."""
        return self._console.height

    def draw(self, lines: list[Line]) -> None:
        """Show these lines, cut to what fits."""
        from rich.text import Text

        width, height = self._console.size
        shown = [rich_text(one, width) for one in lines[:height]]
        self._live.update(Text("\n", end="").join(shown), refresh=True)

    def enter(self) -> None:
        """Take the terminal."""
        self._live.start()

    def leave(self) -> None:
        """Give it back as it was."""
        self._live.stop()

    def __enter__(self) -> Screen:
        self.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
