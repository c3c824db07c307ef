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


class Waiter:
    """Waits between two looks.  A signal that ends the command, a key, or a new size of the terminal ends a wait."""

    def __init__(self, *, keys: bool) -> None:
        self.code: int | None = None
        """Why to leave: 0 for a key, 128 + the signal's number; None: go on."""
        self._keys = keys and sys.stdin.isatty()
        self._signals, self._wakes = os.pipe()

    def wait(self, seconds: float) -> None:
        """Return after `seconds`, or as soon as something happened."""
        until = time.monotonic() + seconds
        sources = [self._signals, *([sys.stdin.fileno()] if self._keys else [])]
        while self.code is None and (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select(sources, [], [], left)
            if self._signals in ready:
                os.read(self._signals, 4096)
                return
            if ready:
                pressed = os.read(sys.stdin.fileno(), 1024).decode("latin-1")
                self._keys = bool(pressed)
                sources = sources if pressed else sources[:1]
                if QUIT & set(pressed):
                    self.code = 0

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if self.code is not None:
            exits.leave(128 + number)
        self.code = 128 + number

    def _woken(self, number: int, frame: FrameType | None) -> None:
        """The pipe wakes the wait; nothing else is to be done."""

    @contextlib.contextmanager
    def listening(self) -> Iterator[Waiter]:
        """Take the signals and the keys for the block."""
        numbers: dict[int, Any] = {
            signal.SIGINT: self._asked,
            signal.SIGTERM: self._asked,
            signal.SIGWINCH: self._woken,
        }
        before: dict[int, Any] = {}
        modes = termios.tcgetattr(sys.stdin) if self._keys else None
        os.set_blocking(self._wakes, False)
        woken = signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        try:
            for number, handler in numbers.items():
                before[number] = signal.signal(number, handler)
            if modes is not None:
                tty.setcbreak(sys.stdin, termios.TCSANOW)
            yield self
        finally:
            if modes is not None:
                with contextlib.suppress(termios.error):
                    termios.tcsetattr(sys.stdin, termios.TCSANOW, modes)
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(woken)
            os.close(self._signals)
            os.close(self._wakes)


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

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()
