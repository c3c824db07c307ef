"""Removing what nothing names: files of killed processes, files that a run's file replaced, leases of the gone."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from harnesstrain.core.errors import StoreCorrupt
from harnesstrain.store import blobs, fsck, leases
from harnesstrain.store.base import Collected
from harnesstrain.store.engine import Database


def collect(database: Database, traces: Path, blob_folder: Path, grace: float) -> Collected:
    """Remove unnamed files older than `grace` seconds, emptied folders, and stale leases.

    The grace is for files that another process has written and not yet named.  Raises StoreCorrupt when a record is
    damaged, or when the database is a new one beside old traces: what was named is unknown, so nothing is removed.
    """
    damage = fsck.damaged(database)
    if damage:
        message = f"nothing was removed, because the store is damaged: {damage[0].subject}: {damage[0].problem}"
        raise StoreCorrupt(message, hint="`ht fsck` lists all damage")
    lost = fsck.forgotten(database, traces)
    if lost is not None:
        hint = "put store.db back from a copy; else remove the folder traces by hand"
        raise StoreCorrupt(f"nothing was removed: {lost.problem}", hint=hint)
    files = set(fsck.listing(traces)) - fsck.named_traces(database, traces)
    kept = {blobs.blob_path(blob_folder, digest) for digest in fsck.named_blobs(database)}
    files |= set(fsck.listing(blob_folder)) - kept
    count = size = 0
    for path in sorted(files):
        with suppress(FileNotFoundError):
            status = path.lstat()
            if time.time() - status.st_mtime < grace:
                continue
            path.unlink()
            count, size = count + 1, size + status.st_size
            with suppress(OSError):
                path.parent.rmdir()
    return Collected(files=count, bytes=size, leases=leases.drop_stale(database))
