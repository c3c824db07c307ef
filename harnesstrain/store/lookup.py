"""Ids from prefixes, over every kind of record."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from harnesstrain.core import ids
from harnesstrain.core.errors import NotFound, UsageError
from harnesstrain.store.base import Found
from harnesstrain.store.engine import Database
from harnesstrain.store.kinds import EPOCH, KINDS

MOST = 20
"""Ids looked at per kind: enough to show that a prefix is ambiguous."""


def resolve(database: Database, prefix: str, kinds: Iterable[str] | None = None) -> Found:
    """The one record whose id starts with `prefix` (>= 4 hex characters).

    `kinds` narrows the search.  Epochs have numbers, not ids, and are never found.
    Raises UsageError (too short, unknown kind), NotFound or Ambiguous (carries `candidates`).
    """
    wanted = list(KINDS) if kinds is None else list(kinds)
    for name in wanted:
        if name not in KINDS:
            raise UsageError(f"no kind '{name}' in the store", hint=f"known: {', '.join(KINDS)}")
    what = wanted[0] if len(wanted) == 1 else "id"
    prefix = prefix.strip().lower()
    if len(prefix) >= ids.SHORTEST and not ids.is_hex(prefix):
        raise NotFound(f"no {what} starts with '{prefix}'", hint="ids are hex digits; `ht log` lists what there is")
    found: dict[str, str] = {}
    if len(prefix) >= ids.SHORTEST:
        with database.read() as connection:
            for name in wanted:
                if name == EPOCH.name:
                    continue
                column = KINDS[name].table.c.id
                query = sa.select(column).where(column >= prefix, column < prefix + "g").distinct().limit(MOST)
                for identifier in connection.execute(query.order_by(column)).scalars():
                    found.setdefault(identifier, name)
    identifier = ids.pick(prefix, found, what)
    return Found(kind=found[identifier], id=identifier)
