"""Append-only rows: put, get, list, export."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from harnesstrain.core.errors import NotFound, StoreCorrupt
from harnesstrain.core.ids import short
from harnesstrain.core.records.base import Record
from harnesstrain.store.base import Entry
from harnesstrain.store.engine import Database
from harnesstrain.store.kinds import MEMO, Kind
from harnesstrain.store.payloads import encode, fields_of, payload_digest

PAGE = 500
"""Rows read at once while exporting."""


def put(database: Database, kind: Kind, record: Record) -> bool:
    """Append `record`.  False when the newest row of its id already says the same.

    Raises StoreCorrupt when a row of that id differs in a field that the id determines.
    """
    with database.write() as connection:
        return append(database, connection, kind, record)


def append(
    database: Database, connection: sa.Connection, kind: Kind, record: Record, extra: Mapping[str, Any] | None = None
) -> bool:
    """`put` inside a write transaction; `extra` holds columns that are not fields of the record."""
    table = kind.table
    identifier = kind.key(record)
    fields = fields_of(record)
    payload = encode(fields)
    digest = payload_digest(payload)
    newest = sa.select(table.c.digest, table.c.payload).where(table.c.id == identifier)
    row = connection.execute(newest.order_by(table.c.seq.desc()).limit(1)).one_or_none()
    if row is not None:
        if row.digest != digest:
            _same_identity(kind, identifier, loads(kind, identifier, row.payload, row.digest), fields)
        elif kind is not MEMO or _newest_digest(connection, table) == digest:
            return False
    values = {"id": identifier, "at": database.now(connection), "digest": digest, "payload": payload}
    connection.execute(table.insert(), {**values, **kind.columns(record), **(extra or {})})
    return True


def find(database: Database, kind: Kind, identifier: str) -> Record | None:
    """The newest record of an id, or None.  Raises StoreCorrupt when its row is damaged."""
    table = kind.table
    query = sa.select(table.c.id, table.c.digest, table.c.payload).where(table.c.id == identifier)
    with database.read() as connection:
        row = connection.execute(query.order_by(table.c.seq.desc()).limit(1)).one_or_none()
    return None if row is None else build(kind, row)


def get(database: Database, kind: Kind, identifier: str) -> Record:
    """The newest record of an id.  Raises NotFound."""
    record = find(database, kind, identifier)
    if record is None:
        raise _unknown(kind, identifier)
    return record


def fields(database: Database, kind: Kind, identifier: str) -> dict[str, Any]:
    """The newest record of an id as plain fields.  Raises NotFound or StoreCorrupt."""
    table = kind.table
    query = sa.select(table.c.digest, table.c.payload).where(table.c.id == identifier).order_by(table.c.seq.desc())
    with database.read() as connection:
        row = connection.execute(query.limit(1)).one_or_none()
    if row is None:
        raise _unknown(kind, identifier)
    return loads(kind, identifier, row.payload, row.digest)


def newest(database: Database, kind: Kind) -> Record | None:
    """The record committed last, or None."""
    table = kind.table
    query = sa.select(table.c.id, table.c.digest, table.c.payload).order_by(table.c.seq.desc()).limit(1)
    with database.read() as connection:
        row = connection.execute(query).one_or_none()
    return None if row is None else build(kind, row)


def listed(database: Database, kind: Kind, equal: Mapping[str, Any] | None = None) -> list[Record]:
    """The newest record of every id, in order of first commit.

    `equal` (look-up column -> value) narrows the ids to those with a matching row; their newest row is what counts.
    """
    table = kind.table
    query = sa.select(table.c.id, table.c.digest, table.c.payload).order_by(table.c.seq)
    if equal:
        matching = sa.select(table.c.id).where(*(table.c[column] == value for column, value in equal.items()))
        query = query.where(table.c.id.in_(matching))
    with database.read() as connection:
        rows = {row.id: row for row in connection.execute(query)}
    return [build(kind, row) for row in rows.values()]


def entries(database: Database, kind: Kind) -> Iterator[Entry]:
    """Every row, corrections included, in order of commit.  Holds no transaction between pages."""
    table = kind.table
    query = sa.select(table.c.seq, table.c.id, table.c.at, table.c.digest, table.c.payload).order_by(table.c.seq)
    last = 0
    while True:
        with database.read() as connection:
            page = connection.execute(query.where(table.c.seq > last).limit(PAGE)).all()
        if not page:
            return
        for row in page:
            fields = loads(kind, row.id, row.payload, row.digest)
            yield Entry(kind=kind.name, id=row.id, seq=row.seq, at=row.at, record=fields)
        last = page[-1].seq


def build(kind: Kind, row: Any) -> Record:
    """The record of a row that has `id`, `digest` and `payload`.  Raises StoreCorrupt."""
    fields = loads(kind, row.id, row.payload, row.digest)
    try:
        return kind.model.model_validate(fields)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise corrupt(kind, row.id, f"{where}: {problem['msg']}") from error


def loads(kind: Kind, identifier: str, payload: str, digest: str) -> dict[str, Any]:
    """A payload's fields, its digest checked.  Raises StoreCorrupt."""
    if payload_digest(payload) != digest:
        raise corrupt(kind, identifier, "its bytes are not those that were committed")
    try:
        fields = json.loads(payload)
    except ValueError as error:
        raise corrupt(kind, identifier, "it is not JSON") from error
    if not isinstance(fields, dict):
        raise corrupt(kind, identifier, "it is not a record")
    return fields


def corrupt(kind: Kind, identifier: str, problem: str) -> StoreCorrupt:
    """The one error for a row that cannot be trusted."""
    return StoreCorrupt(f"{kind.name} '{short(identifier)}' is damaged: {problem}", hint="`ht fsck` lists all damage")


def _unknown(kind: Kind, identifier: str) -> NotFound:
    return NotFound(f"no {kind.name} '{short(identifier)}' in the store", hint="`ht log` lists what there is")


def _newest_digest(connection: sa.Connection, table: sa.Table) -> str | None:
    return connection.execute(sa.select(table.c.digest).order_by(table.c.seq.desc()).limit(1)).scalar()


def _same_identity(kind: Kind, identifier: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    names = kind.fixed if kind.fixed is not None else frozenset(before) | frozenset(after)
    differing = sorted(name for name in names if before.get(name) != after.get(name))
    if differing:
        shown = ", ".join(differing)
        raise StoreCorrupt(
            f"two records claim {kind.name} '{short(identifier)}': they differ in {shown}",
            hint="`ht fsck` checks the store",
            fields=differing,
        )
