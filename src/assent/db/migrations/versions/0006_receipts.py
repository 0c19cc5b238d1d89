"""Public keys of receipts, and used receipts"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

FIXED = "project_id, version, key_id, public_key, created_at, created_by"
NOT_APPROVED = """
    NOT EXISTS (SELECT 1 FROM assent_breakpoints b WHERE b.id = NEW.breakpoint_id AND b.decision = 'approved')"""

# Table, trigger name, action, condition under which it is refused, and error message.
REFUSED = (
    ("receipt_keys", "fixed", f"UPDATE OF {FIXED}", "", "a key stays what it is"),
    ("receipt_keys", "revoked", "UPDATE", "OLD.revoked_at IS NOT NULL", "a revoked key never changes"),
    ("receipt_keys", "kept", "DELETE", "", "no key is ever removed"),
    ("receipt_uses", "unchanged", "UPDATE", "", "what was used stays used"),
    ("receipt_uses", "kept", "DELETE", "", "what was used stays used"),
)
UNAPPROVED = "only an approval has a receipt"


def upgrade() -> None:
    op.create_table(
        "assent_receipt_keys",
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("retired_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("revoked_at IS NULL OR retired_at IS NOT NULL", name=op.f("ck_assent_receipt_keys_revoked")),
        sa.ForeignKeyConstraint(["project_id"], ["assent_projects.id"], name=op.f("fk_assent_receipt_keys_project_id")),
        sa.PrimaryKeyConstraint("project_id", "version", name=op.f("pk_assent_receipt_keys")),
        sa.UniqueConstraint("key_id", name=op.f("uq_assent_receipt_keys_key_id")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "assent_receipt_uses",
        sa.Column("breakpoint_id", sa.Text(), nullable=False),
        sa.Column("nonce", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=False),
        sa.Column("used_by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["breakpoint_id"], ["assent_breakpoints.id"], name=op.f("fk_assent_receipt_uses_breakpoint_id")
        ),
        sa.PrimaryKeyConstraint("breakpoint_id", name=op.f("pk_assent_receipt_uses")),
        sa.UniqueConstraint("nonce", name=op.f("uq_assent_receipt_uses_nonce")),
        sqlite_with_rowid=False,
    )
    if op.get_bind().dialect.name == "sqlite":
        _lock_sqlite()
    else:
        _lock_postgresql()


def _lock_sqlite() -> None:
    approved = ("receipt_uses", "approved", "INSERT", NOT_APPROVED, UNAPPROVED)
    for table, name, action, test, said in (approved, *REFUSED):
        op.execute(
            f"CREATE TRIGGER assent_{table}_{name} BEFORE {action} ON assent_{table}"
            f" {f'WHEN {test}' if test else ''} BEGIN SELECT RAISE(ABORT, '{said}'); END"
        )


def _lock_postgresql() -> None:
    for table, name, action, test, said in REFUSED:
        op.execute(
            f"CREATE TRIGGER assent_{table}_{name} BEFORE {action} ON assent_{table} FOR EACH ROW"
            f" {f'WHEN ({test})' if test else ''} EXECUTE FUNCTION assent_refuse('{said}')"
        )
    op.execute(
        f"CREATE FUNCTION assent_receipt_uses_approved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF {NOT_APPROVED} THEN"
        " RAISE EXCEPTION USING MESSAGE = TG_ARGV[0], ERRCODE = 'integrity_constraint_violation';"
        " END IF; RETURN NEW; END $$"
    )
    op.execute(
        "CREATE TRIGGER assent_receipt_uses_approved BEFORE INSERT ON assent_receipt_uses FOR EACH ROW"
        f" EXECUTE FUNCTION assent_receipt_uses_approved('{UNAPPROVED}')"
    )
    for table in dict.fromkeys(each[0] for each in REFUSED):
        op.execute(
            f"CREATE TRIGGER assent_{table}_emptied BEFORE TRUNCATE ON assent_{table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION assent_refuse('nothing here is ever removed')"
        )
