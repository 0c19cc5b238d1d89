"""Sources of events, triggers, and the results of each event."""

import sqlalchemy as sa
from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Table, Text

from assent.db.tables.base import metadata, number, text


def _partly(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    return Index(name, *columns, unique=unique, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


sources = Table(
    "assent_sources",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), nullable=False),
    text("name"),
    text("kind"),
    text("settings"),
    number("enabled"),
    # `file` if it is defined in assent.yaml, otherwise `api`.
    text("origin"),
    text("created_by"),
    number("created_at"),
    text("updated_by"),
    number("updated_at"),
    number("removed_at", null=True),
    number("heard_at", null=True),
    number("refused_at", null=True),
    number("refused"),
    text("last_refusal", null=True),
    # The reason why a local source cannot watch for changes.
    text("problem", null=True),
    # The state that a local source needs after a restart, such as the files it has seen.
    text("memory", null=True),
    # When a schedule fires next.
    number("next_at", null=True),
    # When to alert about silence, for a source that should receive events regularly.
    number("silent_at", null=True),
    text("alarm_id", null=True),
    _partly("uq_assent_sources_name", "project_id", "name", where="removed_at IS NULL", unique=True),
    _partly("ix_assent_sources_next_at", "next_at", where="next_at IS NOT NULL"),
    _partly("ix_assent_sources_silent_at", "silent_at", where="silent_at IS NOT NULL"),
)

triggers = Table(
    "assent_triggers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), nullable=False),
    text("name"),
    # The definition as written; whether it is enabled is stored in `state`.
    text("content"),
    text("state"),
    # Why the trigger is suspended, as written by the circuit breaker or a person.
    text("because", null=True),
    number("version"),
    text("origin"),
    text("created_by"),
    number("created_at"),
    text("updated_by"),
    number("updated_at"),
    number("removed_at", null=True),
    number("fired_at", null=True),
    # The breakpoint that asks whether the trigger may continue.
    text("alarm_id", null=True),
    CheckConstraint("state IN ('enabled','suspended','disabled')", name="state"),
    _partly("uq_assent_triggers_name", "project_id", "name", where="removed_at IS NULL", unique=True),
)

trigger_events = Table(
    "assent_trigger_events",
    metadata,
    Column("id", Text, primary_key=True),
    text("project_id"),
    Column("source_id", Text, ForeignKey("assent_sources.id"), nullable=False),
    text("source"),
    text("type"),
    text("subject", null=True),
    text("dedup_key"),
    text("delivery_id", null=True),
    text("replay_of", null=True),
    # The only trigger to match a replayed event against, if a trigger was specified.
    text("replay_for", null=True),
    text("verified"),
    text("trust"),
    text("headers"),
    text("view"),
    text("data"),
    text("mark", null=True),
    text("causation_id", null=True),
    text("correlation_id"),
    number("depth"),
    text("state"),
    number("duplicates"),
    number("occurred_at", null=True),
    number("received_at"),
    number("handled_at", null=True),
    number("attempts"),
    number("next_at", null=True),
    text("error", null=True),
    text("trace", null=True),
    CheckConstraint("state IN ('received','matched','unmatched','failed')", name="state"),
    _partly("uq_assent_trigger_events_key", "source_id", "dedup_key", where="replay_of IS NULL", unique=True),
    _partly("ix_assent_trigger_events_chain", "correlation_id", where="causation_id IS NOT NULL"),
    Index("ix_assent_trigger_events_listed", "project_id", "id"),
    Index("ix_assent_trigger_events_state", "project_id", "state", "id"),
    Index("ix_assent_trigger_events_old", "received_at"),
    _partly("ix_assent_trigger_events_due", "next_at", where="next_at IS NOT NULL"),
)

# One event that matched a trigger and is to start a run.
firings = Table(
    "assent_firings",
    metadata,
    Column("id", Text, primary_key=True),
    text("project_id"),
    Column("event_id", Text, ForeignKey("assent_trigger_events.id"), nullable=False),
    Column("trigger_id", Text, ForeignKey("assent_triggers.id"), nullable=False),
    text("trigger_name"),
    number("trigger_version"),
    text("state"),
    text("because", null=True),
    text("once_key", null=True),
    text("debounce_key", null=True),
    text("room_key", null=True),
    number("first_at"),
    # The IDs of earlier events that were merged into the firing, as JSON.
    text("gathered"),
    # The number of merged events that are not listed.
    number("beyond"),
    # The maximum depth of the firing's events, and whether any of them requires approval by a person.
    number("depth"),
    number("asks"),
    # A digest of the breakpoint's question.
    text("asked", null=True),
    text("breakpoint_id", null=True),
    text("run_id", null=True),
    number("attempts"),
    number("next_at", null=True),
    text("error", null=True),
    number("created_at"),
    number("updated_at"),
    CheckConstraint("state IN ('held','started','skipped','dead')", name="state"),
    CheckConstraint("(state = 'started') = (run_id IS NOT NULL)", name="started_has_a_run"),
    Index("ix_assent_firings_event", "event_id"),
    Index("ix_assent_firings_trigger", "trigger_id", "id"),
    Index("ix_assent_firings_state", "project_id", "state", "id"),
    _partly("uq_assent_firings_once", "trigger_id", "once_key", where="once_key IS NOT NULL", unique=True),
    _partly("ix_assent_firings_due", "next_at", where="next_at IS NOT NULL"),
    _partly("ix_assent_firings_held", "because", "trigger_id", "id", where="state = 'held'"),
    _partly("ix_assent_firings_run", "run_id", where="run_id IS NOT NULL"),
)

# Files outside its own folder that a run declares to write: changes to them are attributed to the run.
run_outputs = Table(
    "assent_run_outputs",
    metadata,
    Column("path", Text, primary_key=True),
    Column("run_id", Text, ForeignKey("assent_runs.id"), nullable=False),
    number("at"),
    sqlite_with_rowid=False,
)
