"""Admin events, the log of all events, and the signed checkpoints over it."""

from sqlalchemy import BigInteger, Column, Index, Table, Text, UniqueConstraint

from assent.db.tables.base import metadata, number, text

# Admin events: one chain per project, one for the installation, and one for each used receipt.
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

# The head of each chain of admin events; the row is locked by the transaction that appends to the chain.
admin_chains = Table(
    "assent_admin_chains",
    metadata,
    Column("id", Text, primary_key=True),
    number("version"),
    text("head"),
    sqlite_with_rowid=False,
)

# Each restore of a backup begins an epoch: receipts, sessions and held answers from earlier epochs are invalid.
epochs = Table(
    "assent_epochs",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    number("at"),
    text("reason"),
    sqlite_with_rowid=False,
)

# Events that no checkpoint covers yet. A trigger inserts the row with the event, so that late commits are not missed.
unsigned_events = Table(
    "assent_unsigned_events",
    metadata,
    Column("subject_id", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

# The log: every event, in the order in which checkpoints included them.
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

# Hashes of complete subtrees at every eighth level, from which the levels in between are computed.
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

# The public keys that verify checkpoints; the signing keys are stored secrets.
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

# The last checkpoint that each external destination has received.
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
