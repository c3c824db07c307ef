"""Starts launchers by forking: a process that has the launcher loaded.  Runs without the package, as the launcher does.

It reads one specification with three descriptors at a time from a socket, forks, and answers with the process id.  The
child is the starter's own: it waits for it as for any other, and nothing of a start is shared with the next one but
the name space of mapped owners.  It ends when its starter does.
"""

from __future__ import annotations

import marshal
import os
import select
from _socket import AF_UNIX, CMSG_SPACE, MSG_CMSG_CLOEXEC, SOCK_SEQPACKET, socket
from array import array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from harnesstrain.core import launcher
else:
    import launcher  # beside this file

CLONE_PARENT = 0x8000
CLONE = {"x86_64": 56, "aarch64": 220}
"""Number of the system call, by machine."""
SIGCHLD = 17
LARGEST = 1 << 18
"""Bytes of a specification that can be received."""


def main(line: int, owner: int) -> NoReturn:
    """Serve the socket `line` until it is closed or the process `owner` ends."""
    requests = socket(AF_UNIX, SOCK_SEQPACKET, 0, line)
    watch = select.poll()
    watch.register(requests, select.POLLIN)
    watch.register(os.pidfd_open(owner), select.POLLIN)
    while all(fd == line for fd, _ in watch.poll()):
        request, handed, _, _ = requests.recvmsg(LARGEST, CMSG_SPACE(12), MSG_CMSG_CLOEXEC)
        if not request:
            break
        streams = array("i")
        for _, _, data in handed:
            streams.frombytes(data)
        try:
            said = str(_forked(requests, request, list(streams)))
        except (OSError, KeyError) as error:
            said = f"! {error!r}"
        for fd in streams:
            os.close(fd)
        requests.send(said.encode())
    os._exit(0)


def _forked(requests: socket, request: bytes, streams: list[int]) -> int:
    """The process id of a launcher that is told `request`; it never returns in the launcher."""
    spec = marshal.loads(request)
    if spec["binds"] and os.geteuid() == 0:
        launcher.swapped_owners(spec["uid"])  # made once, inherited by all
    child: int = launcher.call("syscall", CLONE[os.uname().machine], CLONE_PARENT | SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        requests.close()
        for fd, stream in enumerate(streams):
            os.dup2(stream, fd)
            os.close(stream)
        launcher.confine(spec)
    return child
