"""Secrets, channels, routes, and the delivery of messages."""

import sqlalchemy as sa
from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, LargeBinary, Table, Text

from assent.db.tables.base import metadata, number, text

# Encrypted with the project, name and version as associated data, so that a swapped row cannot be decrypted.
secrets = Table(
    "assent_secrets",
    metadata,
    Column("project_id", Text, ForeignKey("assent_projects.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("ciphertext", LargeBinary, nullable=False),
    text("key_id"),
    number("created_at"),
    text("created_by"),
    number("retired_at", null=True),
    # Only one of several concurrent rotations succeeds.
    Index(
        "uq_assent_secrets_current",
        "project_id",
        "name",
        unique=True,
        sqlite_where=sa.text("retired_at IS NULL"),
        postgresql_where=sa.text("retired_at IS NULL"),
    ),
    sqlite_with_rowid=False,
)

# One message to one recipient about one event; messages to the same recipient keep the order of the events.
deliveries = Table(
    "assent_deliveries",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), nullable=False),
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), nullable=False),
    text("channel"),
    text("recipient"),
    number("seq"),
    text("type"),
    text("state"),
    number("attempts"),
    number("next_at"),
    text("last_error", null=True),
    number("created_at"),
    number("updated_at"),
    # Why the message is sent, and what identifies it at the receiver, as JSON that only the channel interprets.
    Column("purpose", Text, nullable=False, server_default="tell"),
    text("trace", null=True),
    # The channels that are left to try when this delivery is dead.
    text("fallback", null=True),
    Column("digested", BigInteger, nullable=False, server_default="0"),
    CheckConstraint("state IN ('pending','sending','sent','answered','superseded','dead')", name="state"),
    Index(
        "ix_assent_deliveries_digest",
        "channel",
        "recipient",
        sqlite_where=sa.text("digested = 1 AND state = 'pending'"),
        postgresql_where=sa.text("digested = 1 AND state = 'pending'"),
    ),
    Index("uq_assent_deliveries_event", "breakpoint_id", "channel", "recipient", "seq", unique=True),
    Index("ix_assent_deliveries_listed", "project_id", "state", "id"),
    Index("ix_assent_deliveries_project", "project_id", "id"),
    Index(
        "ix_assent_deliveries_open",
        "next_at",
        sqlite_where=sa.text("state IN ('pending','sending')"),
        postgresql_where=sa.text("state IN ('pending','sending')"),
    ),
)

attempts = Table(
    "assent_attempts",
    metadata,
    Column("delivery_id", Text, ForeignKey("assent_deliveries.id"), primary_key=True),
    Column("n", BigInteger, primary_key=True, autoincrement=False),
    number("at"),
    text("worker"),
    number("milliseconds", null=True),
    number("status", null=True),
    text("error", null=True),
    # 1 if it failed before anything was sent; NULL in earlier versions, whose attempts may have arrived.
    number("unsent", null=True),
    sqlite_with_rowid=False,
)

# Settings contain only references to secrets. A removed channel is kept for its deliveries.
channels = Table(
    "assent_channels",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), nullable=False),
    text("name"),
    text("type"),
    text("settings"),
    number("enabled"),
    text("disabled_because", null=True),
    text("source"),
    text("created_by"),
    number("created_at"),
    number("updated_at"),
    number("removed_at", null=True),
    # The health of the channel.
    number("ok_at", null=True),
    number("failed_at", null=True),
    text("last_error", null=True),
    number("heard_at", null=True),
    Index(
        "uq_assent_channels_name",
        "project_id",
        "name",
        unique=True,
        sqlite_where=sa.text("removed_at IS NULL"),
        postgresql_where=sa.text("removed_at IS NULL"),
    ),
)

# Who is notified of which breakpoints; the first matching route applies.
routes = Table(
    "assent_routes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), nullable=False),
    number("position"),
    text("pattern"),
    text("content"),
    number("enabled"),
    text("source"),
    text("created_by"),
    number("created_at"),
    number("updated_at"),
    Index("ix_assent_routes_project", "project_id", "position"),
    sqlite_with_rowid=False,
)

# The notification state of a breakpoint: its route at that time, the completed steps, and when the next one is due.
routings = Table(
    "assent_routings",
    metadata,
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    text("project_id"),
    text("route_id", null=True),
    text("route", null=True),
    number("done"),
    # The last event that all followers have been notified of.
    number("seen"),
    # Who may answer besides the assigned experts: deputies of absent people, and people to whom it was escalated.
    text("deputies"),
    number("next_at", null=True),
    number("created_at"),
    Index(
        "ix_assent_routings_due",
        "next_at",
        sqlite_where=sa.text("next_at IS NOT NULL"),
        postgresql_where=sa.text("next_at IS NOT NULL"),
    ),
    sqlite_with_rowid=False,
)

# How a person is notified: channels in order, quiet hours, and who answers while the person is absent.
preferences = Table(
    "assent_preferences",
    metadata,
    Column("person_id", Text, ForeignKey("assent_people.id"), primary_key=True),
    text("content"),
    number("updated_at"),
    sqlite_with_rowid=False,
)

# Linked accounts: the person behind an identity on a channel, linked explicitly and never guessed.
links = Table(
    "assent_links",
    metadata,
    Column("channel_id", Text, ForeignKey("assent_channels.id"), primary_key=True),
    Column("identity", Text, primary_key=True),
    Column("person_id", Text, ForeignKey("assent_people.id"), nullable=False),
    text("linked_by"),
    number("linked_at"),
    Index("ix_assent_links_person", "person_id", "channel_id"),
    sqlite_with_rowid=False,
)

# Links sent to unlinked identities on a channel. A signed-in person who opens such a link can link the identity.
link_offers = Table(
    "assent_link_offers",
    metadata,
    Column("secret_hash", Text, primary_key=True),
    Column("channel_id", Text, ForeignKey("assent_channels.id"), nullable=False),
    text("identity"),
    text("shown_as"),
    number("expires_at"),
    sqlite_with_rowid=False,
)

# Deduplicates inbound channel messages.
heard = Table(
    "assent_heard",
    metadata,
    Column("channel_id", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    number("at"),
    Index("ix_assent_heard_at", "at"),
    sqlite_with_rowid=False,
)

# When a recipient received the last messages, when the last digest was sent, and when the next digest is due.
pace = Table(
    "assent_pace",
    metadata,
    Column("channel", Text, primary_key=True),
    Column("recipient", Text, primary_key=True),
    text("times"),
    number("digest_at", null=True),
    number("digest_due", null=True),
    sqlite_with_rowid=False,
)

workers = Table(
    "assent_workers",
    metadata,
    Column("id", Text, primary_key=True),
    text("host"),
    number("pid"),
    number("started_at"),
    number("seen_at"),
    sqlite_with_rowid=False,
)
