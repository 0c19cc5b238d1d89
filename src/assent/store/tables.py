"""Every table, once, for both databases; the migrations must add up to exactly this."""

import sqlalchemy as sa
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite makes an INTEGER PRIMARY KEY the row's own number, which full-text search points at.
_Ordinal = BigInteger().with_variant(Integer, "sqlite")


def _text(name: str, *, null: bool = False) -> Column[str]:
    return Column(name, Text, nullable=null)


def _number(name: str, *, null: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=null)


projects = Table(
    "assent_projects",
    metadata,
    Column("id", Text, primary_key=True),
    _text("name"),
    Column("owner_id", Text, ForeignKey("assent_people.id"), nullable=True),
    _text("policy"),
    _number("created_at"),
    # Counts every change of the rules and the policy: whoever keeps them read knows whether they still stand.
    Column("rulebook", BigInteger, nullable=False, server_default="0"),
)

people = Table(
    "assent_people",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    _text("display_name"),
    _text("email", null=True),
    _text("password_hash", null=True),
    _number("active"),
    _number("created_at"),
)

grants = Table(
    "assent_grants",
    metadata,
    Column("person_id", Text, ForeignKey("assent_people.id"), primary_key=True),
    Column("project_id", Text, primary_key=True),
    Column("role", Text, primary_key=True),
    CheckConstraint("role IN ('viewer','reviewer','rule-admin','auditor','admin')", name="role"),
)

groups = Table(
    "assent_groups",
    metadata,
    Column("project_id", Text, ForeignKey("assent_projects.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    _number("created_at"),
)

group_members = Table(
    "assent_group_members",
    metadata,
    Column("project_id", Text, primary_key=True),
    Column("group_name", Text, primary_key=True),
    Column("person_id", Text, ForeignKey("assent_people.id"), primary_key=True),
    sa.ForeignKeyConstraint(
        ["project_id", "group_name"],
        ["assent_groups.project_id", "assent_groups.name"],
        ondelete="CASCADE",
        name="fk_assent_group_members_group",
    ),
)

tokens = Table(
    "assent_tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), nullable=False),
    _text("kind"),
    _text("name"),
    Column("person_id", Text, ForeignKey("assent_people.id"), nullable=True),
    _text("roles"),
    _text("gates"),
    _text("agent_ids"),
    _number("creates_per_minute", null=True),
    Column("secret_hash", Text, nullable=False, unique=True),
    _number("created_at"),
    _text("created_by"),
    _number("expires_at", null=True),
    _number("last_used_at", null=True),
    _number("revoked_at", null=True),
    CheckConstraint("kind IN ('agent','person','service')", name="kind"),
    # An agent token can carry neither a person nor a role: nothing it holds could ever decide.
    CheckConstraint("(kind = 'person') = (person_id IS NOT NULL)", name="person"),
    CheckConstraint("kind = 'person' OR roles = '[]'", name="roles"),
)

sessions = Table(
    "assent_sessions",
    metadata,
    Column("id_hash", Text, primary_key=True),
    Column("person_id", Text, ForeignKey("assent_people.id"), nullable=False),
    _text("csrf"),
    _number("created_at"),
    _number("seen_at"),
    _number("expires_at"),
    _text("project_id", null=True),
    Index("ix_assent_sessions_person", "person_id"),
)

# Who a person is at an identity provider: its own name for them, never their e-mail address.
identities = Table(
    "assent_identities",
    metadata,
    Column("issuer", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("person_id", Text, ForeignKey("assent_people.id"), nullable=False),
    _number("linked_at"),
    _text("linked_by"),
    Index("ix_assent_identities_person", "person_id"),
    sqlite_with_rowid=False,
)

sign_in_links = Table(
    "assent_sign_in_links",
    metadata,
    Column("secret_hash", Text, primary_key=True),
    Column("person_id", Text, ForeignKey("assent_people.id"), nullable=False),
    _text("purpose"),
    _number("expires_at"),
    _number("used_at", null=True),
)

breakpoints = Table(
    "assent_breakpoints",
    metadata,
    Column("ordinal", _Ordinal, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), nullable=False),
    _text("status"),
    _text("decision", null=True),
    _text("agent_id"),
    _text("run_id", null=True),
    _text("title", null=True),
    _text("question", null=True),
    _text("gate"),
    _text("payload"),
    _text("tags"),
    _text("seats"),
    _text("strategy"),
    _text("risk", null=True),
    _text("priority"),
    _number("attempt", null=True),
    _text("on_timeout"),
    _number("ttl_seconds", null=True),
    _text("callback_url", null=True),
    _text("digest"),
    _number("created_at"),
    _text("created_by"),
    _text("created_by_id"),
    _number("due_at"),
    _text("auto_approval"),
    _text("warnings"),
    _number("updated_at"),
    _number("ended_at", null=True),
    _text("ended_by", null=True),
    _text("result", null=True),
    _number("version"),
    _text("head"),
    _number("comments"),
    _number("votes"),
    _text("search"),
    _number("purged_at", null=True),
    CheckConstraint("status IN ('waiting','released','expired','cancelled')", name="status"),
    CheckConstraint("(status = 'released') = (decision IS NOT NULL)", name="decision"),
    CheckConstraint("decision IN ('approved','rejected')", name="decision_word"),
    CheckConstraint("(status = 'waiting') = (ended_by IS NULL)", name="ended"),
    # Fail closed in the database too: only a person or a rule approves, and nobody approves what they created.
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
    ),
    # What may be purged some day, oldest end first.
    Index(
        "ix_assent_breakpoints_unpurged",
        "project_id",
        "ended_at",
        sqlite_where=sa.text("ended_at IS NOT NULL AND purged_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NOT NULL AND purged_at IS NULL"),
    ),
    # How often people approved in a row: what rules decided does not count.
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
)

# Tags ("t:…") and experts ("e:…") with what a filtered page needs, so that its key alone serves filter and order.
labels = Table(
    "assent_labels",
    metadata,
    Column("project_id", Text, primary_key=True),
    Column("label", Text, primary_key=True),
    Column("status", Text, primary_key=True),
    Column("created_at", BigInteger, primary_key=True),
    Column("id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    _text("agent_id"),
    Index("ix_assent_labels_id", "id"),
    # A frequent tag with an agent that never carries it: without this, every row of the tag is looked at.
    Index("ix_assent_labels_agent", "project_id", "label", "agent_id", "status", "created_at", "id"),
    sqlite_with_rowid=False,
)

responses = Table(
    "assent_responses",
    metadata,
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    # A response belongs to a person: the foreign key is what keeps agents from deciding.
    Column("person_id", Text, ForeignKey("assent_people.id"), primary_key=True),
    _text("person"),
    _number("approved"),
    _number("at"),
    _number("first_at"),
    _text("via"),
    _text("comment", null=True),
    _text("option", null=True),
    _text("answers", null=True),
    _text("edits", null=True),
    _text("seat", null=True),
    _text("in_place_of"),
    _number("override"),
    _text("digest", null=True),
    sqlite_with_rowid=False,
)

comments = Table(
    "assent_comments",
    metadata,
    Column("id", Text, primary_key=True),
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), nullable=False),
    _text("author"),
    _text("comment"),
    _number("created_at"),
    Index("ix_assent_comments_breakpoint", "breakpoint_id", "created_at", "id"),
)

events = Table(
    "assent_events",
    metadata,
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    _text("type"),
    _text("actor"),
    _number("at"),
    _text("metadata"),
    _text("previous"),
    _text("hash"),
    # The second lock on "decided once": one terminal event per breakpoint, whatever the code does.
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
    _number("size"),
    Column("content", LargeBinary, nullable=False),
    _number("created_at"),
)

breakpoint_files = Table(
    "assent_breakpoint_files",
    metadata,
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    Column("n", BigInteger, primary_key=True, autoincrement=False),
    _text("path"),
    _text("format"),
    _text("language", null=True),
    _text("sha256", null=True),
    _number("size", null=True),
    Index(
        "ix_assent_breakpoint_files_sha256",
        "sha256",
        sqlite_where=sa.text("sha256 IS NOT NULL"),
        postgresql_where=sa.text("sha256 IS NOT NULL"),
    ),
    sqlite_with_rowid=False,
)

# While a hold stands, nothing it covers is purged: one breakpoint, or without one the whole project.
holds = Table(
    "assent_holds",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), nullable=False),
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), nullable=True),
    _text("reason"),
    _text("placed_by"),
    _number("placed_at"),
    _text("lifted_by", null=True),
    _number("lifted_at", null=True),
    CheckConstraint("(lifted_by IS NULL) = (lifted_at IS NULL)", name="lifted"),
    Index(
        "ix_assent_holds_standing",
        "project_id",
        "breakpoint_id",
        sqlite_where=sa.text("lifted_at IS NULL"),
        postgresql_where=sa.text("lifted_at IS NULL"),
    ),
)

# An answer given on a page, until its undo window ends; nobody but the person who gave it sees it.
held_answers = Table(
    "assent_held_answers",
    metadata,
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    Column("person_id", Text, ForeignKey("assent_people.id"), primary_key=True),
    _text("project_id"),
    _text("answer"),
    _number("override"),
    _text("via"),
    _text("batch", null=True),
    _number("due_at"),
    _number("created_at"),
    Index("ix_assent_held_answers_due", "due_at"),
    Index("ix_assent_held_answers_person", "person_id", "batch"),
    sqlite_with_rowid=False,
)

# Who looks after it: a label that gives no right and takes none.
claims = Table(
    "assent_claims",
    metadata,
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    _text("project_id"),
    Column("person_id", Text, ForeignKey("assent_people.id"), nullable=False),
    _text("by"),
    _number("at"),
    sqlite_with_rowid=False,
)

snoozes = Table(
    "assent_snoozes",
    metadata,
    Column("person_id", Text, ForeignKey("assent_people.id"), primary_key=True),
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    _number("until"),
    Index("ix_assent_snoozes_breakpoint", "breakpoint_id"),
    sqlite_with_rowid=False,
)

# Named lists: the part of the inbox's address behind the question mark.
views = Table(
    "assent_views",
    metadata,
    Column("person_id", Text, ForeignKey("assent_people.id"), primary_key=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    _text("query"),
    _number("at"),
    sqlite_with_rowid=False,
)

idempotency = Table(
    "assent_idempotency",
    metadata,
    Column("principal_id", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    _text("fingerprint"),
    _text("breakpoint_id"),
    _number("created_at"),
    Index("ix_assent_idempotency_created", "created_at"),
    sqlite_with_rowid=False,
)

# Encrypted; the key of a row is bound to its project, name and version, so that a swapped row does not open.
secrets = Table(
    "assent_secrets",
    metadata,
    Column("project_id", Text, ForeignKey("assent_projects.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("ciphertext", LargeBinary, nullable=False),
    _text("key_id"),
    _number("created_at"),
    _text("created_by"),
    _number("retired_at", null=True),
    # Of several that rotate at once, one wins.
    Index(
        "uq_assent_secrets_current",
        "project_id",
        "name",
        unique=True,
        sqlite_where=sa.text("retired_at IS NULL"),
        postgresql_where=sa.text("retired_at IS NULL"),
    ),
    sqlite_with_rowid=False,
)

# One message to one recipient about one event; those to the same recipient keep the events' order.
deliveries = Table(
    "assent_deliveries",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), nullable=False),
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), nullable=False),
    _text("channel"),
    _text("recipient"),
    _number("seq"),
    _text("type"),
    _text("state"),
    _number("attempts"),
    _number("next_at"),
    _text("last_error", null=True),
    _number("created_at"),
    _number("updated_at"),
    # Why it is sent, and what it left behind at the receiver's: JSON that only its channel reads.
    Column("purpose", Text, nullable=False, server_default="tell"),
    _text("trace", null=True),
    # The channels that are still left to try when this one is dead.
    _text("fallback", null=True),
    Column("digested", BigInteger, nullable=False, server_default="0"),
    CheckConstraint("state IN ('pending','sending','sent','answered','superseded','dead')", name="state"),
    Index(
        "ix_assent_deliveries_digest",
        "channel",
        "recipient",
        sqlite_where=sa.text("digested = 1 AND state = 'pending'"),
        postgresql_where=sa.text("digested = 1 AND state = 'pending'"),
    ),
    Index("uq_assent_deliveries_event", "breakpoint_id", "channel", "recipient", "seq", unique=True),
    Index("ix_assent_deliveries_listed", "project_id", "state", "id"),
    Index("ix_assent_deliveries_project", "project_id", "id"),
    Index(
        "ix_assent_deliveries_open",
        "next_at",
        sqlite_where=sa.text("state IN ('pending','sending')"),
        postgresql_where=sa.text("state IN ('pending','sending')"),
    ),
)

attempts = Table(
    "assent_attempts",
    metadata,
    Column("delivery_id", Text, ForeignKey("assent_deliveries.id"), primary_key=True),
    Column("n", BigInteger, primary_key=True, autoincrement=False),
    _number("at"),
    _text("worker"),
    _number("milliseconds", null=True),
    _number("status", null=True),
    _text("error", null=True),
    sqlite_with_rowid=False,
)

# Ways to reach people. Secrets stand in the settings as references only. A removed one stays for its deliveries.
channels = Table(
    "assent_channels",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), nullable=False),
    _text("name"),
    _text("type"),
    _text("settings"),
    _number("enabled"),
    _text("disabled_because", null=True),
    _text("source"),
    _text("created_by"),
    _number("created_at"),
    _number("updated_at"),
    _number("removed_at", null=True),
    # What is known of its health.
    _number("ok_at", null=True),
    _number("failed_at", null=True),
    _text("last_error", null=True),
    _number("heard_at", null=True),
    Index(
        "uq_assent_channels_name",
        "project_id",
        "name",
        unique=True,
        sqlite_where=sa.text("removed_at IS NULL"),
        postgresql_where=sa.text("removed_at IS NULL"),
    ),
)

# Which breakpoints are told to whom; the first that matches counts.
routes = Table(
    "assent_routes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), nullable=False),
    _number("position"),
    _text("pattern"),
    _text("content"),
    _number("enabled"),
    _text("source"),
    _text("created_by"),
    _number("created_at"),
    _number("updated_at"),
    Index("ix_assent_routes_project", "project_id", "position"),
    sqlite_with_rowid=False,
)

# Where the telling of a breakpoint stands: its route as it was then, how many steps are done, when the next is due.
routings = Table(
    "assent_routings",
    metadata,
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    _text("project_id"),
    _text("route_id", null=True),
    _text("route", null=True),
    _number("done"),
    # Up to which event everybody who follows it has been told.
    _number("seen"),
    # Who may answer beside those who were asked: deputies of people who are away, and whoever it was escalated to.
    _text("deputies"),
    _number("next_at", null=True),
    _number("created_at"),
    Index(
        "ix_assent_routings_due",
        "next_at",
        sqlite_where=sa.text("next_at IS NOT NULL"),
        postgresql_where=sa.text("next_at IS NOT NULL"),
    ),
    sqlite_with_rowid=False,
)

# How a person wants to be reached: channels in their order, quiet hours, and who answers while they are away.
preferences = Table(
    "assent_preferences",
    metadata,
    Column("person_id", Text, ForeignKey("assent_people.id"), primary_key=True),
    _text("content"),
    _number("updated_at"),
    sqlite_with_rowid=False,
)

# Who somebody on a channel is with us; made explicitly, never guessed.
links = Table(
    "assent_links",
    metadata,
    Column("channel_id", Text, ForeignKey("assent_channels.id"), primary_key=True),
    Column("identity", Text, primary_key=True),
    Column("person_id", Text, ForeignKey("assent_people.id"), nullable=False),
    _text("linked_by"),
    _number("linked_at"),
    Index("ix_assent_links_person", "person_id", "channel_id"),
    sqlite_with_rowid=False,
)

# Offered on the channel to somebody who is not linked: whoever opens it signed in may say that it is them.
link_offers = Table(
    "assent_link_offers",
    metadata,
    Column("secret_hash", Text, primary_key=True),
    Column("channel_id", Text, ForeignKey("assent_channels.id"), nullable=False),
    _text("identity"),
    _text("shown_as"),
    _number("expires_at"),
    sqlite_with_rowid=False,
)

# What was heard on a channel, so that it counts once however often it is said.
heard = Table(
    "assent_heard",
    metadata,
    Column("channel_id", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    _number("at"),
    Index("ix_assent_heard_at", "at"),
    sqlite_with_rowid=False,
)

# When somebody got their last messages, and when they got and will get many told in one.
pace = Table(
    "assent_pace",
    metadata,
    Column("channel", Text, primary_key=True),
    Column("recipient", Text, primary_key=True),
    _text("times"),
    _number("digest_at", null=True),
    _number("digest_due", null=True),
    sqlite_with_rowid=False,
)

workers = Table(
    "assent_workers",
    metadata,
    Column("id", Text, primary_key=True),
    _text("host"),
    _number("pid"),
    _number("started_at"),
    _number("seen_at"),
    sqlite_with_rowid=False,
)

# Removed rules stay, so that what they decided can be explained.
rules = Table(
    "assent_rules",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), nullable=False),
    _text("pattern"),
    _text("action"),
    _text("mode"),
    _number("enabled"),
    _number("expires_at", null=True),
    _text("note", null=True),
    _number("place"),
    _text("source"),
    _text("created_by"),
    _number("created_at"),
    _number("updated_at"),
    _number("removed_at", null=True),
    _number("version"),
    _text("head"),
    Index("ix_assent_rules_project", "project_id", "place", "id"),
)

rule_events = Table(
    "assent_rule_events",
    metadata,
    Column("rule_id", Text, ForeignKey("assent_rules.id"), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    _text("type"),
    _text("actor"),
    _number("at"),
    _text("metadata"),
    _text("previous"),
    _text("hash"),
    sqlite_with_rowid=False,
)

# What a rule in shadow would have done, beside what people did.
shadows = Table(
    "assent_shadows",
    metadata,
    Column("rule_id", Text, ForeignKey("assent_rules.id"), primary_key=True),
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    _number("rule_version"),
    _number("recommended"),
    _number("at"),
    sqlite_with_rowid=False,
)

# What receipts are signed with is among the secrets; here are the keys they are checked with, which nobody has to open.
receipt_keys = Table(
    "assent_receipt_keys",
    metadata,
    Column("project_id", Text, ForeignKey("assent_projects.id"), primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("key_id", Text, nullable=False, unique=True),
    _text("public_key"),
    _number("created_at"),
    _text("created_by"),
    _number("retired_at", null=True),
    _number("revoked_at", null=True),
    CheckConstraint("revoked_at IS NULL OR retired_at IS NOT NULL", name="revoked"),
    sqlite_with_rowid=False,
)

# One row for each receipt that was acted on: the key is what makes it good for one time.
receipt_uses = Table(
    "assent_receipt_uses",
    metadata,
    Column("breakpoint_id", Text, ForeignKey("assent_breakpoints.id"), primary_key=True),
    Column("nonce", Text, nullable=False, unique=True),
    _text("key_id"),
    _number("used_at"),
    _text("used_by"),
    sqlite_with_rowid=False,
)

# One durable execution of a process. `turn` counts who has taken it up: only the last one may write.
runs = Table(
    "assent_runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", Text, ForeignKey("assent_projects.id"), nullable=False),
    _text("process"),
    _text("version"),
    _text("state"),
    _text("inputs"),
    _text("output", null=True),
    _text("error", null=True),
    _text("agent_id"),
    _text("started_by"),
    _text("started_by_id"),
    _text("principal"),
    _number("turn"),
    _number("starts"),
    _number("lines"),
    _number("created_at"),
    _number("updated_at"),
    _number("ended_at", null=True),
    _number("due_at", null=True),
    CheckConstraint("state IN ('queued','running','suspended','done','failed','cancelled')", name="state"),
    Index("ix_assent_runs_listed", "project_id", "id"),
    Index("ix_assent_runs_state", "project_id", "state", "id"),
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
    _text("kind"),
    _text("name"),
    _text("fingerprint", null=True),
    _text("state"),
    _number("attempts"),
    _text("breakpoint_id", null=True),
    _number("due_at", null=True),
    _number("heard", null=True),
    _text("outcome", null=True),
    _text("error", null=True),
    _number("started_at"),
    _number("ended_at", null=True),
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
    _number("at"),
    _text("type"),
    _text("path", null=True),
    _text("data"),
    sqlite_with_rowid=False,
)

run_files = Table(
    "assent_run_files",
    metadata,
    Column("run_id", Text, ForeignKey("assent_runs.id"), primary_key=True),
    Column("path", Text, primary_key=True),
    _text("sha256"),
    _number("size"),
    _number("at"),
    Index("ix_assent_run_files_sha256", "sha256"),
    sqlite_with_rowid=False,
)
