"""Sources, their events, triggers, and the results of each event"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "assent_sources",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("enabled", sa.BigInteger(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_by", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("removed_at", sa.BigInteger(), nullable=True),
        sa.Column("heard_at", sa.BigInteger(), nullable=True),
        sa.Column("refused_at", sa.BigInteger(), nullable=True),
        sa.Column("refused", sa.BigInteger(), nullable=False),
        sa.Column("last_refusal", sa.Text(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("memory", sa.Text(), nullable=True),
        sa.Column("next_at", sa.BigInteger(), nullable=True),
        sa.Column("silent_at", sa.BigInteger(), nullable=True),
        sa.Column("alarm_id", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["assent_projects.id"], name=op.f("fk_assent_sources_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assent_sources")),
    )
    op.create_index(
        "uq_assent_sources_name",
        "assent_sources",
        ["project_id", "name"],
        unique=True,
        sqlite_where=sa.text("removed_at IS NULL"),
        postgresql_where=sa.text("removed_at IS NULL"),
    )
    for column in ("next_at", "silent_at"):
        op.create_index(
            f"ix_assent_sources_{column}",
            "assent_sources",
            [column],
            sqlite_where=sa.text(f"{column} IS NOT NULL"),
            postgresql_where=sa.text(f"{column} IS NOT NULL"),
        )
    op.create_table(
        "assent_triggers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("because", sa.Text(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_by", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("removed_at", sa.BigInteger(), nullable=True),
        sa.Column("fired_at", sa.BigInteger(), nullable=True),
        sa.Column("alarm_id", sa.Text(), nullable=True),
        sa.CheckConstraint("state IN ('enabled','suspended','disabled')", name=op.f("ck_assent_triggers_state")),
        sa.ForeignKeyConstraint(["project_id"], ["assent_projects.id"], name=op.f("fk_assent_triggers_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assent_triggers")),
    )
    op.create_index(
        "uq_assent_triggers_name",
        "assent_triggers",
        ["project_id", "name"],
        unique=True,
        sqlite_where=sa.text("removed_at IS NULL"),
        postgresql_where=sa.text("removed_at IS NULL"),
    )
    op.create_table(
        "assent_trigger_events",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("dedup_key", sa.Text(), nullable=False),
        sa.Column("delivery_id", sa.Text(), nullable=True),
        sa.Column("replay_of", sa.Text(), nullable=True),
        sa.Column("replay_for", sa.Text(), nullable=True),
        sa.Column("verified", sa.Text(), nullable=False),
        sa.Column("trust", sa.Text(), nullable=False),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("view", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("mark", sa.Text(), nullable=True),
        sa.Column("causation_id", sa.Text(), nullable=True),
        sa.Column("correlation_id", sa.Text(), nullable=False),
        sa.Column("depth", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("duplicates", sa.BigInteger(), nullable=False),
        sa.Column("occurred_at", sa.BigInteger(), nullable=True),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("handled_at", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("trace", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state IN ('received','matched','unmatched','failed')", name=op.f("ck_assent_trigger_events_state")
        ),
        sa.ForeignKeyConstraint(["source_id"], ["assent_sources.id"], name=op.f("fk_assent_trigger_events_source_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assent_trigger_events")),
    )
    op.create_index(
        "uq_assent_trigger_events_key",
        "assent_trigger_events",
        ["source_id", "dedup_key"],
        unique=True,
        sqlite_where=sa.text("replay_of IS NULL"),
        postgresql_where=sa.text("replay_of IS NULL"),
    )
    op.create_index(
        "ix_assent_trigger_events_chain",
        "assent_trigger_events",
        ["correlation_id"],
        sqlite_where=sa.text("causation_id IS NOT NULL"),
        postgresql_where=sa.text("causation_id IS NOT NULL"),
    )
    op.create_index("ix_assent_trigger_events_listed", "assent_trigger_events", ["project_id", "id"])
    op.create_index("ix_assent_trigger_events_state", "assent_trigger_events", ["project_id", "state", "id"])
    op.create_index("ix_assent_trigger_events_old", "assent_trigger_events", ["received_at"])
    op.create_index(
        "ix_assent_trigger_events_due",
        "assent_trigger_events",
        ["next_at"],
        sqlite_where=sa.text("next_at IS NOT NULL"),
        postgresql_where=sa.text("next_at IS NOT NULL"),
    )
    op.create_table(
        "assent_firings",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("trigger_id", sa.Text(), nullable=False),
        sa.Column("trigger_name", sa.Text(), nullable=False),
        sa.Column("trigger_version", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("because", sa.Text(), nullable=True),
        sa.Column("once_key", sa.Text(), nullable=True),
        sa.Column("debounce_key", sa.Text(), nullable=True),
        sa.Column("room_key", sa.Text(), nullable=True),
        sa.Column("first_at", sa.BigInteger(), nullable=False),
        sa.Column("gathered", sa.Text(), nullable=False),
        sa.Column("beyond", sa.BigInteger(), nullable=False),
        sa.Column("depth", sa.BigInteger(), nullable=False),
        sa.Column("asks", sa.BigInteger(), nullable=False),
        sa.Column("asked", sa.Text(), nullable=True),
        sa.Column("breakpoint_id", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("state IN ('held','started','skipped','dead')", name=op.f("ck_assent_firings_state")),
        sa.CheckConstraint(
            "(state = 'started') = (run_id IS NOT NULL)", name=op.f("ck_assent_firings_started_has_a_run")
        ),
        sa.ForeignKeyConstraint(["event_id"], ["assent_trigger_events.id"], name=op.f("fk_assent_firings_event_id")),
        sa.ForeignKeyConstraint(["trigger_id"], ["assent_triggers.id"], name=op.f("fk_assent_firings_trigger_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assent_firings")),
    )
    op.create_index("ix_assent_firings_event", "assent_firings", ["event_id"])
    op.create_index("ix_assent_firings_trigger", "assent_firings", ["trigger_id", "id"])
    op.create_index("ix_assent_firings_state", "assent_firings", ["project_id", "state", "id"])
    op.create_index(
        "uq_assent_firings_once",
        "assent_firings",
        ["trigger_id", "once_key"],
        unique=True,
        sqlite_where=sa.text("once_key IS NOT NULL"),
        postgresql_where=sa.text("once_key IS NOT NULL"),
    )
    op.create_index(
        "ix_assent_firings_due",
        "assent_firings",
        ["next_at"],
        sqlite_where=sa.text("next_at IS NOT NULL"),
        postgresql_where=sa.text("next_at IS NOT NULL"),
    )
    op.create_index(
        "ix_assent_firings_held",
        "assent_firings",
        ["because", "trigger_id", "id"],
        sqlite_where=sa.text("state = 'held'"),
        postgresql_where=sa.text("state = 'held'"),
    )
    op.create_index(
        "ix_assent_firings_run",
        "assent_firings",
        ["run_id"],
        sqlite_where=sa.text("run_id IS NOT NULL"),
        postgresql_where=sa.text("run_id IS NOT NULL"),
    )
    op.create_table(
        "assent_run_outputs",
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["assent_runs.id"], name=op.f("fk_assent_run_outputs_run_id")),
        sa.PrimaryKeyConstraint("path", name=op.f("pk_assent_run_outputs")),
        sqlite_with_rowid=False,
    )
    op.add_column("assent_runs", sa.Column("event_id", sa.Text(), nullable=True))
    op.add_column("assent_runs", sa.Column("trigger_name", sa.Text(), nullable=True))
    op.add_column("assent_runs", sa.Column("depth", sa.BigInteger(), nullable=False, server_default="0"))
    op.create_index(
        "ix_assent_runs_event",
        "assent_runs",
        ["event_id"],
        sqlite_where=sa.text("event_id IS NOT NULL"),
        postgresql_where=sa.text("event_id IS NOT NULL"),
    )
    op.create_index(
        "ix_assent_runs_trigger",
        "assent_runs",
        ["project_id", "trigger_name", "id"],
        sqlite_where=sa.text("trigger_name IS NOT NULL"),
        postgresql_where=sa.text("trigger_name IS NOT NULL"),
    )
