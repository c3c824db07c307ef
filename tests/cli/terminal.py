"""A real pseudo-terminal around a command: what it writes, what it is told, and how it ends."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from pathlib import Path

from tests.project import Project

ALLOWED = re.compile(
    r"\x1b\[(?:\?25[lh]|\?1049[lh]|H|2J|K|J|[0-9]*[ABCDG]|2K|1A"  # cursor, screen, erasing: the display's own
    r"|(?:0|[1-3]|3[1-6]|[1-3];3[1-6]|3[1-6];1)?m)"  # the styles this program uses, and no other
)
"""Every escape sequence that this program writes of its own."""
HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What must not be in what a terminal gets: control characters, C1 ones and direction overrides among them."""


class Terminal:
    """`ht` in a terminal of its own.  Close it, or let it end."""

    def __init__(
        self, project: Project, *argv: str, columns: int = 100, lines: int = 40, cwd: Path | None = None, **env: str
    ) -> None:
        environment = project.environment(**{"TERM": "xterm-256color", **env})
        command = project.argv(*argv)
        self.written = ""
        self._pending = b""
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(cwd or project.root)
                os.execve(command[0], command, environment)
            finally:
                os._exit(127)
        self.resize(columns, lines)

    def resize(self, columns: int, lines: int) -> None:
        """Give the terminal another size."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def until(self, pattern: str, timeout: float = 60.0) -> str:
        """Read until the pattern is found in what was written since the last call; returns that."""
        start = len(self.written)
        deadline = time.monotonic() + timeout
        while re.search(pattern, self.written[start:]) is None:
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.written[start:]!r}"
            assert self._read(1.0), f"it ended before {pattern!r}: {self.written[start:]!r}"
        return self.written[start:]

    def end(self, timeout: float = 60.0) -> int:
        """Read to the end; the exit code as a shell says it."""
        deadline = time.monotonic() + timeout
        while self._read(1.0):
            assert time.monotonic() < deadline, f"it goes on: {self.written[-2000:]!r}"
        _, status = os.waitpid(self.pid, 0)
        os.close(self._master)
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code

    @property
    def strays(self) -> list[str]:
        """Escape sequences and control characters that are none of this program's own."""
        rest = ALLOWED.sub("", self.written).replace("\r\n", "\n").replace("\r", "")
        return HIDDEN.findall(rest)

    def _read(self, seconds: float) -> bool:
        """Read what there is within `seconds`; False at the end."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return False
        self._pending += data
        text = self._pending.decode("utf-8", "surrogateescape")
        whole = len(text.rstrip("".join(map(chr, range(0xDC80, 0xDD00))))) if text else 0
        self.written += text[:whole]
        self._pending = text[whole:].encode("utf-8", "surrogateescape")
        return bool(data)
