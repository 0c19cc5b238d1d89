"""The first tables"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "assent_idempotency",
        sa.Column("principal_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("breakpoint_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("principal_id", "key", name=op.f("pk_assent_idempotency")),
        sqlite_with_rowid=False,
    )
    with op.batch_alter_table("assent_idempotency", schema=None) as batch_op:
        batch_op.create_index("ix_assent_idempotency_created", ["created_at"], unique=False)

    op.create_table(
        "assent_people",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("active", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assent_people")),
        sa.UniqueConstraint("name", name=op.f("uq_assent_people_name")),
    )
    op.create_table(
        "assent_grants",
        sa.Column("person_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "role IN ('viewer','reviewer','rule-admin','auditor','admin')", name=op.f("ck_assent_grants_role")
        ),
        sa.ForeignKeyConstraint(["person_id"], ["assent_people.id"], name=op.f("fk_assent_grants_person_id")),
        sa.PrimaryKeyConstraint("person_id", "project_id", "role", name=op.f("pk_assent_grants")),
    )
    op.create_table(
        "assent_projects",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("owner_id", sa.Text(), nullable=True),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["owner_id"], ["assent_people.id"], name=op.f("fk_assent_projects_owner_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assent_projects")),
    )
    op.create_table(
        "assent_sessions",
        sa.Column("id_hash", sa.Text(), nullable=False),
        sa.Column("person_id", sa.Text(), nullable=False),
        sa.Column("csrf", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["person_id"], ["assent_people.id"], name=op.f("fk_assent_sessions_person_id")),
        sa.PrimaryKeyConstraint("id_hash", name=op.f("pk_assent_sessions")),
    )
    op.create_table(
        "assent_sign_in_links",
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("person_id", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["person_id"], ["assent_people.id"], name=op.f("fk_assent_sign_in_links_person_id")),
        sa.PrimaryKeyConstraint("secret_hash", name=op.f("pk_assent_sign_in_links")),
    )
    op.create_table(
        "assent_breakpoints",
        sa.Column("ordinal", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("question", sa.Text(), nullable=True),
        sa.Column("gate", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("seats", sa.Text(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("risk", sa.Text(), nullable=True),
        sa.Column("priority", sa.Text(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=True),
        sa.Column("on_timeout", sa.Text(), nullable=False),
        sa.Column("ttl_seconds", sa.BigInteger(), nullable=True),
        sa.Column("callback_url", sa.Text(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_by_id", sa.Text(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("auto_approval", sa.Text(), nullable=False),
        sa.Column("warnings", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_by", sa.Text(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("head", sa.Text(), nullable=False),
        sa.Column("comments", sa.BigInteger(), nullable=False),
        sa.Column("votes", sa.BigInteger(), nullable=False),
        sa.Column("search", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "(status = 'released') = (decision IS NOT NULL)", name=op.f("ck_assent_breakpoints_decision")
        ),
        sa.CheckConstraint("decision IN ('approved','rejected')", name=op.f("ck_assent_breakpoints_decision_word")),
        sa.CheckConstraint("(status = 'waiting') = (ended_by IS NULL)", name=op.f("ck_assent_breakpoints_ended")),
        sa.CheckConstraint(
            "decision IS NULL OR decision <> 'approved' OR ended_by LIKE 'person:%' OR ended_by LIKE 'rule:%'",
            name=op.f("ck_assent_breakpoints_approver"),
        ),
        sa.CheckConstraint(
            "decision IS NULL OR ended_by NOT LIKE 'agent:%'", name=op.f("ck_assent_breakpoints_no_agent_decides")
        ),
        sa.CheckConstraint(
            "status IN ('waiting','released','expired','cancelled')", name=op.f("ck_assent_breakpoints_status")
        ),
        sa.CheckConstraint("decision IS NULL OR ended_by <> created_by", name=op.f("ck_assent_breakpoints_not_own")),
        sa.ForeignKeyConstraint(["project_id"], ["assent_projects.id"], name=op.f("fk_assent_breakpoints_project_id")),
        sa.PrimaryKeyConstraint("ordinal", name=op.f("pk_assent_breakpoints")),
        sa.UniqueConstraint("id", name=op.f("uq_assent_breakpoints_id")),
    )
    with op.batch_alter_table("assent_breakpoints", schema=None) as batch_op:
        batch_op.create_index(
            "ix_assent_breakpoints_agent", ["project_id", "agent_id", "status", "created_at", "id"], unique=False
        )
        batch_op.create_index(
            "ix_assent_breakpoints_gate", ["project_id", "gate", "status", "created_at", "id"], unique=False
        )
        batch_op.create_index(
            "ix_assent_breakpoints_run",
            ["project_id", "run_id", "created_at", "id"],
            unique=False,
            sqlite_where=sa.text("run_id IS NOT NULL"),
            postgresql_where=sa.text("run_id IS NOT NULL"),
        )
        batch_op.create_index(
            "ix_assent_breakpoints_status_created", ["project_id", "status", "created_at", "id"], unique=False
        )
        batch_op.create_index(
            "ix_assent_breakpoints_status_due", ["project_id", "status", "due_at", "id"], unique=False
        )
        batch_op.create_index(
            "ix_assent_breakpoints_status_updated", ["project_id", "status", "updated_at", "id"], unique=False
        )
        batch_op.create_index(
            "ix_assent_breakpoints_waiting_due",
            ["due_at"],
            unique=False,
            sqlite_where=sa.text("status = 'waiting'"),
            postgresql_where=sa.text("status = 'waiting'"),
        )

    op.create_table(
        "assent_files",
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["assent_projects.id"], name=op.f("fk_assent_files_project_id")),
        sa.PrimaryKeyConstraint("project_id", "sha256", name=op.f("pk_assent_files")),
    )
    op.create_table(
        "assent_groups",
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["assent_projects.id"], name=op.f("fk_assent_groups_project_id")),
        sa.PrimaryKeyConstraint("project_id", "name", name=op.f("pk_assent_groups")),
    )
    op.create_table(
        "assent_tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("person_id", sa.Text(), nullable=True),
        sa.Column("roles", sa.Text(), nullable=False),
        sa.Column("gates", sa.Text(), nullable=False),
        sa.Column("agent_ids", sa.Text(), nullable=False),
        sa.Column("creates_per_minute", sa.BigInteger(), nullable=True),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("(kind = 'person') = (person_id IS NOT NULL)", name=op.f("ck_assent_tokens_person")),
        sa.CheckConstraint("kind = 'person' OR roles = '[]'", name=op.f("ck_assent_tokens_roles")),
        sa.CheckConstraint("kind IN ('agent','person','service')", name=op.f("ck_assent_tokens_kind")),
        sa.ForeignKeyConstraint(["person_id"], ["assent_people.id"], name=op.f("fk_assent_tokens_person_id")),
        sa.ForeignKeyConstraint(["project_id"], ["assent_projects.id"], name=op.f("fk_assent_tokens_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assent_tokens")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_assent_tokens_secret_hash")),
    )
    op.create_table(
        "assent_breakpoint_files",
        sa.Column("breakpoint_id", sa.Text(), nullable=False),
        sa.Column("n", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=True),
        sa.Column("sha256", sa.Text(), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["breakpoint_id"], ["assent_breakpoints.id"], name=op.f("fk_assent_breakpoint_files_breakpoint_id")
        ),
        sa.PrimaryKeyConstraint("breakpoint_id", "n", name=op.f("pk_assent_breakpoint_files")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "assent_comments",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("breakpoint_id", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["breakpoint_id"], ["assent_breakpoints.id"], name=op.f("fk_assent_comments_breakpoint_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assent_comments")),
    )
    with op.batch_alter_table("assent_comments", schema=None) as batch_op:
        batch_op.create_index("ix_assent_comments_breakpoint", ["breakpoint_id", "created_at", "id"], unique=False)

    op.create_table(
        "assent_events",
        sa.Column("breakpoint_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("previous", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["breakpoint_id"], ["assent_breakpoints.id"], name=op.f("fk_assent_events_breakpoint_id")
        ),
        sa.PrimaryKeyConstraint("breakpoint_id", "seq", name=op.f("pk_assent_events")),
        sqlite_with_rowid=False,
    )
    with op.batch_alter_table("assent_events", schema=None) as batch_op:
        batch_op.create_index(
            "uq_assent_events_terminal",
            ["breakpoint_id"],
            unique=True,
            sqlite_where=sa.text("type IN ('released','expired','cancelled')"),
            postgresql_where=sa.text("type IN ('released','expired','cancelled')"),
        )

    op.create_table(
        "assent_group_members",
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("person_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["person_id"], ["assent_people.id"], name=op.f("fk_assent_group_members_person_id")),
        sa.ForeignKeyConstraint(
            ["project_id", "group_name"],
            ["assent_groups.project_id", "assent_groups.name"],
            name="fk_assent_group_members_group",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project_id", "group_name", "person_id", name=op.f("pk_assent_group_members")),
    )
    op.create_table(
        "assent_labels",
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["id"], ["assent_breakpoints.id"], name=op.f("fk_assent_labels_id")),
        sa.PrimaryKeyConstraint("project_id", "label", "status", "created_at", "id", name=op.f("pk_assent_labels")),
        sqlite_with_rowid=False,
    )
    with op.batch_alter_table("assent_labels", schema=None) as batch_op:
        batch_op.create_index("ix_assent_labels_id", ["id"], unique=False)
        batch_op.create_index(
            "ix_assent_labels_agent",
            ["project_id", "label", "agent_id", "status", "created_at", "id"],
            unique=False,
        )

    op.create_table(
        "assent_responses",
        sa.Column("breakpoint_id", sa.Text(), nullable=False),
        sa.Column("person_id", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("approved", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("first_at", sa.BigInteger(), nullable=False),
        sa.Column("via", sa.Text(), nullable=False),
        sa.Column("comment", sa.Text(), nullable=True),
        sa.Column("option", sa.Text(), nullable=True),
        sa.Column("answers", sa.Text(), nullable=True),
        sa.Column("edits", sa.Text(), nullable=True),
        sa.Column("seat", sa.Text(), nullable=True),
        sa.Column("in_place_of", sa.Text(), nullable=False),
        sa.Column("override", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["breakpoint_id"], ["assent_breakpoints.id"], name=op.f("fk_assent_responses_breakpoint_id")
        ),
        sa.ForeignKeyConstraint(["person_id"], ["assent_people.id"], name=op.f("fk_assent_responses_person_id")),
        sa.PrimaryKeyConstraint("breakpoint_id", "person_id", name=op.f("pk_assent_responses")),
        sqlite_with_rowid=False,
    )

    # Full-text search differs by database: SQLite has an external index of the column, PostgreSQL an expression index.
    if op.get_bind().dialect.name == "sqlite":
        op.execute(
            "CREATE VIRTUAL TABLE assent_search"
            " USING fts5(search, content='assent_breakpoints', content_rowid='ordinal')"
        )
    else:
        op.execute(
            "CREATE INDEX ix_assent_breakpoints_search ON assent_breakpoints USING gin (to_tsvector('simple', search))"
        )
