"""Agents that stopped waiting for an answer"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.create_table(
        "assent_absent_agents",
        sa.Column("breakpoint_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["breakpoint_id"], ["assent_breakpoints.id"], name=op.f("fk_assent_absent_agents_breakpoint_id")
        ),
        sa.PrimaryKeyConstraint("breakpoint_id", name=op.f("pk_assent_absent_agents")),
        sqlite_with_rowid=False,
    )
