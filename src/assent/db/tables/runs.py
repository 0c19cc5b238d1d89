"""Runs, their steps, journals and files."""

import sqlalchemy as sa
from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, Table, Text

from assent.db.tables.base import metadata, number, text

# A durable execution of a process. `turn` counts worker claims: only the latest claimant may write.
runs = Table(
    "assent_runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), nullable=False),
    text("process"),
    text("version"),
    text("state"),
    text("inputs"),
    text("output", null=True),
    text("error", null=True),
    text("agent_id"),
    text("started_by"),
    text("started_by_id"),
    text("principal"),
    number("turn"),
    number("starts"),
    number("lines"),
    number("created_at"),
    number("updated_at"),
    number("ended_at", null=True),
    number("due_at", null=True),
    # The event that started the run, if any, and the number of runs between the original external event and this run.
    text("event_id", null=True),
    text("trigger_name", null=True),
    Column("depth", BigInteger, nullable=False, server_default="0"),
    CheckConstraint("state IN ('queued','running','suspended','done','failed','cancelled')", name="state"),
    Index("ix_assent_runs_listed", "project_id", "id"),
    Index("ix_assent_runs_state", "project_id", "state", "id"),
    Index(
        "ix_assent_runs_event",
        "event_id",
        sqlite_where=sa.text("event_id IS NOT NULL"),
        postgresql_where=sa.text("event_id IS NOT NULL"),
    ),
    Index(
        "ix_assent_runs_trigger",
        "project_id",
        "trigger_name",
        "id",
        sqlite_where=sa.text("trigger_name IS NOT NULL"),
        postgresql_where=sa.text("trigger_name IS NOT NULL"),
    ),
    Index(
        "ix_assent_runs_due",
        "due_at",
        sqlite_where=sa.text("due_at IS NOT NULL"),
        postgresql_where=sa.text("due_at IS NOT NULL"),
    ),
)

run_steps = Table(
    "assent_run_steps",
    metadata,
    Column("run_id", Text, ForeignKey("assent_runs.id"), primary_key=True),
    Column("path", Text, primary_key=True),
    text("kind"),
    text("name"),
    text("fingerprint", null=True),
    text("state"),
    number("attempts"),
    text("breakpoint_id", null=True),
    number("due_at", null=True),
    number("heard", null=True),
    text("outcome", null=True),
    text("error", null=True),
    number("started_at"),
    number("ended_at", null=True),
    CheckConstraint("state IN ('running','retrying','waiting','answered','done','failed')", name="state"),
    Index(
        "ix_assent_run_steps_breakpoint",
        "breakpoint_id",
        sqlite_where=sa.text("breakpoint_id IS NOT NULL"),
        postgresql_where=sa.text("breakpoint_id IS NOT NULL"),
    ),
    Index(
        "ix_assent_run_steps_due",
        "due_at",
        sqlite_where=sa.text("due_at IS NOT NULL"),
        postgresql_where=sa.text("due_at IS NOT NULL"),
    ),
    sqlite_with_rowid=False,
)

run_journal = Table(
    "assent_run_journal",
    metadata,
    Column("run_id", Text, ForeignKey("assent_runs.id"), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    number("at"),
    text("type"),
    text("path", null=True),
    text("data"),
    sqlite_with_rowid=False,
)

run_files = Table(
    "assent_run_files",
    metadata,
    Column("run_id", Text, ForeignKey("assent_runs.id"), primary_key=True),
    Column("path", Text, primary_key=True),
    text("sha256"),
    number("size"),
    number("at"),
    Index("ix_assent_run_files_sha256", "sha256"),
    sqlite_with_rowid=False,
)
