"""The schema's life: create, check, upgrade.

Opening a store compares one row with a constant; alembic is imported only to upgrade.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from harnesstrain.core.errors import Busy, Prerequisite, StoreCorrupt
from harnesstrain.core.resources import shipped
from harnesstrain.store import files
from harnesstrain.store.base import SchemaState, Upgraded
from harnesstrain.store.engine import Database, use_wal
from harnesstrain.store.schema import HEAD, metadata

_STAMP = sa.Table("alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32), nullable=False))
_STAMP.append_constraint(sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"))


def state(database: Database) -> SchemaState:
    """How the database's schema relates to this code.  Raises StoreCorrupt when it is no store at all."""
    with database.read() as connection:
        return _state(connection, database.label)


def require_current(database: Database) -> None:
    """Raise Prerequisite unless the schema is the one this code speaks."""
    found = state(database)
    if found.status == "current":
        return
    if found.status == "missing":
        raise Prerequisite(f"no store at {database.label}", hint="`ht init` makes one")
    if found.status == "older":
        message = f"{database.label} has schema {found.found}, this harnesstrain needs {found.head}"
        raise Prerequisite(message, hint="`ht db upgrade` copies the store, then brings it up to date")
    message = f"{database.label} has schema {found.found}, this harnesstrain knows {found.head}"
    raise Prerequisite(message, hint="upgrade harnesstrain: pip install --upgrade harnesstrain")


def create(database: Database) -> bool:
    """Create the schema at head in an empty database; False when it has one already.  Safe to race."""
    if database.sqlite and database.writable:
        use_wal(database)
    if state(database).status != "missing":
        return False
    with database.write() as connection:
        if _state(connection, database.label).status != "missing":
            return False
        metadata.create_all(connection, checkfirst=False)
        _STAMP.create(connection)
        connection.execute(_STAMP.insert().values(version_num=HEAD))
        return True


def upgrade(database: Database, file: Path | None) -> Upgraded:
    """Bring the schema to head.  A file is copied first, to `store.db.<revision>.bak`.

    Raises Prerequisite (newer than this code, disk full) or StoreCorrupt (the migration failed; nothing changed).
    """
    before = state(database)
    if before.status == "newer":
        require_current(database)
    if before.status == "current":
        return Upgraded(before=before.found, after=HEAD)
    if before.status == "missing":
        create(database)
        return Upgraded(before=None, after=HEAD)
    backup = _backup(file, str(before.found)) if file is not None else None
    kept = f"the store is unchanged; a copy is at {backup}" if backup else "the store is unchanged"
    try:
        with database.write() as connection:
            _migrate(connection)
    except (Prerequisite, Busy):
        raise
    except Exception as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StoreCorrupt(f"migration from {before.found} failed: {said}", hint=kept) from error
    return Upgraded(before=before.found, after=HEAD, backup=backup)


def _migrate(connection: sa.Connection, revision: str = "head") -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(shipped("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _state(connection: sa.Connection, label: str) -> SchemaState:
    inspector = sa.inspect(connection)
    names = set(inspector.get_table_names())
    if _STAMP.name not in names:
        if names:
            hint = "name another place for the store"
            raise StoreCorrupt(f"{label} is a database of something else: it has no schema revision", hint=hint)
        return SchemaState(found=None, head=HEAD)
    found = connection.execute(sa.select(_STAMP.c.version_num)).scalars().all()
    if len(found) != 1:
        raise StoreCorrupt(f"{label} has {len(found)} schema revisions, not one", hint="restore its last backup")
    return SchemaState(found=found[0], head=HEAD)


def _backup(file: Path, revision: str) -> Path:
    """Copy the database file, its log included, as one consistent state.  Never overwrites an earlier copy."""
    number = 0
    while (target := file.with_name(f"{file.name}.{revision}{f'.{number}' if number else ''}.bak")).exists():
        number += 1
    with files.draft(target) as draft:
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(draft.path)) as copy:
            source.backup(copy)
        os.utime(draft.path)
    return target
