"""Everything that runs in the sandbox besides the agent."""

from __future__ import annotations

import contextlib
import os
import signal
import time

ENDED: dict[int, int] = {}
"""Exit status of collected children, by pid."""
REMEMBERED = 1000


class Account:
    """Who a command runs as."""

    def __init__(self, user: str) -> None:
        """`user`: a name or number, with `:group` or without.  Raises LookupError."""
        import grp
        import pwd

        name, _, group = user.partition(":")
        known = None
        with contextlib.suppress(KeyError):
            known = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
        if known is None and not name.isdigit():
            raise LookupError(f"no user {name}")
        self.name = known.pw_name if known else name
        self.home = known.pw_dir if known else "/"
        self.uid = known.pw_uid if known else int(name)
        self.gid = known.pw_gid if known else self.uid
        if group:
            self.gid = int(group) if group.isdigit() else grp.getgrnam(group).gr_gid
        self.groups = os.getgrouplist(self.name, self.gid) if known else [self.gid]


class Seen:
    """One process as /proc shows it."""

    def __init__(self, pid: int) -> None:
        """Raises OSError when it is gone."""
        with open(f"/proc/{pid}/stat", "rb") as file:
            rest = file.read().rpartition(b")")[2].split()
        self.alive = rest[0] not in (b"Z", b"X") or int(rest[17]) > 1  # a main thread may end before the others
        self.parent = int(rest[1])
        self.tick = int(rest[19])


def others() -> dict[int, int]:
    """Every living descendant of the agent: pid to start tick.  Orphans are its children, so none escapes."""
    seen: dict[int, Seen] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError):
                    seen[int(name)] = Seen(int(name))
    mine = {os.getpid()}
    found: dict[int, int] = {}
    grew = True
    while grew:
        new = {pid for pid, process in seen.items() if process.parent in mine and pid not in mine}
        grew = bool(new)
        mine |= new
        found.update({pid: seen[pid].tick for pid in new if seen[pid].alive})
    return found


def kill_all(spare: dict[int, int]) -> None:
    """Kill every process that is not in `spare` (pid to start tick), until none is left.

    Each is collected too: one that ended but is not collected counts against the most processes there may be.
    """
    for _ in range(500):
        reap()
        doomed = [pid for pid, tick in others().items() if spare.get(pid) != tick]
        if not doomed:
            return
        for pid in doomed:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)


def reap() -> bool:
    """Collect every child that ended into ENDED; whether any child is left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        if len(ENDED) > REMEMBERED:
            ENDED.clear()
        ENDED[pid] = status


def last_pid() -> int:
    """The process id that was given last in this sandbox; -1 where the kernel does not say."""
    try:
        with open("/proc/sys/kernel/ns_last_pid", "rb") as file:
            return int(file.read())
    except (OSError, ValueError):
        return -1


def burn_pids(base: int) -> None:
    """Use up process ids below `base`, so that the next process gets `base`."""
    import ctypes

    library, thread, nothing = ctypes.CDLL(None), ctypes.c_ulong(), ctypes.c_void_p()
    last = last_pid()
    if last < 0:
        _burn_slowly(base)
        return
    for _ in range(base - 1 - last):
        library.pthread_create(ctypes.byref(thread), nothing, library.getpid, nothing)
        library.pthread_join(thread, nothing)


def _burn_slowly(base: int) -> None:
    import threading

    used = [0]

    def note() -> None:
        used[0] = threading.get_native_id()

    while used[0] < base - 1:
        thread = threading.Thread(target=note)
        thread.start()
        thread.join()


def shares_memory() -> bool:
    """Whether a System V object exists: content that no file shows and no process needs to hold."""
    for name in ("shm", "sem", "msg"):
        with contextlib.suppress(OSError), open(f"/proc/sysvipc/{name}", "rb") as file:
            if len(file.readlines()) > 1:
                return True
    return False
