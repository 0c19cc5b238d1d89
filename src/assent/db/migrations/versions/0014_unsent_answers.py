"""Answers that never took effect"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.create_table(
        "assent_unsent_answers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("breakpoint_id", sa.Text(), nullable=False),
        sa.Column("person_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("approved", sa.BigInteger(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["breakpoint_id"], ["assent_breakpoints.id"], name=op.f("fk_assent_unsent_answers_breakpoint_id")
        ),
        sa.ForeignKeyConstraint(["person_id"], ["assent_people.id"], name=op.f("fk_assent_unsent_answers_person_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assent_unsent_answers")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_assent_unsent_answers_person", "assent_unsent_answers", ["person_id", "project_id", "id"])
    op.create_index("ix_assent_unsent_answers_breakpoint", "assent_unsent_answers", ["breakpoint_id"])
