"""Channels, routes, notification preferences, and the notification state of each breakpoint"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "assent_channels",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("enabled", sa.BigInteger(), nullable=False),
        sa.Column("disabled_because", sa.Text(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("removed_at", sa.BigInteger(), nullable=True),
        sa.Column("ok_at", sa.BigInteger(), nullable=True),
        sa.Column("failed_at", sa.BigInteger(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("heard_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["assent_projects.id"], name=op.f("fk_assent_channels_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assent_channels")),
    )
    op.create_index(
        "uq_assent_channels_name",
        "assent_channels",
        ["project_id", "name"],
        unique=True,
        sqlite_where=sa.text("removed_at IS NULL"),
        postgresql_where=sa.text("removed_at IS NULL"),
    )
    op.create_table(
        "assent_routes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("pattern", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("enabled", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["assent_projects.id"], name=op.f("fk_assent_routes_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assent_routes")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_assent_routes_project", "assent_routes", ["project_id", "position"])
    op.create_table(
        "assent_routings",
        sa.Column("breakpoint_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("route_id", sa.Text(), nullable=True),
        sa.Column("route", sa.Text(), nullable=True),
        sa.Column("done", sa.BigInteger(), nullable=False),
        sa.Column("seen", sa.BigInteger(), nullable=False),
        sa.Column("deputies", sa.Text(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["breakpoint_id"], ["assent_breakpoints.id"], name=op.f("fk_assent_routings_breakpoint_id")
        ),
        sa.PrimaryKeyConstraint("breakpoint_id", name=op.f("pk_assent_routings")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_assent_routings_due",
        "assent_routings",
        ["next_at"],
        sqlite_where=sa.text("next_at IS NOT NULL"),
        postgresql_where=sa.text("next_at IS NOT NULL"),
    )
    op.create_table(
        "assent_preferences",
        sa.Column("person_id", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["person_id"], ["assent_people.id"], name=op.f("fk_assent_preferences_person_id")),
        sa.PrimaryKeyConstraint("person_id", name=op.f("pk_assent_preferences")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "assent_links",
        sa.Column("channel_id", sa.Text(), nullable=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("person_id", sa.Text(), nullable=False),
        sa.Column("linked_by", sa.Text(), nullable=False),
        sa.Column("linked_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["channel_id"], ["assent_channels.id"], name=op.f("fk_assent_links_channel_id")),
        sa.ForeignKeyConstraint(["person_id"], ["assent_people.id"], name=op.f("fk_assent_links_person_id")),
        sa.PrimaryKeyConstraint("channel_id", "identity", name=op.f("pk_assent_links")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_assent_links_person", "assent_links", ["person_id", "channel_id"])
    op.create_table(
        "assent_link_offers",
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("channel_id", sa.Text(), nullable=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("shown_as", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["channel_id"], ["assent_channels.id"], name=op.f("fk_assent_link_offers_channel_id")),
        sa.PrimaryKeyConstraint("secret_hash", name=op.f("pk_assent_link_offers")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "assent_heard",
        sa.Column("channel_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("channel_id", "key", name=op.f("pk_assent_heard")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_assent_heard_at", "assent_heard", ["at"])
    op.create_table(
        "assent_pace",
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("recipient", sa.Text(), nullable=False),
        sa.Column("times", sa.Text(), nullable=False),
        sa.Column("digest_at", sa.BigInteger(), nullable=True),
        sa.Column("digest_due", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("channel", "recipient", name=op.f("pk_assent_pace")),
        sqlite_with_rowid=False,
    )
    op.add_column("assent_deliveries", sa.Column("purpose", sa.Text(), nullable=False, server_default="tell"))
    op.add_column("assent_deliveries", sa.Column("trace", sa.Text(), nullable=True))
    op.add_column("assent_deliveries", sa.Column("fallback", sa.Text(), nullable=True))
    op.add_column("assent_deliveries", sa.Column("digested", sa.BigInteger(), nullable=False, server_default="0"))
    op.create_index(
        "ix_assent_deliveries_digest",
        "assent_deliveries",
        ["channel", "recipient"],
        sqlite_where=sa.text("digested = 1 AND state = 'pending'"),
        postgresql_where=sa.text("digested = 1 AND state = 'pending'"),
    )
