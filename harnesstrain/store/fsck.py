"""What does not add up: damaged rows, broken chains, dangling references, missing and orphan files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from harnesstrain.core import digests
from harnesstrain.core.errors import HtError, NotFound, StoreCorrupt
from harnesstrain.core.ids import short
from harnesstrain.store import blobs, records, runs, schema
from harnesstrain.store.base import Finding
from harnesstrain.store.engine import Database
from harnesstrain.store.kinds import KINDS, REGIME, Kind

REFERENCES: dict[str, dict[str, str]] = {
    "regime": {"endpoint": "endpoint"},
    "run": {"panel": "panel", "regime": "regime", "early_stop_against": "run"},
    "rollout": {"run": "run"},
    "certificate": {"run": "run", "regime": "regime"},
    "verdict": {"base_run": "run", "cand_run": "run", "regime": "regime"},
    "promotion": {"verdict": "verdict"},
    "memo": {"verdict": "verdict"},
    "epoch": {
        "base_run": "run",
        "cand_run": "run",
        "candidate": "candidate",
        "verdict": "verdict",
        "promotion": "promotion",
    },
}
"""Field of a kind -> the kind whose id it holds."""


def fsck(database: Database, traces: Path, blob_folder: Path, *, deep: bool) -> list[Finding]:
    """Every finding, in a fixed order.  `deep` also reads every trace and blob back."""
    found = damaged(database)
    if any(finding.subject == "store.db" for finding in found):
        return found
    transcripts = named_blobs(database)
    found += _dangling(database)
    for run in sorted(_runs(database)):
        found += _chain(database, run)
        found += _traces(database, traces, run, deep)
    lost = forgotten(database, traces)
    found += [lost] if lost else _orphans(traces, named_traces(database, traces))
    found += _blobs(blob_folder, transcripts, deep)
    return found


def forgotten(database: Database, traces: Path) -> Finding | None:
    """That there are traces and no run at all: the database that named them is gone."""
    count = sum(1 for path in listing(traces) if path.suffix == ".parquet")
    if not count or any(True for _ in _readable(database, KINDS["run"])):
        return None
    problem = f"no run is on record, and traces/ holds {count} files: the database that named them is not there"
    return Finding(kind="missing", subject="store.db", problem=problem)


def damaged(database: Database) -> list[Finding]:
    """Damage of the database itself: its pages, then its rows."""
    found = _pages(database) if database.sqlite else []
    return found or [finding for kind in KINDS.values() for finding in _rows(database, kind)]


def named_traces(database: Database, folder: Path) -> set[Path]:
    """Trace files that a reader may open: run files, and the files of rollouts that no run file holds yet."""
    from harnesstrain.store.traces import rollout_path

    named: set[Path] = set()
    table = schema.rollouts
    for run in _runs(database):
        query = sa.select(table.c.id, table.c.trace).where(table.c.run == run).order_by(table.c.seq)
        with database.read() as connection:
            rows = connection.execute(query).all()
            completed = runs.completed(connection, run)
        held = 0
        if completed is not None and completed.file is not None:
            named.add(folder / completed.file)
            held = completed.rollouts
        named.update(rollout_path(folder, run, row.id, row.trace) for row in rows[held:] if row.trace is not None)
    return named


def named_blobs(database: Database) -> set[str]:
    """Digests of blobs that readable records name."""
    rows = [row for kind in ("candidate", "memo") for row in _readable(database, KINDS[kind])]
    return {fields["transcript"] for _, fields in rows if fields.get("transcript")}


def listing(folder: Path) -> Iterator[Path]:
    """Every file below a folder, sorted."""
    if folder.is_dir():
        yield from sorted(path for path in folder.rglob("*") if path.is_file() or path.is_symlink())


def _pages(database: Database) -> list[Finding]:
    try:
        with database.read() as connection:
            said = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
    except StoreCorrupt as error:
        said = [error.message]
    return [Finding(kind="corrupt", subject="store.db", problem=line) for line in said if line != "ok"]


def _ids(database: Database, kind: Kind) -> set[str]:
    with database.read() as connection:
        return set(connection.execute(sa.select(kind.table.c.id).distinct()).scalars())


def _paged(database: Database, kind: Kind) -> Iterator[Any]:
    """Every row of a kind, a page at a time."""
    table = kind.table
    query = sa.select(table.c.seq, table.c.id, table.c.digest, table.c.payload).order_by(table.c.seq)
    last = 0
    while True:
        with database.read() as connection:
            page = connection.execute(query.where(table.c.seq > last).limit(records.PAGE)).all()
        if not page:
            return
        yield from page
        last = page[-1].seq


def _readable(database: Database, kind: Kind) -> Iterator[tuple[str, dict[str, Any]]]:
    """(id, fields) of every row that is not damaged."""
    for row in _paged(database, kind):
        with suppress(StoreCorrupt):
            yield row.id, records.loads(kind, row.id, row.payload, row.digest)


def _rows(database: Database, kind: Kind) -> Iterator[Finding]:
    for row in _paged(database, kind):
        subject = f"{kind.table.name}/{short(row.id)}"
        try:
            if _key(kind, records.loads(kind, row.id, row.payload, row.digest)) != row.id:
                yield Finding(kind="corrupt", subject=subject, problem="its id is not that of its payload")
        except StoreCorrupt as error:
            yield Finding(kind="corrupt", subject=subject, problem=error.message)
        except ValidationError as error:
            yield Finding(kind="corrupt", subject=subject, problem=f"not a {kind.name}: {error.errors()[0]['msg']}")


def _dangling(database: Database) -> Iterator[Finding]:
    ids = {kind.name: _ids(database, kind) for kind in KINDS.values()}
    for name, references in REFERENCES.items():
        kind = KINDS[name]
        for identifier, fields in _readable(database, kind):
            for field, target in references.items():
                wanted = fields.get(field)
                if wanted is not None and wanted not in ids[target]:
                    problem = f"{field} names {target} '{short(wanted)}', which is not there"
                    yield Finding(kind="dangling", subject=f"{kind.table.name}/{short(identifier)}", problem=problem)


def _key(kind: Kind, fields: dict[str, Any]) -> str:
    """The id that a payload has.  Raises ValidationError."""
    if kind is REGIME:  # the digest of every field it had when it was recorded
        return digests.digest(fields)
    return kind.key(kind.model.model_validate(fields)) if kind.readable else str(fields["digest"])


def _runs(database: Database) -> set[str]:
    """Every run that has, or once had, rollouts."""
    with database.read() as connection:
        tables = (schema.rollouts, schema.completions)
        return {run for table in tables for run in connection.execute(sa.select(table.c.run).distinct()).scalars()}


def _chain(database: Database, run: str) -> Iterator[Finding]:
    table = schema.rollouts
    query = sa.select(table.c.id, table.c.digest, table.c.previous, table.c.chain).where(table.c.run == run)
    with database.read() as connection:
        rows = connection.execute(query.order_by(table.c.seq)).all()
        completed = runs.completed(connection, run)
    previous, links = run, [run]
    for row in rows:
        subject = f"rollouts/{short(row.id)}"
        if row.previous != previous:
            yield Finding(kind="chain", subject=subject, problem="the row before it in its run was changed or removed")
        elif row.chain != runs.link(row.previous, row.digest):
            yield Finding(kind="chain", subject=subject, problem="its link does not follow from its payload")
        previous = row.chain
        links.append(previous)
    if completed is not None and (len(links) <= completed.rollouts or links[completed.rollouts] != completed.head):
        problem = f"it was completed with {completed.rollouts} rollouts that are not all there any more"
        yield Finding(kind="chain", subject=f"runs/{short(run)}", problem=problem)


def _traces(database: Database, folder: Path, run: str, deep: bool) -> Iterator[Finding]:
    from harnesstrain.store import files
    from harnesstrain.store.traces import read_trace, rollout_path

    try:
        state = runs.state(database, run)
    except StoreCorrupt:  # its row is among the findings already
        return
    held = 0
    if state.completed is not None and state.file is not None:
        path = folder / state.file
        held = state.completed.rollouts
        if not path.is_file():
            problem = f"the trace file of run '{short(run)}' is not there"
            yield Finding(kind="missing", subject=f"traces/{state.file}", problem=problem, run=run)
            return
        if deep and files.file_digest(path) != state.completed.file_digest:
            problem = "its bytes are not those that were written"
            yield Finding(kind="corrupt", subject=f"traces/{state.file}", problem=problem)
    for position, rollout in enumerate(state.rollouts):
        if rollout.trace is None:
            continue
        own = rollout_path(folder, run, rollout.id, rollout.trace)
        if position >= held and not own.is_file():
            problem = f"the trace file of rollout '{short(rollout.id)}' is not there"
            subject = f"traces/{own.relative_to(folder).as_posix()}"
            yield Finding(kind="missing", subject=subject, problem=problem, run=run)
        elif deep:
            try:
                read_trace(folder, rollout, state.file)
            except HtError as error:
                yield Finding(kind="corrupt", subject=f"rollouts/{short(rollout.id)}", problem=error.message)


def _orphans(folder: Path, named: set[Path]) -> Iterator[Finding]:
    for path in listing(folder):
        if path not in named:
            subject = f"traces/{path.relative_to(folder).as_posix()}"
            yield Finding(kind="orphan", subject=subject, problem="nothing names it; `ht gc` removes it")


def _blobs(folder: Path, named: set[str], deep: bool) -> Iterator[Finding]:
    for digest in sorted(named):
        try:
            if deep:
                blobs.get(folder, digest)
            elif not blobs.blob_path(folder, digest).is_file():
                raise NotFound("missing")
        except NotFound:
            yield Finding(
                kind="missing",
                subject=f"blobs/{short(digest)}",
                problem="a transcript that a record names is not there",
            )
        except StoreCorrupt as error:
            yield Finding(kind="corrupt", subject=f"blobs/{short(digest)}", problem=error.message)
    kept = {blobs.blob_path(folder, digest) for digest in named}
    for path in listing(folder):
        if path not in kept:
            subject = f"blobs/{path.relative_to(folder).as_posix()}"
            yield Finding(kind="orphan", subject=subject, problem="nothing names it; `ht gc` removes it")
