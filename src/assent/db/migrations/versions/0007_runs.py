"""Runs with their steps, their journal and their files"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

# Table, trigger name, action, condition under which it is refused, and error message.
REFUSED = (
    ("runs", "ended", "UPDATE OF state, output", "OLD.state IN ('done','cancelled')", "what has ended stays so"),
    ("run_journal", "unchanged", "UPDATE", "", "the journal never changes"),
)  # fmt: skip


def upgrade() -> None:
    op.create_table(
        "assent_runs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("process", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("inputs", sa.Text(), nullable=False),
        sa.Column("output", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("started_by", sa.Text(), nullable=False),
        sa.Column("started_by_id", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.Column("starts", sa.BigInteger(), nullable=False),
        sa.Column("lines", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "state IN ('queued','running','suspended','done','failed','cancelled')", name=op.f("ck_assent_runs_state")
        ),
        sa.ForeignKeyConstraint(["project_id"], ["assent_projects.id"], name=op.f("fk_assent_runs_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assent_runs")),
    )
    op.create_index("ix_assent_runs_listed", "assent_runs", ["project_id", "id"])
    op.create_index("ix_assent_runs_state", "assent_runs", ["project_id", "state", "id"])
    op.create_index(
        "ix_assent_runs_due",
        "assent_runs",
        ["due_at"],
        sqlite_where=sa.text("due_at IS NOT NULL"),
        postgresql_where=sa.text("due_at IS NOT NULL"),
    )
    op.create_table(
        "assent_run_steps",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("breakpoint_id", sa.Text(), nullable=True),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("heard", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "state IN ('running','retrying','waiting','answered','done','failed')",
            name=op.f("ck_assent_run_steps_state"),
        ),
        sa.ForeignKeyConstraint(["run_id"], ["assent_runs.id"], name=op.f("fk_assent_run_steps_run_id")),
        sa.PrimaryKeyConstraint("run_id", "path", name=op.f("pk_assent_run_steps")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_assent_run_steps_breakpoint",
        "assent_run_steps",
        ["breakpoint_id"],
        sqlite_where=sa.text("breakpoint_id IS NOT NULL"),
        postgresql_where=sa.text("breakpoint_id IS NOT NULL"),
    )
    op.create_index(
        "ix_assent_run_steps_due",
        "assent_run_steps",
        ["due_at"],
        sqlite_where=sa.text("due_at IS NOT NULL"),
        postgresql_where=sa.text("due_at IS NOT NULL"),
    )
    op.create_table(
        "assent_run_journal",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=True),
        sa.Column("data", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["assent_runs.id"], name=op.f("fk_assent_run_journal_run_id")),
        sa.PrimaryKeyConstraint("run_id", "seq", name=op.f("pk_assent_run_journal")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "assent_run_files",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["assent_runs.id"], name=op.f("fk_assent_run_files_run_id")),
        sa.PrimaryKeyConstraint("run_id", "path", name=op.f("pk_assent_run_files")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_assent_run_files_sha256", "assent_run_files", ["sha256"])
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    for table, name, action, test, said in REFUSED:
        if on_sqlite:
            op.execute(
                f"CREATE TRIGGER assent_{table}_{name} BEFORE {action} ON assent_{table}"
                f" {f'WHEN {test}' if test else ''} BEGIN SELECT RAISE(ABORT, '{said}'); END"
            )
        else:
            op.execute(
                f"CREATE TRIGGER assent_{table}_{name} BEFORE {action} ON assent_{table} FOR EACH ROW"
                f" {f'WHEN ({test})' if test else ''} EXECUTE FUNCTION assent_refuse('{said}')"
            )
