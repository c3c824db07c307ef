"""Who is at work.  A lease is a row with a heartbeat, judged when somebody reads it; nothing has to be cleaned up.

A holder of this machine whose process is gone is stale at once.  Any other is stale when its heartbeat has been silent
for its time to live.  A holder that was taken over learns it from its next heartbeat.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from harnesstrain.core.errors import Busy, HtError
from harnesstrain.store.base import Holder
from harnesstrain.store.engine import Database
from harnesstrain.store.schema import leases

log = logging.getLogger(__name__)

TTL = 60.0
"""Seconds of silence after which a holder counts as gone."""

BEATS = 6
"""Heartbeats per time to live."""


@dataclass(frozen=True)
class Identity:
    """This process, told apart from every other that had or will have its number."""

    pid: int
    host: str
    boot: str
    """Boot id and process-id namespace: two containers of one boot number their processes apart."""
    started: str
    """Clock ticks from boot to the start of the process: does not move with the clock."""


def this_process() -> Identity:
    """The identity of the calling process."""
    boot = _read("/proc/sys/kernel/random/boot_id").strip()
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = ""
    pid = os.getpid()
    return Identity(pid=pid, host=socket.gethostname(), boot=f"{boot} {space}", started=_started(pid) or "")


class Lease:
    """A lease that is held.  `lost` turns true when somebody took it over."""

    def __init__(self, database: Database, name: str, token: str, purpose: str = "") -> None:
        self.name = name
        self._purpose = purpose
        self._database = database
        self._token = token
        self._lost = threading.Event()

    @property
    def lost(self) -> bool:
        """Whether another process holds it now."""
        return self._lost.is_set()

    def check(self) -> None:
        """Raise Busy when the lease was lost."""
        if self.lost:
            raise Busy(f"lease '{self.name}' was taken over by another process", hint="`ht status` says by whom")

    def beat(self) -> None:
        """Renew the heartbeat.  Raises HtError when the store cannot be written."""
        mine = (leases.c.name == self.name) & (leases.c.token == self._token)
        with self._database.write() as connection:
            now = self._database.now(connection)
            if connection.execute(leases.update().where(mine).values(beat=now)).rowcount == 0:
                self._lost.set()

    def tell(self, detail: str) -> None:
        """Say beside the lease what its holder is at; readers see it as `Holder.detail`.  Raises HtError."""
        mine = (leases.c.name == self.name) & (leases.c.token == self._token)
        with self._database.write() as connection:
            now = self._database.now(connection)
            connection.execute(leases.update().where(mine).values(beat=now, purpose=f"{self._purpose}\n{detail}"))

    def release(self) -> None:
        """Give it back."""
        mine = (leases.c.name == self.name) & (leases.c.token == self._token)
        with self._database.write() as connection:
            connection.execute(leases.delete().where(mine))


@contextmanager
def lease(database: Database, name: str, *, ttl: float = TTL, purpose: str = "") -> Iterator[Lease]:
    """Hold lease `name` for the block; a thread keeps its heartbeat.

    `ttl` is seconds.  Raises Busy, with the holder and its age, when somebody alive holds it; also this process.
    """
    held = _take(database, name, ttl, purpose)
    stop = threading.Event()
    thread = threading.Thread(target=_keep, args=(held, ttl / BEATS, stop), name=f"lease {name}", daemon=True)
    thread.start()
    try:
        yield held
    finally:
        stop.set()
        thread.join()
        try:
            held.release()
        except HtError as error:  # nobody waits for it: the next reader sees that its process is gone
            log.warning("lease '%s' could not be given back: %s", name, error.message)


def holders(database: Database) -> list[Holder]:
    """Every lease in the store, stale ones marked."""
    with database.read() as connection:
        return held(database, connection)


def held(database: Database, connection: sa.Connection) -> list[Holder]:
    """`holders` inside a transaction."""
    me = this_process()
    now = database.now(connection)
    rows = connection.execute(sa.select(leases).order_by(leases.c.name)).all()
    return [_holder(row, now, me) for row in rows]


def drop_stale(database: Database) -> int:
    """Remove leases whose holders are gone.  Returns how many."""
    me = this_process()
    with database.write() as connection:
        now = database.now(connection)
        rows = connection.execute(sa.select(leases)).all()
        stale = [row.token for row in rows if _holder(row, now, me).stale]
        for token in stale:
            connection.execute(leases.delete().where(leases.c.token == token))
    return len(stale)


def _take(database: Database, name: str, ttl: float, purpose: str) -> Lease:
    me = this_process()
    token = secrets.token_hex(16)
    with database.write() as connection:
        now = database.now(connection)
        row = connection.execute(sa.select(leases).where(leases.c.name == name)).one_or_none()
        if row is not None:
            holder = _holder(row, now, me)
            if not holder.stale:
                raise _busy(holder)
            connection.execute(leases.delete().where(leases.c.token == row.token))
        values: dict[str, Any] = {
            "name": name,
            "token": token,
            "purpose": purpose,
            "ttl": ttl,
            "taken": now,
            "beat": now,
        }
        own = {"pid": me.pid, "host": me.host, "boot": me.boot, "started": me.started}
        connection.execute(leases.insert(), {**values, **own})
    return Lease(database, name, token, purpose)


def _keep(held: Lease, every: float, stop: threading.Event) -> None:
    while not stop.wait(every):
        try:
            held.beat()
        except HtError as error:
            log.warning("heartbeat of lease '%s' failed: %s", held.name, error.message)
        if held.lost:
            return


def _holder(row: sa.Row[Any], now: float, me: Identity) -> Holder:
    silent = max(now - row.beat, 0.0)
    purpose, _, detail = row.purpose.partition("\n")
    here = bool(me.boot.strip()) and row.boot == me.boot
    gone = here and _started(row.pid) != row.started
    return Holder(
        name=row.name,
        pid=row.pid,
        host=row.host,
        purpose=purpose,
        detail=detail,
        taken=row.taken,
        age=max(now - row.taken, 0.0),
        silent=silent,
        stale=gone or silent > row.ttl,
    )


def _busy(holder: Holder) -> Busy:
    doing = f" ({holder.purpose})" if holder.purpose else ""
    message = f"'{holder.name}' is held by process {holder.pid} on {holder.host}{doing} for {_ago(holder.age)}"
    hint = "wait for it or stop it; `ht status` shows what it does"
    return Busy(message, hint=hint, holder=holder.model_dump(mode="json", exclude={"detail"}))


def _ago(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _started(pid: int) -> str | None:
    """Start time of a running process, in ticks since boot; None when there is none (a zombie is none)."""
    stat = _read(f"/proc/{pid}/stat")
    if not stat:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else fields[19]


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
