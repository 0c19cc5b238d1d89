"""Breakpoints, and everything that people say and decide about them."""

import sqlalchemy as sa
from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, Integer, LargeBinary, Table, Text

from assent.db.tables.base import metadata, number, text

_COUNTED = "decision = 'approved' AND ended_by NOT LIKE 'rule:%' AND ended_by NOT LIKE 'person:%/%'"
_REJECTED = "decision = 'rejected' AND ended_by NOT LIKE 'rule:%'"

# In SQLite, an INTEGER PRIMARY KEY is the rowid, which the full-text index refers to.
_Ordinal = BigInteger().with_variant(Integer, "sqlite")

breakpoints = Table(
    "assent_breakpoints",
    metadata,
    Column("ordinal", _Ordinal, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), nullable=False),
    text("status"),
    text("decision", null=True),
    text("agent_id"),
    text("run_id", null=True),
    text("title", null=True),
    text("question", null=True),
    text("gate"),
    text("payload"),
    text("tags"),
    text("seats"),
    text("strategy"),
    text("risk", null=True),
    text("priority"),
    number("attempt", null=True),
    text("on_timeout"),
    number("ttl_seconds", null=True),
    text("callback_url", null=True),
    text("digest"),
    number("created_at"),
    text("created_by"),
    text("created_by_id"),
    number("due_at"),
    text("auto_approval"),
    text("warnings"),
    number("updated_at"),
    number("ended_at", null=True),
    text("ended_by", null=True),
    text("result", null=True),
    number("version"),
    text("head"),
    number("comments"),
    number("votes"),
    # Search words in rows that older versions wrote; "" in newer rows, see breakpoint_words.
    text("search"),
    number("purged_at", null=True),
    # Approvals of the same gate and agent are counted together if this value is equal.
    text("counts_as", null=True),
    # 1 if the agent ID is an unverified claim by the agent.
    Column("agent_id_claimed", BigInteger, nullable=False, server_default="0"),
    CheckConstraint("status IN ('waiting','released','expired','cancelled')", name="status"),
    CheckConstraint("(status = 'released') = (decision IS NOT NULL)", name="decision"),
    CheckConstraint("decision IN ('approved','rejected')", name="decision_word"),
    CheckConstraint("(status = 'waiting') = (ended_by IS NULL)", name="ended"),
    # Fail closed in the database too: only a person or a rule can approve, and no one can approve their own breakpoint.
    CheckConstraint(
        "decision IS NULL OR decision <> 'approved' OR ended_by LIKE 'person:%' OR ended_by LIKE 'rule:%'",
        name="approver",
    ),
    CheckConstraint("decision IS NULL OR ended_by NOT LIKE 'agent:%'", name="no_agent_decides"),
    CheckConstraint("decision IS NULL OR ended_by <> created_by", name="not_own"),
    Index("ix_assent_breakpoints_status_created", "project_id", "status", "created_at", "id"),
    Index("ix_assent_breakpoints_agent", "project_id", "agent_id", "status", "created_at", "id"),
    Index("ix_assent_breakpoints_status_due", "project_id", "status", "due_at", "id"),
    Index("ix_assent_breakpoints_status_updated", "project_id", "status", "updated_at", "id"),
    Index("ix_assent_breakpoints_gate", "project_id", "gate", "status", "created_at", "id"),
    Index(
        "ix_assent_breakpoints_run",
        "project_id",
        "run_id",
        "created_at",
        "id",
        sqlite_where=sa.text("run_id IS NOT NULL"),
        postgresql_where=sa.text("run_id IS NOT NULL"),
    ),
    Index(
        "ix_assent_breakpoints_waiting_due",
        "due_at",
        sqlite_where=sa.text("status = 'waiting'"),
        postgresql_where=sa.text("status = 'waiting'"),
        # Lets search find pending breakpoints without reading their rows.
        postgresql_include=["project_id", "ordinal"],
    ),
    # Breakpoints that can be purged, the earliest ended first.
    Index(
        "ix_assent_breakpoints_unpurged",
        "project_id",
        "ended_at",
        sqlite_where=sa.text("ended_at IS NOT NULL AND purged_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NOT NULL AND purged_at IS NULL"),
    ),
    # Consecutive approvals by people; decisions by rules do not count.
    Index(
        "ix_assent_breakpoints_streak",
        "project_id",
        "gate",
        "agent_id",
        "ended_at",
        "decision",
        "ended_by",
        sqlite_where=sa.text("decision IS NOT NULL AND ended_by NOT LIKE 'rule:%'"),
        postgresql_where=sa.text("decision IS NOT NULL AND ended_by NOT LIKE 'rule:%'"),
    ),
    # For autoApproveAfterN: approvals that are counted together, and the rejection that ended the previous series.
    Index(
        "ix_assent_breakpoints_counted",
        "project_id",
        "gate",
        "agent_id",
        "created_by_id",
        "counts_as",
        "ended_at",
        sqlite_where=sa.text(_COUNTED),
        postgresql_where=sa.text(_COUNTED),
    ),
    Index(
        "ix_assent_breakpoints_rejected",
        "project_id",
        "gate",
        "agent_id",
        "created_by_id",
        "ended_at",
        sqlite_where=sa.text(_REJECTED),
        postgresql_where=sa.text(_REJECTED),
    ),
)

# Tags ("t:…") and experts ("e:…") with the columns by which a page is filtered and sorted, so that the key suffices.
labels = Table(
    "assent_labels",
    metadata,
    Column("project_id", Text, primary_key=True),
    Column("label", Text, primary_key=True),
    Column("status", Text, primary_key=True),
    Column("created_at", BigInteger, primary_key=True),
    Column("id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    text("agent_id"),
    Index("ix_assent_labels_id", "id"),
    # For a frequent tag and an agent that never uses it. Without this index, every row with the tag would be read.
    Index("ix_assent_labels_agent", "project_id", "label", "agent_id", "status", "created_at", "id"),
    sqlite_with_rowid=False,
)

responses = Table(
    "assent_responses",
    metadata,
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    # A response belongs to a person: the foreign key prevents agents from deciding.
    Column("person_id", Text, ForeignKey("assent_people.id"), primary_key=True),
    text("person"),
    number("approved"),
    number("at"),
    number("first_at"),
    text("via"),
    text("comment", null=True),
    text("option", null=True),
    text("answers", null=True),
    text("edits", null=True),
    text("seat", null=True),
    text("in_place_of"),
    number("override"),
    text("digest", null=True),
    text("after_reset_by", null=True),
    sqlite_with_rowid=False,
)

# The words by which search finds a breakpoint, deleted on purging. Each database indexes them in its own way.
breakpoint_words = Table(
    "assent_breakpoint_words",
    metadata,
    Column("ordinal", _Ordinal, primary_key=True, autoincrement=False),
    text("words"),
)

comments = Table(
    "assent_comments",
    metadata,
    Column("id", Text, primary_key=True),
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), nullable=False),
    text("author"),
    text("comment"),
    number("created_at"),
    Index("ix_assent_comments_breakpoint", "breakpoint_id", "created_at", "id"),
)

events = Table(
    "assent_events",
    metadata,
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    text("type"),
    text("actor"),
    number("at"),
    text("metadata"),
    text("previous"),
    text("hash"),
    # The second safeguard of "decided once": one terminal event per breakpoint, regardless of the code.
    Index(
        "uq_assent_events_terminal",
        "breakpoint_id",
        unique=True,
        sqlite_where=sa.text("type IN ('released','expired','cancelled')"),
        postgresql_where=sa.text("type IN ('released','expired','cancelled')"),
    ),
    Index("ix_assent_events_at", "at", "breakpoint_id", "seq"),
    sqlite_with_rowid=False,
)

files = Table(
    "assent_files",
    metadata,
    Column("project_id", Text, ForeignKey("assent_projects.id"), primary_key=True),
    Column("sha256", Text, primary_key=True),
    number("size"),
    Column("content", LargeBinary, nullable=False),
    number("created_at"),
)

breakpoint_files = Table(
    "assent_breakpoint_files",
    metadata,
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    Column("n", BigInteger, primary_key=True, autoincrement=False),
    text("path"),
    text("format"),
    text("language", null=True),
    text("sha256", null=True),
    number("size", null=True),
    Index(
        "ix_assent_breakpoint_files_sha256",
        "sha256",
        sqlite_where=sa.text("sha256 IS NOT NULL"),
        postgresql_where=sa.text("sha256 IS NOT NULL"),
    ),
    sqlite_with_rowid=False,
)

# Legal holds, which prevent purging of one breakpoint or, without a breakpoint, of the whole project.
holds = Table(
    "assent_holds",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), nullable=False),
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), nullable=True),
    text("reason"),
    text("placed_by"),
    number("placed_at"),
    text("lifted_by", null=True),
    number("lifted_at", null=True),
    CheckConstraint("(lifted_by IS NULL) = (lifted_at IS NULL)", name="lifted"),
    Index(
        "ix_assent_holds_standing",
        "project_id",
        "breakpoint_id",
        sqlite_where=sa.text("lifted_at IS NULL"),
        postgresql_where=sa.text("lifted_at IS NULL"),
    ),
)

# An answer given on a page, until its undo window ends; reviewers see it, the agent does not.
held_answers = Table(
    "assent_held_answers",
    metadata,
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    Column("person_id", Text, ForeignKey("assent_people.id"), primary_key=True),
    text("project_id"),
    text("answer"),
    number("override"),
    text("via"),
    text("batch", null=True),
    number("due_at"),
    number("created_at"),
    Index("ix_assent_held_answers_due", "due_at"),
    Index("ix_assent_held_answers_person", "person_id", "batch"),
    sqlite_with_rowid=False,
)

# An answer that never took effect, shown to its person until they dismiss it.
unsent_answers = Table(
    "assent_unsent_answers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), nullable=False),
    Column("person_id", Text, ForeignKey("assent_people.id"), nullable=False),
    text("project_id"),
    number("approved"),
    text("comment", null=True),
    text("why"),
    number("at"),
    Index("ix_assent_unsent_answers_person", "person_id", "project_id", "id"),
    Index("ix_assent_unsent_answers_breakpoint", "breakpoint_id"),
    sqlite_with_rowid=False,
)

# The person who is handling a breakpoint; a claim neither grants nor restricts any permission.
claims = Table(
    "assent_claims",
    metadata,
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    text("project_id"),
    Column("person_id", Text, ForeignKey("assent_people.id"), nullable=False),
    text("by"),
    number("at"),
    sqlite_with_rowid=False,
)

snoozes = Table(
    "assent_snoozes",
    metadata,
    Column("person_id", Text, ForeignKey("assent_people.id"), primary_key=True),
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    number("until"),
    Index("ix_assent_snoozes_breakpoint", "breakpoint_id"),
    sqlite_with_rowid=False,
)

absent_agents = Table(
    "assent_absent_agents",
    metadata,
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    text("project_id"),
    number("since"),
    sqlite_with_rowid=False,
)

# Saved views: the query string of an inbox URL.
views = Table(
    "assent_views",
    metadata,
    Column("person_id", Text, ForeignKey("assent_people.id"), primary_key=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    text("query"),
    number("at"),
    sqlite_with_rowid=False,
)

idempotency = Table(
    "assent_idempotency",
    metadata,
    Column("principal_id", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    text("fingerprint"),
    text("breakpoint_id"),
    number("created_at"),
    Index("ix_assent_idempotency_created", "created_at"),
    sqlite_with_rowid=False,
)
