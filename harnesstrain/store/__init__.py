"""Floor 1: what is kept.  Records in one database, caches in another, traces and blobs in files.

Read this to learn how a record is committed and read back.  May import: core, sqlalchemy, alembic, pyarrow, zstandard.

facade.py    Store: the one object that other rooms hold
shelf.py     its records part: put, get, list, resolve, export
base.py      named results: Found, Finding, RunSummary, Holder, CacheStats, SchemaState …
engine.py    one SQL database: BEGIN IMMEDIATE, busy timeout, errors in the project's own tree
readonly.py  a SQLite file in a folder that cannot be written
schema.py    the tables, and the schema revision this code speaks
kinds.py     which record goes into which table, and what its id determines
payloads.py  records as canonical JSON and back
records.py   append-only rows, read and written
known.py      records of one kind, read on from where this process was
runs.py      rollouts of a run: the hash chain, completion, summaries
rows.py      a trace as rows and back
traces.py    trace files: one per rollout, then one per run
tracefolder.py  the trace folder and the rows that name its files
compact.py   many trace files into one
tables.py    any Parquet file as plain rows
files.py     durable files: temporary name, fsync, rename
outlets.py   where a user wants a file: replaced, or written to
blobs.py     content-addressed files
caches.py    the llm, step and verify caches
cachefile.py   their file, cache.db: layout, epochs, fast look-ups
ahead.py     rows of it, read before they are asked for
absent.py    a cache.db that cannot be used: made anew, or done without
pending.py   what they have not written yet
cacheexport.py  the caches as Parquet
frames/      records as flat tables: data frames, Parquet, CSV
entries.py   replies, steps and grades as sealed bytes
feed.py      what is new since the last look
leases.py    who is at work, judged when read
lookup.py    ids from prefixes
migrate.py   create, check, upgrade
fsck.py      what does not add up
gc.py        what nothing names any more
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harnesstrain.store.facade import Store

__all__ = ["Store"]


def __getattr__(name: str) -> Any:
    """Load the facade, and with it sqlalchemy, only when it is asked for."""
    if name == "Store":
        from harnesstrain.store.facade import Store

        return Store
    raise AttributeError(name)
