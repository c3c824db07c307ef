"""Long output on a terminal goes through a pager.  Elsewhere it goes to stdout, as it is.

`$PAGER` is what is used, else `less -FRX`; empty or `cat` means none.  A pager that is missing or fails loses nothing:
the text is then written to the terminal.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence

from harnesstrain.cli import exits, output
from harnesstrain.cli.styled import Line, Piece, ansi, text_of, width_of

LESS = "FRX"
"""How less is asked to behave: quit when all fits, pass colours on, leave the text in the terminal."""


def show(lines: Sequence[Line | str], *, pager: bool = True) -> None:
    """Lines of data: styled where stdout may be, through a pager where they do not fit a terminal."""
    made = [found if isinstance(found, list) else _pieces(found) for found in lines]
    text = "".join(f"{ansi(one) if output.colour(sys.stdout) else text_of(one)}\n" for one in made)
    command = _pager() if pager and _overflows(made) else []
    if not command or not _paged(command, text):
        sys.stdout.write(text)
    sys.stdout.flush()


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is; None: it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _pieces(text: str) -> Line:
    """A text as it is; a line break in it is kept, an escape sequence is not."""
    return [Piece(output.clean(text))]


def _pager() -> list[str]:
    """The command line of the pager; empty: none."""
    if not output.animated(sys.stdout):
        return []
    chosen = os.environ.get("PAGER", "less")
    try:
        words = shlex.split(chosen)
    except ValueError:
        words = []
    return [] if words in ([], ["cat"]) or shutil.which(words[0]) is None else words


def _overflows(lines: Sequence[Line]) -> bool:
    """Whether the lines, wrapped, need more than the terminal has."""
    if not sys.stdout.isatty():
        return False
    size = shutil.get_terminal_size()
    texts = [part for one in lines for part in text_of(one).split("\n")]
    return sum(max(1, -(-width_of(text) // size.columns)) for text in texts) >= size.lines


def _paged(command: list[str], text: str) -> bool:
    """Whether the pager showed the text.  It has the terminal until it ends; an interrupt is its own affair."""
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, env={"LESS": LESS, **os.environ})
    except OSError:
        return False
    exits.STOP.child = process
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it was left before its end
            process.stdin.write(text.encode("utf-8", "replace"))
            process.stdin.flush()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        code = process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
        exits.STOP.child = None
    if code == -signal.SIGINT:
        raise SystemExit(exits.SIGINT)
    return code == 0
