"""The log of all events, and signed checkpoints over it"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

KEY = "version, key_id, origin, public_key, created_at, created_by"
# Table, trigger name, refused action, and error message.
REFUSED = (
    ("leaves", "unchanged", "UPDATE", "the log never changes"),
    ("leaves", "kept", "DELETE", "nothing of the log is ever removed"),
    ("nodes", "unchanged", "UPDATE", "the log never changes"),
    ("nodes", "kept", "DELETE", "nothing of the log is ever removed"),
    ("checkpoints", "unchanged", "UPDATE", "a checkpoint never changes"),
    ("checkpoints", "kept", "DELETE", "no checkpoint is ever removed"),
    ("checkpoint_keys", "fixed", f"UPDATE OF {KEY}", "a key stays what it is"),
    ("checkpoint_keys", "kept", "DELETE", "no key is ever removed"),
)
# The tables of events, with the column that identifies the subject of an event.
NOTED = {"events": "breakpoint_id", "rule_events": "rule_id"}


def upgrade() -> None:
    op.create_table(
        "assent_unsigned_events",
        sa.Column("subject_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("subject_id", "seq", name=op.f("pk_assent_unsigned_events")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "assent_leaves",
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("subject_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("position", name=op.f("pk_assent_leaves")),
        sa.UniqueConstraint("subject_id", "seq", name=op.f("uq_assent_leaves_subject_id_seq")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "assent_nodes",
        sa.Column("level", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("n", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("level", "n", name=op.f("pk_assent_nodes")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "assent_checkpoints",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("root", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_assent_checkpoints")),
        sa.UniqueConstraint("size", name=op.f("uq_assent_checkpoints_size")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "assent_checkpoint_keys",
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("retired_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_assent_checkpoint_keys")),
        sa.UniqueConstraint("key_id", name=op.f("uq_assent_checkpoint_keys_key_id")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "assent_anchors",
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("place", name=op.f("pk_assent_anchors")),
        sqlite_with_rowid=False,
    )
    # Create the triggers first: they record what older nodes write from now on, and the statements below what exists.
    if op.get_bind().dialect.name == "sqlite":
        _triggers_sqlite()
    else:
        _triggers_postgresql()
    for table, subject in NOTED.items():
        op.execute(
            f"INSERT INTO assent_unsigned_events (subject_id, seq) SELECT {subject}, seq FROM assent_{table} WHERE true"
            " ON CONFLICT DO NOTHING"
        )


def _triggers_sqlite() -> None:
    for table, subject in NOTED.items():
        op.execute(
            f"CREATE TRIGGER assent_{table}_noted AFTER INSERT ON assent_{table} BEGIN"
            f" INSERT INTO assent_unsigned_events (subject_id, seq) VALUES (NEW.{subject}, NEW.seq); END"
        )
    for table, name, action, said in REFUSED:
        op.execute(
            f"CREATE TRIGGER assent_{table}_{name} BEFORE {action} ON assent_{table}"
            f" BEGIN SELECT RAISE(ABORT, '{said}'); END"
        )


def _triggers_postgresql() -> None:
    for table, subject in NOTED.items():
        op.execute(
            f"CREATE FUNCTION assent_{table}_noted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" INSERT INTO assent_unsigned_events (subject_id, seq) VALUES (NEW.{subject}, NEW.seq);"
            " RETURN NULL; END $$"
        )
        # Waits for transactions that write events, and makes new ones wait, so that no event remains unrecorded.
        op.execute(
            f"CREATE TRIGGER assent_{table}_noted AFTER INSERT ON assent_{table} FOR EACH ROW"
            f" EXECUTE FUNCTION assent_{table}_noted()"
        )
    for table, name, action, said in REFUSED:
        op.execute(
            f"CREATE TRIGGER assent_{table}_{name} BEFORE {action} ON assent_{table} FOR EACH ROW"
            f" EXECUTE FUNCTION assent_refuse('{said}')"
        )
    for table in dict.fromkeys(each[0] for each in REFUSED):
        op.execute(
            f"CREATE TRIGGER assent_{table}_emptied BEFORE TRUNCATE ON assent_{table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION assent_refuse('nothing here is ever removed')"
        )
