"""The requests of the agent, one at a time."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import stat
from collections.abc import Callable

from harnesstrain.sandbox.agent import files
from harnesstrain.sandbox.agent.command import LIBC, LINUX, PR_SET_DUMPABLE, Command, Request
from harnesstrain.sandbox.agent.processes import burn_pids, kill_all, last_pid, others, reap, shares_memory
from harnesstrain.sandbox.agent.sending import Sending
from harnesstrain.sandbox.agent.stream import CHUNK, End, Fault, Stream

VERSION = 1
PR_SET_CHILD_SUBREAPER, ADDR_NO_RANDOMIZE, ASK = 36, 0x0040000, 0xFFFFFFFF
KINDS = (("file", stat.S_ISREG), ("dir", stat.S_ISDIR), ("link", stat.S_ISLNK))


class Agent:
    """Serves one stream until it ends."""

    def __init__(self) -> None:
        self.stream = Stream()
        self.shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
        self.floor = 0
        """Bytes that must stay free on a disk that is shared with the host; 0: it is not."""
        self.folder = b""
        """Removed at the end."""
        self.draining: list[int] = []
        """Pipes that background processes still write to: read and thrown away, so that they do not break."""
        self.wake, wake_in = os.pipe()
        for fd in (self.wake, wake_in):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)

    def serve(self) -> None:
        """Answer requests until the driver is gone; then nothing that was started is left."""
        try:
            self.answer()
        except End:
            if os.getpid() != 1:
                kill_all({})
            if self.folder:
                import shutil  # slow to import, seldom needed

                shutil.rmtree(self.folder, ignore_errors=True)
        finally:
            os._exit(0)

    def answer(self) -> None:
        """Answer requests for ever.  Raises End."""
        answers: dict[bytes, Callable[..., None]] = {
            b"HELLO": self.hello,
            b"RUN": self.run,
            b"READ": self.read,
            b"WRITE": self.write,
            b"STAT": self.stat,
            b"PUT": self.put,
            b"GET": self.get,
            b"KILL": self.kill,
            b"OTHERS": self.others,
            b"SETTLED": self.settled,
            b"OWN": self.own,
        }
        while True:
            self.idle()
            verb, *numbers = self.stream.line().split()
            try:
                answers[verb](*map(int, numbers))
            except Fault as fault:
                self.fail(fault.code, str(fault))
            except OSError as error:
                self.fail(error.errno or errno.EIO, error.strerror or str(error))

    def idle(self) -> None:
        """Until a request arrives: collect what ended, keep the pipes of background processes flowing."""
        poll = select.poll()
        for fd in (self.stream.fd_in, self.wake, *self.draining):
            poll.register(fd, select.POLLIN)
        while not self.stream.buffer:
            for fd, _ in poll.poll():
                if fd == self.stream.fd_in:
                    return
                data = os.read(fd, CHUNK)
                if fd == self.wake:
                    reap()
                elif not data:
                    poll.unregister(fd)
                    self.draining.remove(fd)
                    os.close(fd)

    def done(self, data: bytes = b"") -> None:
        """Answer OK."""
        self.stream.send(b"OK %d\n" % len(data), data)

    def fail(self, code: int, message: str) -> None:
        """Answer ERR."""
        data = message.encode(errors="replace")
        self.stream.send(b"ERR %s %d\n" % (errno.errorcode.get(code, "EIO").encode(), len(data)), data)

    def hello(self, pid_base: int, floor_mb: int) -> None:
        """Guard itself, pin what can be pinned from here."""
        aslr_off = False
        if LINUX:
            LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
            now = LIBC.personality(ctypes.c_ulong(ASK))
            aslr_off = LIBC.personality(ctypes.c_ulong(now | ADDR_NO_RANDOMIZE)) >= 0
        os.umask(0o022)
        self.floor = floor_mb << 20
        if pid_base:
            burn_pids(pid_base)
        self.stream.send(b"HELLO %d %d %s\n" % (VERSION, aslr_off, self.shell.encode()))

    def run(self, ms: int, cap: int, n_cwd: int, n_user: int, n_env: int, n_stdin: int, n_command: int) -> None:
        """Run a command to its end; `n_stdin` -1: no stdin."""
        take = self.stream.take
        cwd, user, env = take(n_cwd), take(n_user).decode(), take(n_env)
        request = Request(cwd, user, env, take(n_stdin) if n_stdin >= 0 else None, take(n_command))
        command = Command(request, self.shell, cap, ms / 1000 if ms > 0 else None, self.floor)
        command.follow(self.wake, self.stream.fd_in, self.draining)
        left = len(others()) if reap() else 0
        out, err = command.out.result(), command.err.result()
        truncated = command.out.truncated or command.err.truncated
        facts = (
            command.code,
            command.timed_out,
            truncated,
            bool(command.outputs),
            left,
            command.took,
            len(out),
            len(err),
        )
        self.stream.send(b"END %d %d %d %d %d %d %d %d\n" % facts, out, err)

    def kill(self) -> None:
        """Kill everything else; says how many stay."""
        kill_all({})
        self.done(b"%d" % len(others()))

    def others(self) -> None:
        """How many processes live besides the agent."""
        self.done(b"%d" % (len(others()) if reap() else 0))

    def settled(self) -> None:
        """What a copy of the files would lack: living processes, the last process id, shared memory."""
        left = len(others()) if reap() else 0
        self.done(b"%d %d %d" % (left, last_pid(), shares_memory()))

    def own(self, n_path: int) -> None:
        """A directory that ends with the agent."""
        self.folder = self.stream.take(n_path)
        self.done()

    def read(self, limit: int, n_user: int, n_path: int) -> None:
        """A regular file, at most `limit` bytes."""
        user, path = self.stream.take(n_user).decode(), self.stream.take(n_path)
        self.done(files.read(path, user, limit))

    def write(self, mode: int, n_user: int, n_path: int, n_data: int) -> None:
        """A regular file, its missing parents included; mode -1: keep, or 0644 for a new one."""
        take = self.stream.take
        user, path, data = take(n_user).decode(), take(n_path), take(n_data)
        files.write(path, user, mode, data)
        self.done()

    def stat(self, n_path: int) -> None:
        """Kind, mode and size of what is at a path, not following a link."""
        seen = os.lstat(self.stream.take(n_path))
        kind = next((name for name, is_kind in KINDS if is_kind(seen.st_mode)), "other")
        self.done(b"%s %o %d" % (kind.encode(), stat.S_IMODE(seen.st_mode), seen.st_size))

    def put(self, replace: int, n_path: int) -> None:
        """A tree; the stream is read to the end of it whatever happens."""
        tree = files.Tree(self.stream.take(n_path), bool(replace))
        while True:
            kind, *numbers = self.stream.line().split()
            if kind == b".":
                break
            mode = 0 if kind == b"L" else int(numbers.pop(0))
            parts = [self.stream.take(int(count)) for count in numbers]
            tree.add(kind, mode, *parts)
        tree.close()
        self.done()

    def get(self, limit: int, n_path: int) -> None:
        """A tree, or a single file, of at most `limit` bytes."""
        Sending(self.stream, self.stream.take(n_path), limit).send()
