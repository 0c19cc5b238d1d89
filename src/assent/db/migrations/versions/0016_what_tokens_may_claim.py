"""Processes and agents of tokens, and the key for counting consecutive approvals"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

APPROVED = "decision = 'approved' AND ended_by NOT LIKE 'rule:%' AND ended_by NOT LIKE 'person:%/%'"
REJECTED = "decision = 'rejected' AND ended_by NOT LIKE 'rule:%'"
FIXED = "counts_as, agent_id_claimed"
REFUSAL = "the content of a breakpoint never changes"


def upgrade() -> None:
    # During a rolling update, older nodes create tokens without any processes.
    op.add_column("assent_tokens", sa.Column("processes", sa.Text(), nullable=False, server_default="[]"))
    op.add_column("assent_tokens", sa.Column("agent", sa.Text(), nullable=True))
    op.execute("""UPDATE assent_tokens SET processes = '["*"]' WHERE kind <> 'agent' OR gates = '["*"]'""")
    op.add_column("assent_breakpoints", sa.Column("counts_as", sa.Text(), nullable=True))
    op.add_column(
        "assent_breakpoints", sa.Column("agent_id_claimed", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.create_index(
        "ix_assent_breakpoints_counted",
        "assent_breakpoints",
        ["project_id", "gate", "agent_id", "created_by_id", "counts_as", "ended_at"],
        sqlite_where=sa.text(APPROVED),
        postgresql_where=sa.text(APPROVED),
    )
    op.create_index(
        "ix_assent_breakpoints_rejected",
        "assent_breakpoints",
        ["project_id", "gate", "agent_id", "created_by_id", "ended_at"],
        sqlite_where=sa.text(REJECTED),
        postgresql_where=sa.text(REJECTED),
    )
    if op.get_bind().dialect.name == "sqlite":
        op.execute(
            f"CREATE TRIGGER assent_breakpoints_counted BEFORE UPDATE OF {FIXED} ON assent_breakpoints"
            f" BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        )
    else:
        op.execute(
            f"CREATE TRIGGER assent_breakpoints_counted BEFORE UPDATE OF {FIXED} ON assent_breakpoints FOR EACH ROW"
            f" EXECUTE FUNCTION assent_refuse('{REFUSAL}')"
        )
