"""Deliveries with their attempts, and workers"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "assent_deliveries",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("breakpoint_id", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("recipient", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "state IN ('pending','sending','sent','answered','superseded','dead')",
            name=op.f("ck_assent_deliveries_state"),
        ),
        sa.ForeignKeyConstraint(
            ["breakpoint_id"], ["assent_breakpoints.id"], name=op.f("fk_assent_deliveries_breakpoint_id")
        ),
        sa.ForeignKeyConstraint(["project_id"], ["assent_projects.id"], name=op.f("fk_assent_deliveries_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assent_deliveries")),
    )
    with op.batch_alter_table("assent_deliveries", schema=None) as batch_op:
        batch_op.create_index(
            "uq_assent_deliveries_event", ["breakpoint_id", "channel", "recipient", "seq"], unique=True
        )
        batch_op.create_index("ix_assent_deliveries_listed", ["project_id", "state", "id"], unique=False)
        batch_op.create_index("ix_assent_deliveries_project", ["project_id", "id"], unique=False)
        batch_op.create_index(
            "ix_assent_deliveries_open",
            ["next_at"],
            unique=False,
            sqlite_where=sa.text("state IN ('pending','sending')"),
            postgresql_where=sa.text("state IN ('pending','sending')"),
        )
    op.create_table(
        "assent_attempts",
        sa.Column("delivery_id", sa.Text(), nullable=False),
        sa.Column("n", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("milliseconds", sa.BigInteger(), nullable=True),
        sa.Column("status", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["delivery_id"], ["assent_deliveries.id"], name=op.f("fk_assent_attempts_delivery_id")),
        sa.PrimaryKeyConstraint("delivery_id", "n", name=op.f("pk_assent_attempts")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "assent_workers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assent_workers")),
        sqlite_with_rowid=False,
    )
