"""Administrative events, the log of all events, and the signed checkpoints over it."""

from sqlalchemy import BigInteger, Column, Index, Table, Text, UniqueConstraint

from assent.store.tables.base import metadata, number, text

# Administrative acts: a chain for each project, one for the installation, and one for each receipt that was used.
admin_events = Table(
    "assent_admin_events",
    metadata,
    Column("chain_id", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    text("project_id"),
    text("type"),
    text("actor"),
    number("at"),
    text("metadata"),
    text("previous"),
    text("hash"),
    Index("ix_assent_admin_events_project", "project_id", "at", "chain_id", "seq"),
    sqlite_with_rowid=False,
)

# Where each chain of administrative events ends; the row is locked by the transaction that appends to the chain.
admin_chains = Table(
    "assent_admin_chains",
    metadata,
    Column("id", Text, primary_key=True),
    number("version"),
    text("head"),
    sqlite_with_rowid=False,
)

# Each restore of a backup begins one: receipts, sessions and held answers from before it are void.
epochs = Table(
    "assent_epochs",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    number("at"),
    text("reason"),
    sqlite_with_rowid=False,
)

# Events that no checkpoint covers yet. A trigger writes the row with the event: whoever commits late is not skipped.
unsigned_events = Table(
    "assent_unsigned_events",
    metadata,
    Column("subject_id", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

# The log: every event of breakpoints and of rules, in the order in which checkpoints took them in.
leaves = Table(
    "assent_leaves",
    metadata,
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    text("subject_id"),
    number("seq"),
    text("hash"),
    UniqueConstraint("subject_id", "seq"),
    sqlite_with_rowid=False,
)

# Hashes of whole subtrees, of every eighth level: what is between is computed from these.
nodes = Table(
    "assent_nodes",
    metadata,
    Column("level", BigInteger, primary_key=True, autoincrement=False),
    Column("n", BigInteger, primary_key=True, autoincrement=False),
    text("hash"),
    sqlite_with_rowid=False,
)

checkpoints = Table(
    "assent_checkpoints",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("size", BigInteger, nullable=False, unique=True),
    text("root"),
    number("at"),
    text("key_id"),
    text("note"),
    sqlite_with_rowid=False,
)

# What checkpoints are signed with is among the secrets; here are the keys they are checked with.
checkpoint_keys = Table(
    "assent_checkpoint_keys",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("key_id", Text, nullable=False, unique=True),
    text("origin"),
    text("public_key"),
    number("created_at"),
    text("created_by"),
    number("retired_at", null=True),
    sqlite_with_rowid=False,
)

# How far each place outside has been told of checkpoints.
anchors = Table(
    "assent_anchors",
    metadata,
    Column("place", Text, primary_key=True),
    number("number"),
    number("at"),
    number("attempts"),
    number("next_at", null=True),
    text("error", null=True),
    sqlite_with_rowid=False,
)
