"""One command: its process, its streams, its end."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import signal
import sys
import time

from harnesstrain.sandbox.agent.processes import ENDED, Account, kill_all, others, reap
from harnesstrain.sandbox.agent.stream import CHUNK, End, Kept

GRACE = 0.2
"""Seconds that output is still collected after a command ended while something holds it open."""
OOM_SCORE = b"900"
LOOK = 0.25
"""Seconds between two looks at the free space of a disk that is shared with the host."""
HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD)
LIBC = ctypes.CDLL(None)
PR_SET_DUMPABLE = 4
LINUX = sys.platform == "linux"


class Request:
    """What is to be run."""

    def __init__(self, cwd: bytes, user: str, env: bytes, stdin: bytes | None, command: bytes) -> None:
        self.cwd, self.user, self.stdin, self.command = cwd, user, stdin, command
        self.env = [pair.partition(b"=") for pair in env.split(b"\0")[:-1]]


class Command:
    """A started command.  `follow` collects its output and waits for its end."""

    def __init__(self, request: Request, shell: str, cap: int, timeout: float | None, floor: int = 0) -> None:
        """`cap`: bytes kept of each output; `timeout`: seconds; `floor`: bytes that must stay free on the disk.

        Raises OSError when no process can be made.
        """
        self.floor = floor
        self.begun = time.monotonic()
        self.deadline = None if timeout is None else self.begun + timeout
        self.before = others() if reap() else {}
        self.stdin = request.stdin or b""
        self.sent = 0
        out, err = os.pipe(), os.pipe()
        into = os.pipe() if self.stdin else (os.open(os.devnull, os.O_RDONLY), -1)
        try:
            self.pid = _fork()
            if self.pid == 0:
                _become(request, shell, (into[0], out[1], err[1]))
        finally:
            for fd in (into[0], out[1], err[1]):
                os.close(fd)
        self.feed = into[1]
        self.out, self.err = Kept(cap), Kept(cap)
        self.outputs = {out[0]: self.out, err[0]: self.err}
        self.status: int | None = None
        self.timed_out = False
        self.grace_end = 0.0

    @property
    def code(self) -> int:
        """Exit code as a shell gives it; 124 after a time-out."""
        status = self.status or 0
        if self.timed_out:
            return 124
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)

    @property
    def took(self) -> int:
        """Microseconds since the start."""
        return int((time.monotonic() - self.begun) * 1e6)

    def follow(self, wake: int, driver: int, draining: list[int]) -> None:
        """Until the command ended and its output is closed, or held open for longer than GRACE.

        `wake`: readable when a child ended; `driver`: the stream whose hang-up ends the sandbox; `draining`: pipes of
        earlier background processes, kept flowing.  Pipes that are held open join them.  Raises End.
        """
        poll = select.poll()
        poll.register(driver, 0)
        for fd in (wake, *self.outputs, *draining):
            poll.register(fd, select.POLLIN)
        if self.feed >= 0:
            os.set_blocking(self.feed, False)
            poll.register(self.feed, select.POLLOUT)
        while self.status is None or self.outputs:
            now = time.monotonic()
            if self.status is not None and now >= self.grace_end:
                break
            if self.status is None and not self.timed_out and self.deadline is not None and now >= self.deadline:
                self.timed_out = True
                with contextlib.suppress(OSError):
                    os.killpg(self.pid, signal.SIGKILL)
                kill_all(self.before)
            if self.status is None and self.floor and free_space() < self.floor:
                self.err.add(b"sandbox: the disk is nearly full, so the command was ended\n")
                self.floor = 0
                kill_all(self.before)
            for fd, event in poll.poll(self._patience(now)):
                if fd == driver:
                    raise End
                if fd == self.feed:
                    if not self._feed(event):
                        poll.unregister(fd)
                elif not self._take(fd, wake, draining):
                    poll.unregister(fd)
            if self.status is None:
                reap()
                self.status = ENDED.pop(self.pid, None)
                self.grace_end = time.monotonic() + GRACE
        if self.feed >= 0:
            os.close(self.feed)
        draining += self.outputs

    def _patience(self, now: float) -> int | None:
        end = self.grace_end if self.status is not None else None if self.timed_out else self.deadline
        if self.floor and self.status is None:
            end = now + LOOK if end is None else min(end, now + LOOK)
        return None if end is None else max(int((end - now) * 1000) + 1, 0)

    def _take(self, fd: int, wake: int, draining: list[int]) -> bool:
        data = os.read(fd, CHUNK)
        if fd == wake:
            return True
        if data and fd in self.outputs:
            self.outputs[fd].add(data)
        if not data:
            os.close(fd)
            if self.outputs.pop(fd, None) is None:
                draining.remove(fd)
        return bool(data)

    def _feed(self, event: int) -> bool:
        try:
            if event & select.POLLOUT:
                self.sent += os.write(self.feed, self.stdin[self.sent : self.sent + CHUNK])
            else:
                self.sent = len(self.stdin)
        except OSError as error:
            if error.errno != errno.EAGAIN:
                self.sent = len(self.stdin)
        if self.sent < len(self.stdin):
            return True
        os.close(self.feed)
        self.feed = -1
        return False


def free_space() -> int:
    """Bytes free on the disk that holds the root."""
    seen = os.statvfs("/")
    return seen.f_bavail * seen.f_frsize


def _fork() -> int:
    try:
        return os.fork()
    except OSError:  # an earlier command holds every process there may be: it ends, so that the sandbox stays usable
        kill_all({})
        return os.fork()


def _become(request: Request, shell: str, fds: tuple[int, int, int]) -> None:
    try:
        os.setsid()
        for target, fd in enumerate(fds):
            os.dup2(fd, target)
        os.closerange(3, 1024)
        signal.set_wakeup_fd(-1)
        for number in HANDLED:
            signal.signal(number, signal.SIG_DFL)
        if LINUX:
            LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        with contextlib.suppress(OSError):
            oom = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
            os.write(oom, OOM_SCORE)
            os.close(oom)
        environment = dict(os.environb)
        for name, _, value in request.env:
            environment[name] = value
        if request.user:
            account = Account(request.user)
            if account.uid != os.getuid() or account.gid != os.getgid():
                os.setgroups(account.groups)
                os.setgid(account.gid)
                os.setuid(account.uid)
                environment[b"HOME"], environment[b"USER"] = os.fsencode(account.home), os.fsencode(account.name)
                environment[b"LOGNAME"] = environment[b"USER"]
        try:
            os.chdir(request.cwd)
        except OSError as error:
            os.write(2, b"sandbox: cannot enter %s: %s\n" % (request.cwd, os.strerror(error.errno or 0).encode()))
            os._exit(126)
        os.execve(shell, [shell.encode(), b"-c", request.command], environment)
    except (OSError, LookupError, ValueError) as error:
        os.write(2, f"sandbox: cannot start the command: {error}\n".encode(errors="replace"))
    finally:
        os._exit(126)
