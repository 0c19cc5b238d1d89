"""Identities at identity providers, the project of a session, and events in chronological order"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "assent_identities",
        sa.Column("issuer", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("person_id", sa.Text(), nullable=False),
        sa.Column("linked_at", sa.BigInteger(), nullable=False),
        sa.Column("linked_by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["person_id"], ["assent_people.id"], name=op.f("fk_assent_identities_person_id")),
        sa.PrimaryKeyConstraint("issuer", "subject", name=op.f("pk_assent_identities")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_assent_identities_person", "assent_identities", ["person_id"])
    op.add_column("assent_sessions", sa.Column("project_id", sa.Text(), nullable=True))
    op.create_index("ix_assent_sessions_person", "assent_sessions", ["person_id"])
    op.create_index("ix_assent_events_at", "assent_events", ["at", "breakpoint_id", "seq"])
