"""The tables of store.db.  Rows are appended, never changed; `leases` alone is mutable.

Every record table has the same five columns (`seq id at digest payload`) and a few copies of payload fields that
look-ups need.  `digest` is the sha256 of the payload's bytes.  Change a table here together with a migration;
a test compares both with tests/golden/schema.sql.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

HEAD = "0001"
"""The newest migration.  Revisions are four digits and count upwards, so they compare as text."""

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

metadata = sa.MetaData(naming_convention=NAMING)

Seq = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Id = sa.String(64).with_variant(sa.String(64, collation="C"), "postgresql")
"""A digest.  Compared by bytes everywhere, so that prefix ranges mean the same on every server."""


def records(name: str, *columns: sa.Column[Any], unique: bool = False) -> sa.Table:
    """A table of append-only records.  `unique`: one row per id, ever; otherwise the newest row of an id counts."""
    guard = sa.UniqueConstraint("id") if unique else sa.Index(None, "id", "seq")
    return sa.Table(
        name,
        metadata,
        sa.Column("seq", Seq, primary_key=True, autoincrement=True),
        sa.Column("id", Id, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("digest", Id, nullable=False),
        *columns,
        sa.Column("payload", sa.Text(), nullable=False),
        guard,
    )


endpoints = records("endpoints")
regimes = records("regimes", sa.Column("endpoint", Id, nullable=False), unique=True)
tasks = records("tasks", sa.Column("name", sa.Text(), nullable=False))
panels = records("panels", sa.Column("name", sa.Text(), nullable=False))
runs = records(
    "runs",
    sa.Column("commit", Id, nullable=False, index=True),
    sa.Column("panel", Id, nullable=False),
    sa.Column("regime", Id, nullable=False),
)
rollouts = records(
    "rollouts",
    sa.Column("run", Id, nullable=False),
    sa.Column("task", sa.Text(), nullable=False),
    sa.Column("seed", sa.BigInteger(), nullable=False),
    sa.Column("attempt", sa.Integer(), nullable=False),
    sa.Column("outcome", sa.String(32), nullable=False),
    sa.Column("solved", sa.Integer(), nullable=False),
    sa.Column("scorable", sa.Integer(), nullable=False),
    sa.Column("llm_calls", sa.Integer(), nullable=False),
    sa.Column("actions", sa.Integer(), nullable=False),
    sa.Column("tokens", sa.BigInteger(), nullable=False),
    sa.Column("recorded_time", sa.Double(), nullable=False),
    sa.Column("trace", Id),
    sa.Column("previous", Id, nullable=False),
    sa.Column("chain", Id, nullable=False),
    unique=True,
)
sa.Index(None, rollouts.c.run, rollouts.c.seq)

completions = sa.Table(
    "completions",
    metadata,
    sa.Column("seq", Seq, primary_key=True, autoincrement=True),
    sa.Column("run", Id, nullable=False),
    sa.Column("at", sa.Double(), nullable=False),
    sa.Column("rollouts", sa.Integer(), nullable=False),
    sa.Column("head", Id, nullable=False),
    sa.Column("file", sa.Text()),
    sa.Column("file_digest", Id),
    sa.Column("bytes", sa.BigInteger(), nullable=False),
    sa.Index(None, "run", "seq"),
)

candidates = records("candidates", sa.Column("commit", Id, index=True), sa.Column("epoch", sa.Integer()))
verdicts = records(
    "verdicts",
    sa.Column("base_run", Id, nullable=False),
    sa.Column("cand_run", Id, nullable=False, index=True),
    sa.Column("decision", sa.String(32), nullable=False),
)
promotions = records(
    "promotions", sa.Column("verdict", Id), sa.Column("new", Id, nullable=False), sa.Column("state", sa.String(32))
)
memos = records("memos", sa.Column("epoch", sa.Integer()))
epochs = records("epochs", sa.Column("number", sa.Integer(), nullable=False), sa.Column("state", sa.String(32)))
certificates = records(
    "certificates",
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("run", Id, index=True),
    sa.Column("regime", Id),
    sa.Column("task", sa.Text(), index=True),
    sa.Column("task_digest", Id),
    sa.Column("chain", Id, index=True),
    sa.Column("result", sa.String(32), nullable=False),
)

leases = sa.Table(
    "leases",
    metadata,
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("token", sa.String(32), nullable=False),
    sa.Column("pid", sa.BigInteger(), nullable=False),
    sa.Column("host", sa.Text(), nullable=False),
    sa.Column("boot", sa.Text(), nullable=False),
    sa.Column("started", sa.Text(), nullable=False),
    sa.Column("purpose", sa.Text(), nullable=False),
    sa.Column("taken", sa.Double(), nullable=False),
    sa.Column("beat", sa.Double(), nullable=False),
    sa.Column("ttl", sa.Double(), nullable=False),
)
