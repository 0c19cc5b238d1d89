"""Rules, their results in shadow mode, and receipts of approvals."""

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, Table, Text

from assent.db.tables.base import metadata, number, text

# Removed rules are kept, so that their decisions can be explained.
rules = Table(
    "assent_rules",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), nullable=False),
    text("pattern"),
    text("action"),
    text("mode"),
    number("enabled"),
    number("expires_at", null=True),
    text("note", null=True),
    number("place"),
    text("source"),
    text("created_by"),
    number("created_at"),
    number("updated_at"),
    number("removed_at", null=True),
    number("version"),
    text("head"),
    Index("ix_assent_rules_project", "project_id", "place", "id"),
)

rule_events = Table(
    "assent_rule_events",
    metadata,
    Column("rule_id", Text, ForeignKey("assent_rules.id"), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    text("type"),
    text("actor"),
    number("at"),
    text("metadata"),
    text("previous"),
    text("hash"),
    sqlite_with_rowid=False,
)

# What a rule in shadow mode would have done, for comparison with what people did.
shadows = Table(
    "assent_shadows",
    metadata,
    Column("rule_id", Text, ForeignKey("assent_rules.id"), primary_key=True),
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    number("rule_version"),
    number("recommended"),
    number("at"),
    sqlite_with_rowid=False,
)

# The public keys that verify receipts, readable without decryption; the signing keys are stored secrets.
receipt_keys = Table(
    "assent_receipt_keys",
    metadata,
    Column("project_id", Text, ForeignKey("assent_projects.id"), primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("key_id", Text, nullable=False, unique=True),
    text("public_key"),
    number("created_at"),
    text("created_by"),
    number("retired_at", null=True),
    number("revoked_at", null=True),
    CheckConstraint("revoked_at IS NULL OR retired_at IS NOT NULL", name="revoked"),
    sqlite_with_rowid=False,
)

# One row for each used receipt: the primary key ensures that a receipt can be used only once.
receipt_uses = Table(
    "assent_receipt_uses",
    metadata,
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    Column("nonce", Text, nullable=False, unique=True),
    text("key_id"),
    number("used_at"),
    text("used_by"),
    sqlite_with_rowid=False,
)
