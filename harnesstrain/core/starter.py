"""Starting many confined processes: one fork of a process that is ready, instead of a new interpreter, for each.

The fork server (`forkserver.py`) is started at the first start and ends with this process, whatever becomes of it.
Where it cannot be had, a confined process is started alone; there is no other difference.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from io import FileIO
from pathlib import Path

from harnesstrain.core.confinement import Confinement, launch_argv, specification

LARGEST = 1 << 16
"""Bytes of a specification that fits into one message to the fork server, on any machine."""

_START = "import sys; sys.path.append(sys.argv[1]); import forkserver; forkserver.main(*map(int, sys.argv[2:]))"


class Started:
    """A launcher that the fork server started: a child of this process.  Used as a `Popen` is; thread-safe."""

    def __init__(self, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.stdin, self.stdout, self.stderr = FileIO(stdin, "wb"), FileIO(stdout, "rb"), FileIO(stderr, "rb")
        self._code: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit code (-n for signal n), or None while it runs."""
        with self._lock:
            if self._code is None:
                try:
                    pid, status = os.waitpid(self.pid, os.WNOHANG)
                except ChildProcessError:  # somebody else waited for it
                    self._code = 255
                else:
                    self._code = os.waitstatus_to_exitcode(status) if pid else None
            return self._code

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it ended.  Raises TimeoutExpired after `timeout` seconds."""
        with self._lock:
            watched = os.pidfd_open(self.pid) if self._code is None else None
        if watched is not None:
            watch = select.poll()
            watch.register(watched, select.POLLIN)
            watch.poll(None if timeout is None else max(0.0, timeout) * 1000)
            os.close(watched)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("launcher", timeout or 0.0)
        return code

    def send_signal(self, sig: int) -> None:
        """Send a signal, unless it ended."""
        with self._lock:
            if self._code is None:
                os.kill(self.pid, sig)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


class _Server:
    """The fork server of this process."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            numbers = (str(theirs.fileno()), str(os.getpid()))
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, str(Path(__file__).parent), *numbers],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                cwd="/",
            )

    def start(self, request: bytes, streams: tuple[int, int, int]) -> int:
        """The process id of a launcher.  Raises OSError."""
        socket.send_fds(self._line, [request], streams)
        said = self._line.recv(1000).decode()
        if not said.isdigit():
            raise OSError(said or "the fork server ended")
        return int(said)

    def close(self) -> None:
        """End it."""
        self._line.close()
        self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """It is another process's."""
        self._line.close()
        self._process.returncode = 0


class _Starter:
    """Whom to ask for a start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._broken = sys.platform != "linux"
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self._close)

    def start(self, request: bytes, streams: tuple[int, int, int]) -> int | None:
        """The process id of a launcher; None: start it alone."""
        with self._lock:
            if self._broken or len(request) > LARGEST:
                return None
            try:
                self._server = self._server or _Server()
                return self._server.start(request, streams)
            except OSError:
                self._close()
                self._broken = True
                return None

    def _close(self) -> None:
        if self._server is not None:
            with contextlib.suppress(OSError):
                self._server.close()
            self._server = None

    def _forked(self) -> None:
        self._lock = threading.Lock()
        if self._server is not None:
            self._server.forget()
            self._server = None


_starter = _Starter()


def start(confinement: Confinement) -> Started | subprocess.Popen[bytes]:
    """Start a confined process: its stdin, stdout and stderr are unbuffered pipes.

    What it is, how it is ended and what its exit code says: as with `launch_argv`.  Raises OSError.
    """
    theirs, ours = [], []
    try:
        for writes in (True, False, False):
            reading, writing = os.pipe()
            theirs.append(reading if writes else writing)
            ours.append(writing if writes else reading)
        pid = _starter.start(specification(confinement), (theirs[0], theirs[1], theirs[2]))
        if pid is not None:
            return Started(pid, ours.pop(0), ours.pop(0), ours.pop(0))
    finally:
        for fd in (*theirs, *ours):
            os.close(fd)
    argv, pipe = launch_argv(confinement), subprocess.PIPE
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True)
