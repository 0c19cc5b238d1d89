"""Retention: purges content after its retention period, and stores the legal holds that prevent this."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from assent.audit.chain_checks import SPOKEN, Answer, FileNamed
from assent.audit.store.chains import answer_of
from assent.breakpoints.store.breakpoints import INSERT_EVENT, event_row
from assent.core.breakpoint import Comment, Event
from assent.core.chain import stub
from assent.core.errors import NotFound, Unavailable
from assent.db.sql import Row, among, given, insert, to_json
from assent.db.transaction import Store, Transaction
from assent.platform.admin_log import AdminLog

DIALECTS = ("sqlite", "postgresql")
_HOLD = ("id", "project_id", "breakpoint_id", "reason", "placed_by", "placed_at", "lifted_by", "lifted_at")
INSERT_HOLD = insert("assent_holds", _HOLD)
SELECT_HOLDS = f"SELECT {', '.join(_HOLD)} FROM assent_holds WHERE project_id = :project_id ORDER BY placed_at, id"
LIFT = """
    UPDATE assent_holds SET lifted_by = :by, lifted_at = :now
    WHERE id = :id AND project_id = :project_id AND lifted_at IS NULL"""
# Placing a hold and purging lock the same project. A purge sees the holds that were placed before it started. A hold
# that is placed during a purge waits until the purge ends, and is refused if its breakpoint has been purged.
LOCK_TO_HOLD = "SELECT id FROM assent_projects WHERE id = :project_id FOR NO KEY UPDATE"
LOCK_TO_PURGE = "SELECT policy FROM assent_projects WHERE id = :project_id FOR SHARE"
NOT_HELD = """
    NOT EXISTS (
        SELECT 1 FROM assent_holds h
        WHERE h.project_id = b.project_id AND (h.breakpoint_id IS NULL OR h.breakpoint_id = b.id)
          AND h.lifted_at IS NULL)"""
SELECT_OLD = f"""
    SELECT b.id, b.version, b.head, b.run_id, b.tags FROM assent_breakpoints b
    WHERE b.project_id = :project_id AND b.ended_at IS NOT NULL AND b.ended_at <= :before AND b.purged_at IS NULL
      AND {NOT_HELD}
    ORDER BY b.ended_at LIMIT :limit"""
_WORDS = "FROM assent_breakpoint_words WHERE ordinal IN (SELECT ordinal FROM assent_breakpoints WHERE {these})"
# FTS5 removes a row only if it is given that row's words.
UNINDEX = f"INSERT INTO assent_search (assent_search, rowid, words) SELECT 'delete', ordinal, words {_WORDS}"
DELETE_WORDS = f"DELETE {_WORDS}"
PURGED_ROW = {"id": "text", "seq": "bigint", "head": "text", "at": "bigint"}
BLANKED_EVENT = {"id": "text", "seq": "bigint", "metadata": "text"}
_SHORT_RESULT = """
    '{"approved":' || CASE WHEN b.decision = 'approved' THEN 'true' ELSE 'false' END
    || ',"status":"' || b.status || '"'
    || CASE WHEN b.decision IS NULL THEN '' ELSE ',"decision":"' || b.decision || '"' END
    || ',"auto":' || CASE WHEN b.ended_by LIKE 'rule:%' THEN 'true' ELSE 'false' END || '}'"""
PURGE = {
    dialect: f"""
    UPDATE assent_breakpoints AS b
    SET payload = '{{}}', title = NULL, question = NULL, search = '', purged_at = given.at, updated_at = given.at,
        version = given.seq, head = given.head, result = {_SHORT_RESULT}
    FROM {given(dialect, PURGED_ROW)}
    WHERE b.id = given.id AND b.version = given.seq - 1 AND b.purged_at IS NULL AND b.status <> 'waiting'
      AND {NOT_HELD}"""
    for dialect in DIALECTS
}
SELECT_SPOKEN = f"""
    SELECT breakpoint_id, seq, metadata FROM assent_events
    WHERE {{these}} AND type IN ({", ".join(f"'{kind}'" for kind in sorted(SPOKEN))})"""
BLANK_EVENTS = {
    dialect: f"""
    UPDATE assent_events AS e SET metadata = given.metadata
    FROM {given(dialect, BLANKED_EVENT)}
    WHERE e.breakpoint_id = given.id AND e.seq = given.seq"""
    for dialect in DIALECTS
}
BLANK_RESPONSES = """
    UPDATE assent_responses SET comment = NULL, option = NULL, answers = NULL, edits = NULL WHERE {these}"""
BESIDE = ("assent_held_answers", "assent_unsent_answers", "assent_claims", "assent_snoozes", "assent_absent_agents")
"""Tables with temporary data about breakpoints; a purge deletes their rows."""
BLANK_COMMENTS = "UPDATE assent_comments SET comment = '' WHERE {these}"
BLANK_ENTRIES = "UPDATE assent_breakpoint_files SET path = '', language = NULL WHERE {these}"
SELECT_ANSWERS = """
    SELECT r.breakpoint_id, r.person_id, r.person, r.first_at, r.person, r.approved, r.at, r.via, r.comment, r.option,
           r.answers, r.edits, r.seat, r.in_place_of, r.override, r.digest, r.after_reset_by
    FROM assent_responses r WHERE {these}"""
SELECT_COMMENTS = "SELECT breakpoint_id, id, author, comment, created_at FROM assent_comments WHERE {these}"
SELECT_ENTRIES = (
    "SELECT breakpoint_id, n, path, format, language, sha256, size FROM assent_breakpoint_files WHERE {these}"
)
# Creating a breakpoint with a file also locks the file. Therefore, either the file has already been deleted and is
# stored again, or the breakpoint exists when the next statement checks whether the file is still needed.
LOCK_FILES = """
    SELECT sha256 FROM assent_files WHERE project_id = :project_id AND {these} ORDER BY sha256 FOR UPDATE"""
DELETE_FILES = """
    DELETE FROM assent_files WHERE project_id = :project_id AND {these} AND NOT EXISTS (
        SELECT 1 FROM assent_breakpoint_files e JOIN assent_breakpoints b ON b.id = e.breakpoint_id
        WHERE e.sha256 = assent_files.sha256 AND b.project_id = assent_files.project_id AND b.purged_at IS NULL)
      AND NOT EXISTS (
        SELECT 1 FROM assent_run_files f JOIN assent_runs r ON r.id = f.run_id
        WHERE f.sha256 = assent_files.sha256 AND r.project_id = assent_files.project_id)"""

# A run is deleted completely, except for its breakpoints, which have their own retention.
SELECT_OLD_RUNS = """
    SELECT r.id FROM assent_runs r
    WHERE r.project_id = :project_id AND r.state IN ('done', 'failed', 'cancelled') AND r.ended_at <= :before
      AND NOT EXISTS (
        SELECT 1 FROM assent_holds h WHERE h.project_id = r.project_id AND h.lifted_at IS NULL AND (
            h.breakpoint_id IS NULL
            OR h.breakpoint_id IN (SELECT s.breakpoint_id FROM assent_run_steps s WHERE s.run_id = r.id)))
    ORDER BY r.ended_at LIMIT :limit"""
SELECT_RUN_FILES = "SELECT DISTINCT sha256 FROM assent_run_files WHERE {these}"
DELETE_OF_RUNS = (
    ("assent_run_journal", "run_id"), ("assent_run_files", "run_id"), ("assent_run_steps", "run_id"),
    ("assent_run_outputs", "run_id"), ("assent_firings", "run_id"),
    ("assent_idempotency", "breakpoint_id"), ("assent_runs", "id"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hold:
    """A legal hold, which prevents the purging of its breakpoint or, without a breakpoint, of its entire project."""

    id: str
    project: str
    breakpoint_id: str | None
    reason: str
    placed_by: str
    placed_at: int
    lifted_by: str | None = None
    lifted_at: int | None = None


class Holds(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._log = tx[AdminLog]

    def wait_for_purging(self, project: str) -> None:
        """Wait until any running purge of this project ends, and block new purges until the transaction ends."""
        if self._session.dialect == "postgresql":
            self._session.all(LOCK_TO_HOLD, {"project_id": project})

    def purged_at(self, breakpoint_id: str, *, project: str) -> int | None:
        """Return when a breakpoint was purged, or None if it was not; raise NotFound if it does not exist."""
        statement = "SELECT purged_at FROM assent_breakpoints WHERE id = :id AND project_id = :project_id"
        rows = self._session.all(statement, {"id": breakpoint_id, "project_id": project})
        if not rows:
            msg = f"Breakpoint {breakpoint_id} not found in this project."
            raise NotFound(msg)
        purged_at: int | None = rows[0][0]
        return purged_at

    def add(self, hold: Hold) -> None:
        row = {name: getattr(hold, name) for name in _HOLD if name != "project_id"} | {"project_id": hold.project}
        with self._log.changes("hold", hold.id, project=hold.project, act="hold-placed"):
            self._session.write(INSERT_HOLD, [row])

    def lift(self, hold_id: str, *, project: str, by: str, now: int) -> None:
        params = {"id": hold_id, "project_id": project, "by": by, "now": now}
        with self._log.changes("hold", hold_id, project=project, act="hold-lifted"):
            if self._session.change(LIFT, params) != 1:
                msg = f"Legal hold {hold_id} not found in this project, or already lifted."
                raise NotFound(msg)

    def every(self, project: str) -> list[Hold]:
        return [Hold(*row) for row in self._session.all(SELECT_HOLDS, {"project_id": project})]


@dataclass(frozen=True, slots=True)
class Old:
    """A breakpoint to be purged: the head of its chain, and the data that will remain."""

    id: str
    version: int
    head: str
    run_id: str | None
    tags: tuple[str, ...]
    answers: Sequence[Answer]
    comments: Sequence[Comment]
    files: Sequence[FileNamed]


class Retention(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._postgres = tx.session.dialect == "postgresql"

    def days(self) -> dict[str, int]:
        """Return the retention period, in days, of each project that has one."""
        rows = self._session.all("SELECT id, policy FROM assent_projects ORDER BY id", {})
        return {row[0]: days for row in rows if (days := _days(row[1]))}

    def lock(self, project: str) -> int | None:
        """Lock a project's holds and policy, and return its retention period in days."""
        statement = LOCK_TO_PURGE if self._postgres else LOCK_TO_PURGE.removesuffix(" FOR SHARE")
        return _days(self._session.all(statement, {"project_id": project})[0][0])

    def old(self, project: str, *, before: int, limit: int) -> list[Old]:
        """Lock and return breakpoints that ended at or before a given time and are neither purged nor on hold."""
        lock = " FOR UPDATE OF b SKIP LOCKED" if self._postgres else ""
        rows = self._session.all(SELECT_OLD + lock, {"project_id": project, "before": before, "limit": limit})
        ids = [row[0] for row in rows]
        answers = self._children(SELECT_ANSWERS, ids)
        comments = self._children(SELECT_COMMENTS, ids)
        entries = self._children(SELECT_ENTRIES, ids)
        return [
            Old(
                id=breakpoint_id,
                version=version,
                head=head,
                run_id=run_id,
                tags=tuple(msgspec.json.decode(tags)),
                answers=[answer_of(each) for each in answers[breakpoint_id]],
                comments=[Comment(*each) for each in comments[breakpoint_id]],
                files=[FileNamed(*each) for each in entries[breakpoint_id]],
            )
            for breakpoint_id, version, head, run_id, tags in rows
        ]

    def _children(self, statement: str, ids: list[str]) -> dict[str, list[Row]]:
        these, params = among("breakpoint_id", ids, self._session.dialect)
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self._session.all(statement.format(these=these), params):
            found[row[0]].append(row[1:])
        return found

    def purge(self, project: str, old: Sequence[Old], told: Sequence[Event]) -> None:
        """Remove the content of these breakpoints and record the purge; raise if one has changed or is on hold."""
        ids = [event.breakpoint_id for event in told]
        # Update the index before the words are deleted, because it needs the words to remove a row.
        if not self._postgres:
            self._on_these(UNINDEX, ids, column="id")
        self._on_these(DELETE_WORDS, ids, column="id")
        rows = [{"id": each.breakpoint_id, "seq": each.seq, "head": each.hash, "at": each.at} for each in told]
        if self._session.change(PURGE[self._session.dialect], {"rows": to_json(rows)}) != len(rows):
            msg = "Nothing was purged: a selected breakpoint has changed or is under legal hold."
            raise Unavailable(msg)
        self._session.write(INSERT_EVENT, [event_row(each) for each in told])
        self._blank_events(ids)
        for statement in (BLANK_RESPONSES, BLANK_COMMENTS, BLANK_ENTRIES):
            self._on_these(statement, ids)
        for table in BESIDE:
            self._on_these(f"DELETE FROM {table} WHERE {{these}}", ids)
        self._delete_files(project, sorted({file.sha256 for each in old for file in each.files if file.sha256}))

    def old_runs(self, project: str, *, before: int, limit: int) -> list[str]:
        """Lock and return runs that ended at or before a given time and are not on hold."""
        lock = " FOR UPDATE OF r SKIP LOCKED" if self._postgres else ""
        rows = self._session.all(SELECT_OLD_RUNS + lock, {"project_id": project, "before": before, "limit": limit})
        return [row[0] for row in rows]

    def purge_runs(self, project: str, ids: list[str]) -> None:
        these, params = among("run_id", ids, self._session.dialect)
        digests = [row[0] for row in self._session.all(SELECT_RUN_FILES.format(these=these), params)]
        for table, column in DELETE_OF_RUNS:
            self._on_these(f"DELETE FROM {table} WHERE {{these}}", ids, column=column)
        self._delete_files(project, sorted(digests))

    def _on_these(self, statement: str, ids: list[str], *, column: str = "breakpoint_id") -> None:
        these, params = among(column, ids, self._session.dialect)
        self._session.write(statement.format(these=these), [params])

    def _blank_events(self, ids: list[str]) -> None:
        these, params = among("breakpoint_id", ids, self._session.dialect)
        rows = [
            {"id": breakpoint_id, "seq": seq, "metadata": to_json(stub(msgspec.json.decode(metadata)))}
            for breakpoint_id, seq, metadata in self._session.all(SELECT_SPOKEN.format(these=these), params)
        ]
        if rows:
            self._session.write(BLANK_EVENTS[self._session.dialect], [{"rows": to_json(rows)}])

    def _delete_files(self, project: str, digests: list[str]) -> None:
        """Delete file contents that are no longer used by any breakpoint or run."""
        if not digests:
            return
        these, params = among("sha256", digests, self._session.dialect)
        if self._postgres:
            self._session.all(LOCK_FILES.format(these=these), params | {"project_id": project})
        self._session.write(DELETE_FILES.format(these=these), [params | {"project_id": project}])


def _days(policy: str) -> int | None:
    days: int | None = msgspec.json.decode(policy).get("retentionDays")
    return days
