"""Chains of administrative events, and the epochs that restores begin"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

# Table, trigger name, refused action, and error message.
REFUSED = (
    ("admin_events", "unchanged", "UPDATE", "an administrative event never changes"),
    ("admin_events", "kept", "DELETE", "no administrative event is ever removed"),
    ("admin_chains", "kept", "DELETE", "no chain of administrative events is ever removed"),
    ("epochs", "unchanged", "UPDATE", "an epoch never changes"),
    ("epochs", "kept", "DELETE", "no epoch is ever removed"),
)


def upgrade() -> None:
    op.create_table(
        "assent_admin_events",
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("previous", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("chain_id", "seq", name=op.f("pk_assent_admin_events")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_assent_admin_events_project", "assent_admin_events", ["project_id", "at", "chain_id", "seq"])
    op.create_table(
        "assent_admin_chains",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("head", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assent_admin_chains")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "assent_epochs",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_assent_epochs")),
        sqlite_with_rowid=False,
    )
    if op.get_bind().dialect.name == "sqlite":
        _triggers_sqlite()
    else:
        _triggers_postgresql()


def _triggers_sqlite() -> None:
    op.execute(
        "CREATE TRIGGER assent_admin_events_noted AFTER INSERT ON assent_admin_events BEGIN"
        " INSERT INTO assent_unsigned_events (subject_id, seq) VALUES (NEW.chain_id, NEW.seq); END"
    )
    for table, name, action, said in REFUSED:
        op.execute(
            f"CREATE TRIGGER assent_{table}_{name} BEFORE {action} ON assent_{table}"
            f" BEGIN SELECT RAISE(ABORT, '{said}'); END"
        )


def _triggers_postgresql() -> None:
    op.execute(
        "CREATE FUNCTION assent_admin_events_noted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO assent_unsigned_events (subject_id, seq) VALUES (NEW.chain_id, NEW.seq);"
        " RETURN NULL; END $$"
    )
    op.execute(
        "CREATE TRIGGER assent_admin_events_noted AFTER INSERT ON assent_admin_events FOR EACH ROW"
        " EXECUTE FUNCTION assent_admin_events_noted()"
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
