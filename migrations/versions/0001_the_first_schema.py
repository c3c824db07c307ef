"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.String(length=64).with_variant(sa.String(length=64, collation="C"), "postgresql")
SEQ = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "candidates",
        sa.Column("seq", SEQ, autoincrement=True, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("digest", ID, nullable=False),
        sa.Column("commit", ID, nullable=True),
        sa.Column("epoch", sa.Integer(), nullable=True),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_candidates")),
    )
    with op.batch_alter_table("candidates", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_candidates_commit"), ["commit"], unique=False)
        batch_op.create_index(batch_op.f("ix_candidates_id_seq"), ["id", "seq"], unique=False)

    op.create_table(
        "certificates",
        sa.Column("seq", SEQ, autoincrement=True, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("digest", ID, nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("run", ID, nullable=True),
        sa.Column("regime", ID, nullable=True),
        sa.Column("task", sa.Text(), nullable=True),
        sa.Column("task_digest", ID, nullable=True),
        sa.Column("chain", ID, nullable=True),
        sa.Column("result", sa.String(length=32), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_certificates")),
    )
    with op.batch_alter_table("certificates", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_certificates_chain"), ["chain"], unique=False)
        batch_op.create_index(batch_op.f("ix_certificates_id_seq"), ["id", "seq"], unique=False)
        batch_op.create_index(batch_op.f("ix_certificates_run"), ["run"], unique=False)
        batch_op.create_index(batch_op.f("ix_certificates_task"), ["task"], unique=False)

    op.create_table(
        "completions",
        sa.Column("seq", SEQ, autoincrement=True, nullable=False),
        sa.Column("run", ID, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("rollouts", sa.Integer(), nullable=False),
        sa.Column("head", ID, nullable=False),
        sa.Column("file", sa.Text(), nullable=True),
        sa.Column("file_digest", ID, nullable=True),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_completions")),
    )
    with op.batch_alter_table("completions", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_completions_run_seq"), ["run", "seq"], unique=False)

    op.create_table(
        "endpoints",
        sa.Column("seq", SEQ, autoincrement=True, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("digest", ID, nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_endpoints")),
    )
    with op.batch_alter_table("endpoints", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_endpoints_id_seq"), ["id", "seq"], unique=False)

    op.create_table(
        "epochs",
        sa.Column("seq", SEQ, autoincrement=True, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("digest", ID, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=True),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_epochs")),
    )
    with op.batch_alter_table("epochs", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_epochs_id_seq"), ["id", "seq"], unique=False)

    op.create_table(
        "leases",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("boot", sa.Text(), nullable=False),
        sa.Column("started", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("taken", sa.Double(), nullable=False),
        sa.Column("beat", sa.Double(), nullable=False),
        sa.Column("ttl", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    op.create_table(
        "memos",
        sa.Column("seq", SEQ, autoincrement=True, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("digest", ID, nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=True),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_memos")),
    )
    with op.batch_alter_table("memos", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_memos_id_seq"), ["id", "seq"], unique=False)

    op.create_table(
        "panels",
        sa.Column("seq", SEQ, autoincrement=True, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("digest", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_panels")),
    )
    with op.batch_alter_table("panels", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_panels_id_seq"), ["id", "seq"], unique=False)

    op.create_table(
        "promotions",
        sa.Column("seq", SEQ, autoincrement=True, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("digest", ID, nullable=False),
        sa.Column("verdict", ID, nullable=True),
        sa.Column("new", ID, nullable=False),
        sa.Column("state", sa.String(length=32), nullable=True),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_promotions")),
    )
    with op.batch_alter_table("promotions", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_promotions_id_seq"), ["id", "seq"], unique=False)

    op.create_table(
        "regimes",
        sa.Column("seq", SEQ, autoincrement=True, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("digest", ID, nullable=False),
        sa.Column("endpoint", ID, nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_regimes")),
        sa.UniqueConstraint("id", name=op.f("uq_regimes_id")),
    )
    op.create_table(
        "rollouts",
        sa.Column("seq", SEQ, autoincrement=True, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("digest", ID, nullable=False),
        sa.Column("run", ID, nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(length=32), nullable=False),
        sa.Column("solved", sa.Integer(), nullable=False),
        sa.Column("scorable", sa.Integer(), nullable=False),
        sa.Column("llm_calls", sa.Integer(), nullable=False),
        sa.Column("actions", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("recorded_time", sa.Double(), nullable=False),
        sa.Column("trace", ID, nullable=True),
        sa.Column("previous", ID, nullable=False),
        sa.Column("chain", ID, nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_rollouts")),
        sa.UniqueConstraint("id", name=op.f("uq_rollouts_id")),
    )
    with op.batch_alter_table("rollouts", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_rollouts_run_seq"), ["run", "seq"], unique=False)

    op.create_table(
        "runs",
        sa.Column("seq", SEQ, autoincrement=True, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("digest", ID, nullable=False),
        sa.Column("commit", ID, nullable=False),
        sa.Column("panel", ID, nullable=False),
        sa.Column("regime", ID, nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_runs")),
    )
    with op.batch_alter_table("runs", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_runs_commit"), ["commit"], unique=False)
        batch_op.create_index(batch_op.f("ix_runs_id_seq"), ["id", "seq"], unique=False)

    op.create_table(
        "tasks",
        sa.Column("seq", SEQ, autoincrement=True, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("digest", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_tasks")),
    )
    with op.batch_alter_table("tasks", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_tasks_id_seq"), ["id", "seq"], unique=False)

    op.create_table(
        "verdicts",
        sa.Column("seq", SEQ, autoincrement=True, nullable=False),
        sa.Column("id", ID, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("digest", ID, nullable=False),
        sa.Column("base_run", ID, nullable=False),
        sa.Column("cand_run", ID, nullable=False),
        sa.Column("decision", sa.String(length=32), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_verdicts")),
    )
    with op.batch_alter_table("verdicts", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_verdicts_cand_run"), ["cand_run"], unique=False)
        batch_op.create_index(batch_op.f("ix_verdicts_id_seq"), ["id", "seq"], unique=False)


def downgrade() -> None:
    raise NotImplementedError("restore the copy that `ht db upgrade` made")
