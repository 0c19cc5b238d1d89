"""Append-only events, legal holds, and the data that remains after a purge"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

# Defined once for both databases; SQLite spells "equal, or both NULL" as IS.
FIXED = (
    "ordinal, id, project_id, agent_id, run_id, gate, tags, seats, strategy, risk, priority, attempt, on_timeout,"
    " ttl_seconds, callback_url, digest, created_at, created_by, created_by_id, due_at, auto_approval, warnings"
)
BLANKED = "payload, title, question, search, purged_at"
PURGED_RESULT = """'{"approved":' || CASE WHEN OLD.decision = 'approved' THEN 'true' ELSE 'false' END
    || ',"status":"' || OLD.status || '"'
    || CASE WHEN OLD.decision IS NULL THEN '' ELSE ',"decision":"' || OLD.decision || '"' END
    || ',"auto":' || CASE WHEN OLD.ended_by LIKE 'rule:%' THEN 'true' ELSE 'false' END || '}'"""
PURGING = "OLD.status <> 'waiting' AND OLD.purged_at IS NULL AND NEW.purged_at IS NOT NULL"
BLANK = "NEW.payload = '{}' AND NEW.title IS NULL AND NEW.question IS NULL AND NEW.search = ''"
SAME_END = (
    "NEW.status = OLD.status AND NEW.decision {is} OLD.decision AND NEW.ended_by {is} OLD.ended_by"
    " AND NEW.ended_at {is} OLD.ended_at AND NEW.comments = OLD.comments AND NEW.votes = OLD.votes"
    " AND NEW.version = OLD.version + 1 AND NEW.result {is} (" + PURGED_RESULT + ")"
)
SAME_EVENT = (
    "NEW.breakpoint_id = OLD.breakpoint_id AND NEW.seq = OLD.seq AND NEW.type = OLD.type AND NEW.actor = OLD.actor"
    " AND NEW.at = OLD.at AND NEW.previous = OLD.previous AND NEW.hash = OLD.hash"
)
STUBBED = (
    "OLD.type IN ('commented', 'responded') AND OLD.metadata NOT LIKE '{\"purged\":%'"
    ' AND NEW.metadata LIKE \'{"purged":"%"}\' AND length(NEW.metadata) = 77'
)
SAME_RESPONSE = (
    "NEW.breakpoint_id = OLD.breakpoint_id AND NEW.person_id = OLD.person_id AND NEW.person = OLD.person"
    " AND NEW.approved = OLD.approved AND NEW.at = OLD.at AND NEW.first_at = OLD.first_at AND NEW.via = OLD.via"
    " AND NEW.seat {is} OLD.seat AND NEW.in_place_of = OLD.in_place_of AND NEW.override = OLD.override"
    " AND NEW.digest {is} OLD.digest"
    " AND NEW.comment IS NULL AND NEW.option IS NULL AND NEW.answers IS NULL AND NEW.edits IS NULL"
)
SAME_COMMENT = (
    "NEW.id = OLD.id AND NEW.breakpoint_id = OLD.breakpoint_id AND NEW.author = OLD.author"
    " AND NEW.created_at = OLD.created_at AND NEW.comment = ''"
)
LIFTING = (
    "OLD.lifted_at IS NULL AND NEW.lifted_at IS NOT NULL AND NEW.lifted_by IS NOT NULL AND NEW.id = OLD.id"
    " AND NEW.project_id = OLD.project_id AND NEW.breakpoint_id {is} OLD.breakpoint_id AND NEW.reason = OLD.reason"
    " AND NEW.placed_by = OLD.placed_by AND NEW.placed_at = OLD.placed_at"
)
OF_PURGED = "EXISTS (SELECT 1 FROM assent_breakpoints b WHERE b.id = NEW.breakpoint_id AND b.purged_at IS NOT NULL)"
OF_ENDED = "EXISTS (SELECT 1 FROM assent_breakpoints b WHERE b.id = NEW.breakpoint_id AND b.status <> 'waiting')"
WAS_OF_ENDED = OF_ENDED.replace("= NEW.breakpoint_id", "IN (OLD.breakpoint_id, NEW.breakpoint_id)")

# Table, trigger name, action, conditions under which it is refused, and error message. The second condition is about
# the parent row: PostgreSQL does not allow a subquery in a trigger's WHEN, so the function tests it.
REFUSED = (
    ("breakpoints", "fixed", f"UPDATE OF {FIXED}", "", "", "the content of a breakpoint never changes"),
    (
        "breakpoints",
        "blanked",
        f"UPDATE OF {BLANKED}",
        f"NOT ({PURGING} AND {BLANK})",
        "",
        "the content of a breakpoint never changes",
    ),
    (
        "breakpoints",
        "ended",
        "UPDATE",
        f"OLD.status <> 'waiting' AND NOT ({PURGING} AND {SAME_END})",
        "",
        "what has ended never changes",
    ),
    ("breakpoints", "kept", "DELETE", "", "", "no breakpoint is ever removed"),
    ("events", "unchanged", "UPDATE", f"NOT ({SAME_EVENT} AND {STUBBED})", "", "events never change"),
    (
        "events",
        "purged",
        "UPDATE",
        "",
        f"NOT {OF_PURGED}",
        "events never change",
    ),
    ("events", "kept", "DELETE", "", "", "no event is ever removed"),
    (
        "responses",
        "late",
        "INSERT",
        "",
        OF_ENDED,
        "nobody answers what has ended",
    ),
    (
        "responses",
        "unchanged",
        "UPDATE",
        "",
        f"{WAS_OF_ENDED} AND NOT ({SAME_RESPONSE} AND {OF_PURGED})",
        "answers to what has ended never change",
    ),
    ("responses", "kept", "DELETE", "", "", "no answer is ever removed"),
    (
        "comments",
        "unchanged",
        "UPDATE",
        "",
        f"NOT ({SAME_COMMENT} AND {OF_PURGED})",
        "comments never change",
    ),
    ("comments", "kept", "DELETE", "", "", "no comment is ever removed"),
    ("holds", "unchanged", "UPDATE", f"NOT ({LIFTING})", "", "a hold is only ever lifted"),
    ("holds", "kept", "DELETE", "", "", "no hold is ever removed"),
)


def upgrade() -> None:
    op.add_column("assent_breakpoints", sa.Column("purged_at", sa.BigInteger(), nullable=True))
    # Breakpoints that can be purged, the earliest ended first.
    op.create_index(
        "ix_assent_breakpoints_unpurged",
        "assent_breakpoints",
        ["project_id", "ended_at"],
        sqlite_where=sa.text("ended_at IS NOT NULL AND purged_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NOT NULL AND purged_at IS NULL"),
    )
    op.create_index(
        "ix_assent_breakpoint_files_sha256",
        "assent_breakpoint_files",
        ["sha256"],
        sqlite_where=sa.text("sha256 IS NOT NULL"),
        postgresql_where=sa.text("sha256 IS NOT NULL"),
    )
    op.create_table(
        "assent_holds",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("breakpoint_id", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("placed_by", sa.Text(), nullable=False),
        sa.Column("placed_at", sa.BigInteger(), nullable=False),
        sa.Column("lifted_by", sa.Text(), nullable=True),
        sa.Column("lifted_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("(lifted_by IS NULL) = (lifted_at IS NULL)", name=op.f("ck_assent_holds_lifted")),
        sa.ForeignKeyConstraint(["project_id"], ["assent_projects.id"], name=op.f("fk_assent_holds_project_id")),
        sa.ForeignKeyConstraint(
            ["breakpoint_id"], ["assent_breakpoints.id"], name=op.f("fk_assent_holds_breakpoint_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_assent_holds")),
    )
    op.create_index(
        "ix_assent_holds_standing",
        "assent_holds",
        ["project_id", "breakpoint_id"],
        sqlite_where=sa.text("lifted_at IS NULL"),
        postgresql_where=sa.text("lifted_at IS NULL"),
    )
    if op.get_bind().dialect.name == "sqlite":
        _lock_sqlite()
    else:
        _lock_postgresql()


def _lock_sqlite() -> None:
    for table, name, action, row_test, parent_test, said in REFUSED:
        tests = " AND ".join(f"({test.replace('{is}', 'IS')})" for test in (row_test, parent_test) if test)
        when = f"WHEN {tests} " if tests else ""
        op.execute(
            f"CREATE TRIGGER assent_{table}_{name} BEFORE {action} ON assent_{table} {when}"
            f"BEGIN SELECT RAISE(ABORT, '{said}'); END"
        )


def _lock_postgresql() -> None:
    op.execute(
        "CREATE FUNCTION assent_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE EXCEPTION USING MESSAGE = TG_ARGV[0], ERRCODE = 'integrity_constraint_violation'; END $$"
    )
    for table, name, action, row_test, parent_test, said in REFUSED:
        when = f"WHEN ({row_test.replace('{is}', 'IS NOT DISTINCT FROM')})" if row_test else ""
        function = "assent_refuse"
        if parent_test:
            function = f"assent_{table}_{name}"
            test = parent_test.replace("{is}", "IS NOT DISTINCT FROM")
            op.execute(
                f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF {test} THEN"
                " RAISE EXCEPTION USING MESSAGE = TG_ARGV[0], ERRCODE = 'integrity_constraint_violation';"
                " END IF; RETURN NEW; END $$"
            )
        op.execute(
            f"CREATE TRIGGER assent_{table}_{name} BEFORE {action} ON assent_{table} FOR EACH ROW {when}"
            f" EXECUTE FUNCTION {function}('{said}')"
        )
    for table in dict.fromkeys(each[0] for each in REFUSED):
        op.execute(
            f"CREATE TRIGGER assent_{table}_emptied BEFORE TRUNCATE ON assent_{table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION assent_refuse('nothing here is ever removed')"
        )
