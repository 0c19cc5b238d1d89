"""Rules with their change history, the results of shadow rules, and consecutive approvals by people"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

STREAK = "decision IS NOT NULL AND ended_by NOT LIKE 'rule:%'"

# Table, trigger name, action, condition under which it is refused, and error message.
REFUSED = (
    ("rules", "fixed", "UPDATE OF id, project_id, source, created_by, created_at", "", "a rule keeps its origin"),
    ("rules", "removed", "UPDATE", "OLD.removed_at IS NOT NULL", "a removed rule never changes"),
    ("rules", "kept", "DELETE", "", "no rule is ever erased"),
    ("rule_events", "unchanged", "UPDATE", "", "events never change"),
    ("rule_events", "kept", "DELETE", "", "no event is ever removed"),
    ("shadows", "unchanged", "UPDATE", "", "what a shadow rule said never changes"),
    ("shadows", "kept", "DELETE", "", "what a shadow rule said is never removed"),
)


def upgrade() -> None:
    op.add_column("assent_projects", sa.Column("rulebook", sa.BigInteger(), nullable=False, server_default="0"))
    op.create_table(
        "assent_rules",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("pattern", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("enabled", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("removed_at", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("head", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["assent_projects.id"], name=op.f("fk_assent_rules_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assent_rules")),
    )
    op.create_index("ix_assent_rules_project", "assent_rules", ["project_id", "place", "id"])
    op.create_table(
        "assent_rule_events",
        sa.Column("rule_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("previous", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["rule_id"], ["assent_rules.id"], name=op.f("fk_assent_rule_events_rule_id")),
        sa.PrimaryKeyConstraint("rule_id", "seq", name=op.f("pk_assent_rule_events")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "assent_shadows",
        sa.Column("rule_id", sa.Text(), nullable=False),
        sa.Column("breakpoint_id", sa.Text(), nullable=False),
        sa.Column("rule_version", sa.BigInteger(), nullable=False),
        sa.Column("recommended", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["rule_id"], ["assent_rules.id"], name=op.f("fk_assent_shadows_rule_id")),
        sa.ForeignKeyConstraint(
            ["breakpoint_id"], ["assent_breakpoints.id"], name=op.f("fk_assent_shadows_breakpoint_id")
        ),
        sa.PrimaryKeyConstraint("rule_id", "breakpoint_id", name=op.f("pk_assent_shadows")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_assent_breakpoints_streak",
        "assent_breakpoints",
        ["project_id", "gate", "agent_id", "ended_at", "decision", "ended_by"],
        sqlite_where=sa.text(STREAK),
        postgresql_where=sa.text(STREAK),
    )
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
    if not on_sqlite:
        for table in dict.fromkeys(each[0] for each in REFUSED):
            op.execute(
                f"CREATE TRIGGER assent_{table}_emptied BEFORE TRUNCATE ON assent_{table}"
                " FOR EACH STATEMENT EXECUTE FUNCTION assent_refuse('nothing here is ever removed')"
            )
