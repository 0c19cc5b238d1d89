"""Held answers, claims, snoozes and saved views"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "assent_held_answers",
        sa.Column("breakpoint_id", sa.Text(), nullable=False),
        sa.Column("person_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("override", sa.BigInteger(), nullable=False),
        sa.Column("via", sa.Text(), nullable=False),
        sa.Column("batch", sa.Text(), nullable=True),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["breakpoint_id"], ["assent_breakpoints.id"], name=op.f("fk_assent_held_answers_breakpoint_id")
        ),
        sa.ForeignKeyConstraint(["person_id"], ["assent_people.id"], name=op.f("fk_assent_held_answers_person_id")),
        sa.PrimaryKeyConstraint("breakpoint_id", "person_id", name=op.f("pk_assent_held_answers")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_assent_held_answers_due", "assent_held_answers", ["due_at"])
    op.create_index("ix_assent_held_answers_person", "assent_held_answers", ["person_id", "batch"])
    op.create_table(
        "assent_claims",
        sa.Column("breakpoint_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("person_id", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["breakpoint_id"], ["assent_breakpoints.id"], name=op.f("fk_assent_claims_breakpoint_id")
        ),
        sa.ForeignKeyConstraint(["person_id"], ["assent_people.id"], name=op.f("fk_assent_claims_person_id")),
        sa.PrimaryKeyConstraint("breakpoint_id", name=op.f("pk_assent_claims")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "assent_snoozes",
        sa.Column("person_id", sa.Text(), nullable=False),
        sa.Column("breakpoint_id", sa.Text(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["person_id"], ["assent_people.id"], name=op.f("fk_assent_snoozes_person_id")),
        sa.ForeignKeyConstraint(
            ["breakpoint_id"], ["assent_breakpoints.id"], name=op.f("fk_assent_snoozes_breakpoint_id")
        ),
        sa.PrimaryKeyConstraint("person_id", "breakpoint_id", name=op.f("pk_assent_snoozes")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_assent_snoozes_breakpoint", "assent_snoozes", ["breakpoint_id"])
    op.create_table(
        "assent_views",
        sa.Column("person_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["person_id"], ["assent_people.id"], name=op.f("fk_assent_views_person_id")),
        sa.ForeignKeyConstraint(["project_id"], ["assent_projects.id"], name=op.f("fk_assent_views_project_id")),
        sa.PrimaryKeyConstraint("person_id", "project_id", "name", name=op.f("pk_assent_views")),
        sqlite_with_rowid=False,
    )
