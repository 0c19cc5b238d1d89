"""People, tokens, projects, and ways to sign in."""

import sqlalchemy as sa
from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, Table, Text

from assent.db.tables.base import metadata, number, text

projects = Table(
    "assent_projects",
    metadata,
    Column("id", Text, primary_key=True),
    text("name"),
    Column("owner_id", Text, ForeignKey("assent_people.id"), nullable=True),
    text("policy"),
    number("created_at"),
    # Changes whenever the rules or the policy change, so that a cached rulebook can be checked.
    Column("rulebook", BigInteger, nullable=False, server_default="0"),
    # A removed project keeps its history and accepts nothing new.
    number("removed_at", null=True),
)

people = Table(
    "assent_people",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    text("display_name"),
    text("email", null=True),
    text("password_hash", null=True),
    number("active"),
    number("created_at"),
    # The project whose admins manage the account; '*' means the admins of all projects.
    Column("home_project", Text, nullable=False, server_default="*"),
    # Who set up or reset the person's access, until the access is confirmed.
    text("reset_by", null=True),
    number("reset_at", null=True),
    text("reset_way", null=True),
    # How pages are displayed; NULL follows the browser.
    text("theme", null=True),
    text("time_zone", null=True),
)

grants = Table(
    "assent_grants",
    metadata,
    Column("person_id", Text, ForeignKey("assent_people.id"), primary_key=True),
    Column("project_id", Text, primary_key=True),
    Column("role", Text, primary_key=True),
    CheckConstraint("role IN ('viewer','reviewer','rule-admin','auditor','admin')", name="role"),
)

groups = Table(
    "assent_groups",
    metadata,
    Column("project_id", Text, ForeignKey("assent_projects.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    number("created_at"),
)

group_members = Table(
    "assent_group_members",
    metadata,
    Column("project_id", Text, primary_key=True),
    Column("group_name", Text, primary_key=True),
    Column("person_id", Text, ForeignKey("assent_people.id"), primary_key=True),
    sa.ForeignKeyConstraint(
        ["project_id", "group_name"],
        ["assent_groups.project_id", "assent_groups.name"],
        ondelete="CASCADE",
        name="fk_assent_group_members_group",
    ),
)

tokens = Table(
    "assent_tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), nullable=False),
    text("kind"),
    text("name"),
    Column("person_id", Text, ForeignKey("assent_people.id"), nullable=True),
    text("roles"),
    text("gates"),
    text("agent_ids"),
    number("creates_per_minute", null=True),
    Column("secret_hash", Text, nullable=False, unique=True),
    number("created_at"),
    text("created_by"),
    number("expires_at", null=True),
    number("last_used_at", null=True),
    number("revoked_at", null=True),
    # Patterns for the processes that the token may start.
    Column("processes", Text, nullable=False, server_default="[]"),
    # The agent's first token; NULL for that token itself. An agent's breakpoints belong to all of its tokens.
    text("agent", null=True),
    CheckConstraint("kind IN ('agent','person','service')", name="kind"),
    # An agent token cannot have a person or a role, so it can never decide.
    CheckConstraint("(kind = 'person') = (person_id IS NOT NULL)", name="person"),
    CheckConstraint("kind = 'person' OR roles = '[]'", name="roles"),
)

sessions = Table(
    "assent_sessions",
    metadata,
    Column("id_hash", Text, primary_key=True),
    Column("person_id", Text, ForeignKey("assent_people.id"), nullable=False),
    text("csrf"),
    number("created_at"),
    number("seen_at"),
    number("expires_at"),
    text("project_id", null=True),
    Column("must_set_password", BigInteger, nullable=False, server_default="0"),
    Index("ix_assent_sessions_person", "person_id"),
)

# A person's identity at an identity provider: the provider's own ID for the person, never an email address.
identities = Table(
    "assent_identities",
    metadata,
    Column("issuer", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("person_id", Text, ForeignKey("assent_people.id"), nullable=False),
    number("linked_at"),
    text("linked_by"),
    Index("ix_assent_identities_person", "person_id"),
    sqlite_with_rowid=False,
)

sign_in_links = Table(
    "assent_sign_in_links",
    metadata,
    Column("secret_hash", Text, primary_key=True),
    Column("person_id", Text, ForeignKey("assent_people.id"), nullable=False),
    text("purpose"),
    number("expires_at"),
    number("used_at", null=True),
)
