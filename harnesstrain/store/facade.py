"""The store as other rooms see it.  Records go in and come out; no row, table or file object does."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import sqlalchemy as sa

from harnesstrain.core.errors import Prerequisite, UsageError
from harnesstrain.core.ports import LlmCache, StepCache, VerifyCache
from harnesstrain.core.records.rollout import Rollout, Trace
from harnesstrain.store import absent, blobs, caches, files, fsck, gc, leases, migrate, runs
from harnesstrain.store.base import (
    Bumped,
    CacheStats,
    Collected,
    Exported,
    Finding,
    Holder,
    RunSummary,
    SchemaState,
    Shrunk,
    Upgraded,
)
from harnesstrain.store.engine import Database, server_database, sqlite_database
from harnesstrain.store.shelf import Shelf

if TYPE_CHECKING:
    from harnesstrain.store.feed import Feed
    from harnesstrain.store.tracefolder import RunTraces


class Places:
    """Where the parts of a store lie."""

    def __init__(self, location: str | Path, directory: Path | None = None) -> None:
        """`location`: the `.ht` directory, or a database URL together with `directory`.  Raises UsageError."""
        text = str(location)
        self.url = text if "://" in text else None
        if self.url is not None and self.url.startswith("sqlite"):
            file = sa.make_url(self.url).database
            if not file or Path(file).name != "store.db":
                raise UsageError("a SQLite store is a folder with store.db in it", hint="name the folder")
            self.url, location = None, Path(file).parent
        if self.url is not None and directory is None:
            raise UsageError(
                "a store on a server also needs a folder for traces and caches", hint="set store.directory"
            )
        self.folder = Path(directory) if directory is not None else Path(location)
        self.traces = self.folder / "traces"
        self.blobs = self.folder / "blobs"
        self.cache = self.folder / "cache.db"
        self.file = None if self.url is not None else self.folder / "store.db"

    def database(self, *, read_only: bool = False) -> Database:
        """The records database; for a file, it must be there."""
        if self.url is not None:
            return server_database(self.url, read_only=read_only)
        assert self.file is not None
        if not self.file.exists():
            raise Prerequisite(f"no store at {self.folder}", hint="`ht init` makes one")
        return sqlite_database(self.file, read_only=read_only)


class Store(Shelf):
    """Records, traces, blobs, caches and leases of one harness repo.  Thread-safe; processes may share it."""

    def __init__(self, places: Places, database: Database) -> None:
        super().__init__(database)
        self.places = places
        self._caches: caches.Caches | None = None
        self._without_caches = False
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls, location: str | Path, *, directory: Path | None = None, create: bool = False, read_only: bool = False
    ) -> Self:
        """Open the store in the `.ht` directory `location`, or the one at a URL with its files in `directory`.

        `create` makes what is missing.  `read_only`: its database refuses to be changed.  Raises Prerequisite: no
        store there, or its schema is older (`ht db upgrade`) or newer than this code; StoreCorrupt: not a store.
        """
        places = Places(location, directory)
        if create:
            try:
                files.make_folder(places.folder)
                if places.file is not None and not places.file.exists():
                    places.file.touch()
            except OSError as error:
                raise files.io_error(error, places.folder) from error
        database = places.database(read_only=read_only)
        try:
            if create:
                migrate.create(database)
            migrate.require_current(database)
        except BaseException:
            database.close()
            raise
        return cls(places, database)

    @staticmethod
    def upgrade(location: str | Path, *, directory: Path | None = None) -> Upgraded:
        """Bring a store's schema to what this code speaks.  A file is copied first.  Raises Prerequisite."""
        places = Places(location, directory)
        database = places.database()
        try:
            return migrate.upgrade(database, places.file)
        finally:
            database.close()

    @staticmethod
    def check(location: str | Path, *, directory: Path | None = None) -> SchemaState:
        """How a store's schema relates to this code.  Raises Prerequisite (none there) or StoreCorrupt."""
        database = Places(location, directory).database()
        try:
            return migrate.state(database)
        finally:
            database.close()

    def close(self) -> None:
        """Write statistics and let go of the files.  May be called twice."""
        with self._lock:
            if self._caches is not None:
                self._caches.close()
                self._caches = None
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Rollouts and traces.

    def commit_rollout(self, rollout: Rollout, trace: Trace | None) -> Rollout:
        """Commit one attempt: its trace file first, then its row.  Returns what is committed, trace digest filled in.

        What it put into the caches is written before, so that no committed attempt has to be made again for them.
        The first commit of an id counts; the same measurement again changes nothing.  Raises NotFound (unknown run),
        StoreCorrupt (another measurement under this id), Prerequisite (disk full; nothing was committed).
        """
        from harnesstrain.store import tracefolder

        opened = self._caches
        if opened is not None:
            opened.pending.flush_entries()
        return tracefolder.commit(self._database, self.places.traces, rollout, trace)

    def rollouts(self, run_id: str) -> list[Rollout]:
        """Every committed attempt of a run, in order of commit (`core.records.latest_attempts` picks one per cell)."""
        return runs.of_run(self._database, run_id)

    def trace(self, rollout_id: str) -> Trace:
        """What a rollout exchanged.  Raises NotFound (none recorded), StoreCorrupt (missing or damaged)."""
        from harnesstrain.store import tracefolder

        return tracefolder.trace(self._database, self.places.traces, self.rollout(rollout_id))

    def traces(self, run_id: str) -> RunTraces:
        """The traces of a run, to be read one after the other in a `with` block.  Raises StoreCorrupt, one by one."""
        from harnesstrain.store.tracefolder import RunTraces

        return RunTraces(self._database, self.places.traces, run_id)

    def complete_run(self, run_id: str) -> None:
        """Record that a run has all its rollouts, and put their traces into one file.  May be repeated."""
        from harnesstrain.store import tracefolder

        tracefolder.complete(self._database, self.places.traces, self.run(run_id).id)

    def is_complete(self, run_id: str) -> bool:
        """Whether the run was completed and nothing was committed to it since."""
        return runs.is_complete(self._database, run_id)

    def summaries(self) -> list[RunSummary]:
        """Every run in numbers, oldest first, without opening a trace."""
        return runs.summaries(self._database)

    # Blobs, caches, leases, upkeep.

    def put_blob(self, data: bytes) -> str:
        """Keep bytes that a record names; their sha256."""
        return blobs.put(self.places.blobs, data)

    def blob(self, digest: str) -> bytes:
        """The bytes of a digest.  Raises NotFound or StoreCorrupt."""
        return blobs.get(self.places.blobs, digest)

    def llm_cache(self) -> LlmCache:
        """The llm cache.  Without a cache.db that can be used, one that holds nothing."""
        return self._usable_caches().llm

    def step_cache(self) -> StepCache:
        """The step cache.  Without a cache.db that can be used, one that holds nothing."""
        return self._usable_caches().step

    def verify_cache(self) -> VerifyCache:
        """The verify cache.  Without a cache.db that can be used, one that holds nothing."""
        return self._usable_caches().verify

    def cache_stats(self) -> list[CacheStats]:
        """Sizes, hit rates and epochs of the caches: llm, step, verify."""
        return self._opened_caches().stats()

    def cache_gc(self, max_bytes: int, *, dry_run: bool = False) -> list[Shrunk]:
        """Remove entries of older epochs, then the least recently used, until each cache's values fit `max_bytes`."""
        if max_bytes < 0:
            raise UsageError("a cache cannot be smaller than nothing", hint="give bytes >= 0")
        return self._opened_caches().shrink(max_bytes, dry_run=dry_run)

    def cache_bump(self, names: Sequence[str], *, dry_run: bool = False) -> list[Bumped]:
        """Put all entries of the named caches out of reach by raising their epoch.

        Another process that is at work goes on with the epoch that it started with.  Raises UsageError: no such cache.
        """
        return self._opened_caches().bump(names, dry_run=dry_run)

    def cache_export(self, folder: Path) -> list[Exported]:
        """Write each cache into `folder` as `NAME.parquet`.  Raises Prerequisite, StoreCorrupt."""
        from harnesstrain.store import cacheexport

        return cacheexport.export(self._opened_caches(), folder)

    def lease(self, name: str, *, ttl: float = leases.TTL, purpose: str = "") -> AbstractContextManager[leases.Lease]:
        """Hold lease `name` for a block.  Raises Busy with the holder and its age."""
        return leases.lease(self._database, name, ttl=ttl, purpose=purpose)

    def holders(self) -> list[Holder]:
        """Who holds leases; stale ones marked."""
        return leases.holders(self._database)

    def feed(self, kinds: Sequence[str]) -> Feed:
        """For somebody who looks on: what is new of these kinds, look by look."""
        from harnesstrain.store.feed import Feed

        return Feed(self._database, kinds)

    @property
    def copied(self) -> bool:
        """Whether what is read is as it was when the store was opened: its folder cannot be written."""
        return self._database.still

    def fsck(self, *, deep: bool = True) -> list[Finding]:
        """What does not add up.  `deep` also reads every trace and blob, and the cache."""
        found = fsck.fsck(self._database, self.places.traces, self.places.blobs, deep=deep)
        return [*found, *(absent.findings(self.places.cache) if deep else ())]

    def gc(self, *, grace: float = 3600.0) -> Collected:
        """Remove files that nothing names and that are older than `grace` seconds, and stale leases."""
        return gc.collect(self._database, self.places.traces, self.places.blobs, grace)

    def _usable_caches(self) -> caches.Caches | absent.NoCaches:
        """For work, which goes on without them."""
        with self._lock:
            if self._caches is None and not self._without_caches:
                self._caches = absent.usable(self.places.cache)
                self._without_caches = self._caches is None
            return self._caches or absent.NoCaches()

    def _opened_caches(self) -> caches.Caches:
        """For their upkeep, which says what is wrong.  Raises StoreCorrupt, Prerequisite."""
        with self._lock:
            if self._caches is None:
                self._caches = caches.Caches(self.places.cache)
            return self._caches
