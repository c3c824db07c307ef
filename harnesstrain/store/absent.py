"""When cache.db cannot be used: it is put aside and made anew, or the work goes on without a cache."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

from harnesstrain.core.errors import HtError, StoreCorrupt
from harnesstrain.core.records.base import Record
from harnesstrain.core.records.cache import GradeEntry, StepEntry
from harnesstrain.core.records.llm import Reply
from harnesstrain.store.base import Finding
from harnesstrain.store.cachefile import LAYOUT
from harnesstrain.store.caches import Caches
from harnesstrain.store.engine import sqlite_database

log = logging.getLogger(__name__)

ASIDE = ".damaged"
"""Suffix of a file that was no cache.  The last one is kept."""

_ANEW = "the next command that needs it puts it aside and makes it anew"

E = TypeVar("E", bound=Record)


class NoCache(Generic[E]):
    """A cache that holds nothing and keeps nothing."""

    def get(self, key: str) -> E | None:
        """Nothing."""
        return None

    def put(self, key: str, entry: E) -> None:
        """Forget it."""


class NoCaches:
    """All of them."""

    llm: NoCache[Reply] = NoCache()
    step: NoCache[StepEntry] = NoCache()
    verify: NoCache[GradeEntry] = NoCache()


def usable(path: Path) -> Caches | None:
    """The caches of `path`, in a new file where it is none; None when they cannot be had.  Either is said once."""
    try:
        with contextlib.suppress(StoreCorrupt):
            if not path.is_dir():
                return Caches(path)
        with _alone(path.parent):
            return _renewed(path)
    except HtError as error:
        why = error.message
    except OSError as error:
        why = f"cannot put {path} aside: {error.strerror or error}"
    log.warning("the cache cannot be opened, going on without it: %s", why)
    return None


def findings(path: Path) -> list[Finding]:
    """What is wrong with the file, and what comes of it.  Changes nothing."""
    if path.is_dir():
        return [_finding(path, f"it is a folder; {_ANEW}")]
    if not path.exists():
        return []
    database = None
    said, comes_of_it = "", _ANEW
    try:
        database = sqlite_database(path, read_only=True)
        with database.read() as connection:
            if connection.exec_driver_sql("PRAGMA user_version").scalar_one() == LAYOUT:
                connection.exec_driver_sql("SELECT name, epoch FROM caches").all()
            comes_of_it = f"what it cannot answer is made again; {path.name} may be deleted"
            said = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one())
    except StoreCorrupt as error:
        said = error.message.removeprefix(f"{path}: ")
    except HtError as error:
        said, comes_of_it = error.message.removeprefix(f"{path}: "), "work goes on without it"
    finally:
        if database is not None:
            database.close()
    return [] if said == "ok" else [_finding(path, f"{said.splitlines()[-1]}; {comes_of_it}")]


def _finding(path: Path, problem: str) -> Finding:
    return Finding(kind="corrupt", subject=path.name, problem=problem)


def _renewed(path: Path) -> Caches:
    """Another process may have made it anew already."""
    why = "it is a folder"
    try:
        if not path.is_dir():
            return Caches(path)
    except StoreCorrupt as error:
        why = error.message
    aside = _put_aside(path)
    made = Caches(path)
    log.warning("the cache is made anew, the old one is %s beside it: %s", aside.name, why)
    return made


def _put_aside(path: Path) -> Path:
    number = 0
    while (aside := path.with_name(f"{path.name}{ASIDE}{number or ''}")).is_dir():
        number += 1
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    return aside


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder: two processes do not put each other's new file aside."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
