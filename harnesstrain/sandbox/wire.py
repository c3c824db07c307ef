"""The driver's side of the agent's protocol (described in `agent/__init__.py`)."""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from harnesstrain.core.confinement import stop
from harnesstrain.core.errors import SandboxFailure
from harnesstrain.core.records.sandbox import RunResult
from harnesstrain.sandbox.base import FileFault
from harnesstrain.sandbox.landing import Landing
from harnesstrain.sandbox.tree import Entry

CHUNK = 1 << 16
ANSWER_WITHIN = 60.0
"""Seconds beyond a command's own time-out before a silent agent counts as gone."""
READ_LIMIT = 64 << 20
"""Largest file that can be read, in bytes."""
SAID = 2000
ENTRY_NUMBERS = {b"D": 1, b"F": 3, b"L": 2, b"S": 1}
"""How many numbers follow the letter of an entry of GET."""


class Channel(Protocol):
    """A byte stream to an agent."""

    def send(self, data: bytes, deadline: float | None) -> None:
        """Write everything.  Raises OSError, TimeoutError."""

    def receive(self, deadline: float | None) -> bytes:
        """Some bytes; empty at the end.  Raises OSError, TimeoutError."""

    def close(self) -> None:
        """End it and what it talks to."""

    def last_words(self) -> str:
        """What the other side said when it could not start."""


class PipeChannel:
    """An agent started here: over the pipes of its launcher, or of the agent itself."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin and process.stdout and process.stderr
        self.process = process
        self._in, self._out, self._err = process.stdin, process.stdout, process.stderr
        os.set_blocking(self._in.fileno(), False)

    def send(self, data: bytes, deadline: float | None) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._in.fileno(), view) :]
            except BlockingIOError:
                _wait(self._in.fileno(), select.POLLOUT, deadline)

    def receive(self, deadline: float | None) -> bytes:
        _wait(self._out.fileno(), select.POLLIN, deadline)
        return os.read(self._out.fileno(), CHUNK)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._in.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.5)
        stop(self.process)
        self._out.close()
        self._err.close()

    def last_words(self) -> str:
        with contextlib.suppress(OSError, ValueError, TimeoutError):  # ValueError: closed meanwhile
            _wait(self._err.fileno(), select.POLLIN, time.monotonic() + 1)
            return os.read(self._err.fileno(), SAID).decode(errors="replace").strip()
        return ""


def _wait(fd: int, event: int, deadline: float | None) -> None:
    poll = select.poll()
    poll.register(fd, event)
    left = None if deadline is None else max(int((deadline - time.monotonic()) * 1000), 0)
    if not poll.poll(left):
        raise TimeoutError


class Agent:
    """Requests to one agent.  Thread-safe: one at a time."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._lock = threading.RLock()
        self._buffer = bytearray()
        self._deadline: float | None = None
        self.kind = "python"
        """Which agent answers: python or sh."""
        self.aslr_off = False

    def ready(self, message: bytes, pid_base: int, within: float, floor_mb: int = 0) -> None:
        """Wait for the agent, hand it its modules if it is the Python one, greet it.

        `pid_base`: id of the first process; `within`: seconds; `floor_mb`: what must stay free on the host's disk.
        """
        with self._lock:
            self._within(within)
            words = self._line().split()
            if words[:1] != [b"READY"] or len(words) < 2:
                raise self._gone(f"answered {words!r} instead of READY")
            self.kind = words[1].decode()
            self._send(message if self.kind == "python" else b"", b"HELLO %d %d\n" % (pid_base, floor_mb))
            words = self._line().split()
            if words[:1] != [b"HELLO"] or len(words) < 3:
                raise self._gone(f"answered {words!r} instead of HELLO")
            self.aslr_off = words[2] == b"1"

    def run(
        self,
        command: str,
        *,
        cwd: str,
        user: str = "",
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        stdin: bytes | None = None,
        cap: int,
    ) -> RunResult:
        """Run a command; `cap`: bytes kept of each output."""
        if "\0" in command:
            return RunResult(exit_code=126, stderr=b"sandbox: a command cannot contain a NUL byte\n")
        if self.kind == "sh" and env:  # it cannot take pairs apart
            command = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items()) + command
        pairs = b"".join(f"{name}={value}\0".encode(errors="surrogateescape") for name, value in (env or {}).items())
        parts = [text.encode(errors="surrogateescape") for text in (cwd, user)]
        parts += [pairs, stdin or b"", command.encode(errors="surrogateescape")]
        sizes = [len(part) for part in parts]
        if stdin is None:
            sizes[3] = -1
        milliseconds = 0 if timeout is None else max(int(timeout * 1000), 1)
        header = f"RUN {milliseconds} {cap} {' '.join(map(str, sizes))}\n".encode()
        with self._lock:
            self._within(None if timeout is None else timeout + ANSWER_WITHIN)
            self._send(header, *parts)
            words = self._line().split()
            if words[:1] != [b"END"] or len(words) != 9:
                raise self._gone(f"answered {words!r} to RUN")
            code, timed_out, truncated, held, left, took, n_out, n_err = (int(word) for word in words[1:])
            out, err = self._take(n_out), self._take(n_err)
        return RunResult(
            exit_code=code,
            stdout=out,
            stderr=err,
            timed_out=bool(timed_out),
            truncated=bool(truncated),
            duration=took / 1e6,
            left=left,
            held_open=bool(held),
        )

    def read(self, path: str, user: str = "", limit: int = READ_LIMIT) -> bytes:
        """A regular file of at most `limit` bytes.  Raises FileFault."""
        return self._ask(path, b"READ %d" % limit, user.encode(), _name(path))

    def write(self, path: str, data: bytes, mode: int | None = None, user: str = "") -> None:
        """Write a regular file.  Raises FileFault."""
        self._ask(path, b"WRITE %d" % (-1 if mode is None else mode), user.encode(), _name(path), data)

    def stat(self, path: str) -> tuple[str, int, int]:
        """Kind (file, dir, link, other), mode and size of what is at `path`.  Raises FileFault."""
        kind, mode, size = self._ask(path, b"STAT", _name(path)).decode().split()
        return kind, int(mode, 8), int(size)

    def put(self, target: str, entries: Sequence[Entry], *, replace: bool = True) -> None:
        """Make a tree at `target`.  Raises FileFault."""
        lines = [line for entry in entries for line in entry.encoded()]
        self._ask(target, b"PUT %d" % replace, _name(target), after=b"".join(lines) + b".\n")

    def get(self, path: str, limit: int, landing: Landing) -> None:
        """Hand the tree or file at `path`, of at most `limit` bytes, to `landing`.  Raises FileFault."""
        name = _name(path)
        with self._lock:
            self._within(ANSWER_WITHIN)
            self._send(b"GET %d %d\n" % (limit, len(name)), name)
            while True:
                kind, *numbers = self._line().split() or [b""]
                if kind == b".":
                    return
                if kind == b"ERR" and len(numbers) == 2:
                    message = self._take(int(numbers[1])).decode(errors="replace")
                    raise FileFault(numbers[0].decode(), path, message)
                if len(numbers) != ENTRY_NUMBERS.get(kind):
                    raise self._gone(f"answered {kind!r} to GET")
                self._land(kind, [int(number) for number in numbers], landing)
                self._within(ANSWER_WITHIN)

    def _land(self, kind: bytes, numbers: list[int], landing: Landing) -> None:
        if kind == b"F":
            mode, size, count = numbers
            landing.file(os.fsdecode(self._take(size)), mode, self._pieces(count))
        elif kind == b"L":
            size, count = numbers
            landing.link(os.fsdecode(self._take(size)), os.fsdecode(self._take(count)))
        else:
            name = os.fsdecode(self._take(numbers[0]))
            landing.folder(name) if kind == b"D" else landing.lacking(name)

    def kill(self) -> int:
        """Kill every process but the agent; returns how many stay."""
        return int(self._ask("", b"KILL"))

    def own(self, path: str) -> None:
        """Have the agent remove the directory `path` when it ends."""
        self._ask(path, b"OWN", _name(path))

    def others(self) -> int:
        """How many processes live besides the agent."""
        return int(self._ask("", b"OTHERS"))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """No other thread's request is served meanwhile."""
        with self._lock:
            yield

    def settled(self) -> int | None:
        """The last process id that was given, when nothing but files holds state; else None."""
        if self.kind != "python":
            return None
        left, last, shared = (int(word) for word in self._ask("", b"SETTLED").split())
        return None if left or shared or last < 0 else last

    def close(self) -> None:
        """End the sandbox."""
        self.channel.close()

    def _ask(self, path: str, verb: bytes, *parts: bytes, after: bytes = b"") -> bytes:
        header = b" ".join([verb, *(str(len(part)).encode() for part in parts)]) + b"\n"
        with self._lock:
            self._within(ANSWER_WITHIN)
            self._send(header, *parts, after)
            words = self._line().split()
            if words[:1] == [b"OK"] and len(words) == 2:
                return self._take(int(words[1]))
            if words[:1] == [b"ERR"] and len(words) == 3:
                message = self._take(int(words[2])).decode(errors="replace")
                raise FileFault(words[1].decode(), path, message)
        raise self._gone(f"answered {words[:1]!r} to {verb.decode()}")

    def _within(self, seconds: float | None) -> None:
        self._deadline = None if seconds is None else time.monotonic() + seconds

    def _send(self, *parts: bytes) -> None:
        try:
            self.channel.send(b"".join(parts), self._deadline)
        except (OSError, ValueError) as error:
            raise self._gone(str(error) or "took no request in time") from error

    def _more(self) -> None:
        try:
            data = self.channel.receive(self._deadline)
        except TimeoutError as error:
            raise self._gone("did not answer in time") from error
        except (OSError, ValueError) as error:
            raise self._gone(str(error)) from error
        if not data:
            raise self._gone("went away")
        self._buffer += data

    def _line(self) -> bytes:
        while b"\n" not in self._buffer:
            self._more()
        return self._take(self._buffer.index(b"\n") + 1)[:-1]

    def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._more()
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    def _pieces(self, count: int) -> Iterator[bytes]:
        """`count` bytes, as they come."""
        while count > 0:
            if not self._buffer:
                self._more()
            piece = self._take(min(count, len(self._buffer)))
            self._within(ANSWER_WITHIN)
            count -= len(piece)
            yield piece

    def _gone(self, what: str) -> SandboxFailure:
        said = self.channel.last_words()
        return SandboxFailure(f"the sandbox {what}" + (f": {said.splitlines()[-1]}" if said else ""))


def _name(path: str) -> bytes:
    if "\0" in path:
        raise FileFault("EINVAL", path.replace("\0", "\\0"), "a path cannot contain a NUL byte")
    return path.encode(errors="surrogateescape")
