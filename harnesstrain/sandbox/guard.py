"""What ends a driver's containers, networks and volumes when the driver is killed.

It is a process of its own: `python -m harnesstrain.sandbox.guard OWNER [HOST]`.  It waits for the end of its stdin,
which only the driver holds, and then removes what bears the label of that owner.  A container with the agent attached
needs none of this: it ends with its stream.  Lines of `+PID` and `-PID` say which client of the driver is at work: that
is ended first.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

from harnesstrain.core.errors import HtError

LOOKS = 3
"""How often is looked for leftovers: what the engine was asked for at the last moment may come after the first look."""


class Guard:
    """The driver's side: started with the first project, ended when all are gone."""

    def __init__(self, owner: str, host: str | None) -> None:
        self._owner, self._host = owner, host
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def watch(self) -> None:
        """See that it runs."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", __name__, self._owner, *([self._host] if self._host else [])],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    bufsize=0,
                    start_new_session=True,
                )

    @contextlib.contextmanager
    def client(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        """A client that must not outlive the driver."""
        self._tell(b"+%d\n" % process.pid)
        try:
            yield
        finally:
            self._tell(b"-%d\n" % process.pid)

    def close(self) -> None:
        """Nothing is left to guard."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
                assert self._process.stdin is not None
                self._process.stdin.close()
                self._process = None

    def _tell(self, line: bytes) -> None:
        with self._lock, contextlib.suppress(OSError):
            assert self._process is not None and self._process.stdin is not None
            self._process.stdin.write(line)


def main(owner: str, host: str | None = None) -> None:
    """Wait for the driver's end, then remove what was its own."""
    clients: set[int] = set()
    for line in sys.stdin.buffer:
        (clients.add if line[:1] == b"+" else clients.discard)(int(line[1:]))
    for client in clients:
        with contextlib.suppress(OSError):
            os.killpg(client, signal.SIGKILL)
    from harnesstrain.sandbox.engine import connect
    from harnesstrain.sandbox.leftovers import remove_all

    for look in range(LOOKS):
        with contextlib.suppress(HtError):
            client = connect(host)
            remove_all(client, lambda labels: labels.get("harnesstrain.owner") == owner)
            client.close()
        time.sleep(look + 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
