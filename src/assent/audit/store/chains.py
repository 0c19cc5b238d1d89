"""Reads complete breakpoints in batches, and runs queries that find violations of invariants."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from assent.audit.chain_checks import Answer, FileNamed, Stored, StoredRouting
from assent.audit.store.admin_log import AdminAudit
from assent.audit.store.rules import RuleAudit
from assent.breakpoints.store.breakpoints import COLUMNS, breakpoint_of, event_of, response_of
from assent.core.breakpoint import Comment
from assent.core.chain import Finding, Part
from assent.core.seats import Deputy
from assent.db.sql import Row, among
from assent.db.transaction import Store, Transaction

_CLAIMED = COLUMNS.index("agent_id_claimed")
_BESIDE = ("ordinal", "question", "attempt", "search", "counts_as", "purged_at")
_WORDS = """
    coalesce((SELECT w.words FROM assent_breakpoint_words w WHERE w.ordinal = assent_breakpoints.ordinal), '')"""
_SELECT = f"""
    SELECT {", ".join((*COLUMNS, *_BESIDE))}, {_WORDS} AS words
    FROM assent_breakpoints WHERE ordinal > :after"""
_ONE_PROJECT = " AND project_id = :project_id"
_ONE = " AND id = :id"
_EVENTS = "SELECT breakpoint_id, seq, type, actor, at, metadata, previous, hash FROM assent_events"
_RESPONSES = """
    SELECT r.breakpoint_id, r.person_id, p.name, r.first_at, r.person, r.approved, r.at, r.via, r.comment, r.option,
           r.answers, r.edits, r.seat, r.in_place_of, r.override, r.digest, r.after_reset_by
    FROM assent_responses r LEFT JOIN assent_people p ON p.id = r.person_id"""
_COMMENTS = "SELECT breakpoint_id, id, author, comment, created_at FROM assent_comments"
_FILES = "SELECT breakpoint_id, n, path, format, language, sha256, size FROM assent_breakpoint_files"
_ROUTINGS = "SELECT breakpoint_id, route_id, route, deputies FROM assent_routings"
_BYTES = """
    SELECT f.project_id, f.sha256, f.size, f.content FROM assent_files f
    WHERE (f.project_id, f.sha256) > (:after_project, :after_sha256)"""
_BYTES_OF_ONE = """
    AND EXISTS (
        SELECT 1 FROM assent_breakpoint_files e JOIN assent_breakpoints b ON b.id = e.breakpoint_id
        WHERE b.id = :id AND b.project_id = f.project_id AND e.sha256 = f.sha256)"""
_NOTHING_OR = [COLUMNS.index(name) for name in ("decision", "ended_by", "result")]
_UNREADABLE = (ValueError, TypeError, KeyError, msgspec.MsgspecError)

TRIGGERS = {
    "assent_breakpoints_fixed", "assent_breakpoints_counted", "assent_breakpoints_blanked",
    "assent_breakpoints_ended", "assent_breakpoints_kept",
    "assent_events_unchanged", "assent_events_purged", "assent_events_kept",
    "assent_responses_late", "assent_responses_unchanged", "assent_responses_kept",
    "assent_comments_unchanged", "assent_comments_kept", "assent_holds_unchanged", "assent_holds_kept",
    "assent_rules_fixed", "assent_rules_removed", "assent_rules_kept",
    "assent_rule_events_unchanged", "assent_rule_events_kept", "assent_shadows_unchanged", "assent_shadows_kept",
    "assent_receipt_keys_fixed", "assent_receipt_keys_revoked", "assent_receipt_keys_kept",
    "assent_receipt_uses_approved", "assent_receipt_uses_unchanged", "assent_receipt_uses_kept",
    "assent_runs_ended", "assent_run_journal_unchanged",
    "assent_events_noted", "assent_rule_events_noted", "assent_admin_events_noted",
    "assent_admin_events_unchanged", "assent_admin_events_kept", "assent_admin_chains_kept",
    "assent_epochs_unchanged", "assent_epochs_kept",
    "assent_leaves_unchanged", "assent_leaves_kept", "assent_nodes_unchanged", "assent_nodes_kept",
    "assent_checkpoints_unchanged", "assent_checkpoints_kept",
    "assent_checkpoint_keys_fixed", "assent_checkpoint_keys_kept",
}  # fmt: skip
_NEVER_EMPTIED = (
    "breakpoints", "events", "responses", "comments", "holds", "rules", "rule_events", "shadows", "receipt_keys",
    "receipt_uses", "leaves", "nodes", "checkpoints", "checkpoint_keys", "admin_events", "admin_chains", "epochs",
)  # fmt: skip
_EMPTIED = {f"assent_{table}_emptied" for table in _NEVER_EMPTIED}
LOCKS = {"sqlite": TRIGGERS, "postgresql": TRIGGERS | _EMPTIED}
_LOCKS_NOW = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')",
}
_TABLES_NOW = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
    "postgresql": "SELECT table_name FROM information_schema.tables WHERE table_schema = :schema",
}

_CALLBACKS = "e.type IN ('created', 'responded', 'released', 'expired', 'cancelled') AND b.callback_url IS NOT NULL"
_HAS_PARENT = "EXISTS (SELECT 1 FROM assent_breakpoints b WHERE b.id = c.{column})"


@dataclass(frozen=True, slots=True)
class Question:
    """An invariant: a query that counts the rows to check, and queries that find violations."""

    count: str
    wrong: Sequence[str]
    """Each query returns a breakpoint ID, an event number or NULL, and a description of the problem."""


def _none_without(table: str, column: str = "breakpoint_id", seq: str = "NULL") -> str:
    said = f"'a row of {table} belongs to a breakpoint that does not exist'"
    return f"SELECT c.{column}, {seq}, {said} FROM {table} c WHERE NOT {_HAS_PARENT.format(column=column)}"


ORPHANS = (
    _none_without("assent_events", seq="c.seq"),
    _none_without("assent_responses"),
    _none_without("assent_comments"),
    _none_without("assent_breakpoint_files"),
    _none_without("assent_deliveries", seq="c.seq"),
    _none_without("assent_labels", "id"),
    _none_without("assent_shadows"),
    _none_without("assent_receipt_uses"),
    _none_without("assent_held_answers"),
    _none_without("assent_unsent_answers"),
    _none_without("assent_claims"),
    _none_without("assent_snoozes"),
    _none_without("assent_absent_agents"),
    _none_without("assent_routings"),
)

QUESTIONS: Mapping[str, Question] = {
    "I6": Question(
        "SELECT (SELECT count(*) FROM assent_responses) + count(*) FROM assent_breakpoints WHERE decision IS NOT NULL",
        (
            """SELECT id, NULL, 'it was ' || decision || ' by ' || ended_by || ', who created it'
            FROM assent_breakpoints WHERE decision IS NOT NULL AND ended_by = created_by""",
            """SELECT id, NULL, 'it was approved by ' || ended_by || ', which is neither a person nor a rule'
            FROM assent_breakpoints
            WHERE decision = 'approved' AND ended_by NOT LIKE 'person:%' AND ended_by NOT LIKE 'rule:%'""",
            """SELECT id, NULL, 'it was decided by ' || ended_by || ', who does not exist'
            FROM assent_breakpoints b WHERE decision IS NOT NULL AND ended_by LIKE 'person:%'
              AND NOT EXISTS (SELECT 1 FROM assent_people p WHERE p.name = substr(b.ended_by, 8))""",
            """SELECT r.breakpoint_id, NULL, r.person || ' answered before their account was created'
            FROM assent_responses r JOIN assent_people p ON p.id = r.person_id WHERE p.created_at > r.at""",
            """SELECT b.id, NULL, u.used_by || ' used its receipt, but it had not been approved'
            FROM assent_receipt_uses u JOIN assent_breakpoints b ON b.id = u.breakpoint_id
            WHERE b.decision IS NULL OR b.decision <> 'approved' OR u.used_at < b.ended_at""",
        ),
    ),
    "I7": Question(
        "SELECT count(*) FROM assent_breakpoints WHERE decision = 'approved'",
        (
            """SELECT id, NULL, 'it was approved at or after its deadline'
            FROM assent_breakpoints WHERE decision = 'approved' AND ended_at >= due_at""",
            """SELECT r.breakpoint_id, NULL, r.person || ' answered at or after its deadline'
            FROM assent_responses r JOIN assent_breakpoints b ON b.id = r.breakpoint_id WHERE r.at >= b.due_at""",
        ),
    ),
    "I8": Question(
        f"""SELECT (SELECT count(*) FROM assent_deliveries) + count(*)
        FROM assent_events e JOIN assent_breakpoints b ON b.id = e.breakpoint_id WHERE {_CALLBACKS}""",
        (
            f"""SELECT e.breakpoint_id, e.seq, 'it has no delivery to the callback URL, or more than one'
            FROM assent_events e JOIN assent_breakpoints b ON b.id = e.breakpoint_id
            WHERE {_CALLBACKS} AND (
                SELECT count(*) FROM assent_deliveries d
                WHERE d.breakpoint_id = e.breakpoint_id AND d.channel = 'callback' AND d.recipient = b.callback_url
                  AND d.seq = e.seq AND d.type = e.type) <> 1""",
            """SELECT d.breakpoint_id, d.seq, 'a delivery refers to this event, but the event does not exist'
            FROM assent_deliveries d WHERE NOT EXISTS (
                SELECT 1 FROM assent_events e
                WHERE e.breakpoint_id = d.breakpoint_id AND e.seq = d.seq AND e.type = d.type)""",
        ),
    ),
    "I9": Question(
        "SELECT count(*) FROM assent_idempotency",
        (
            """SELECT breakpoint_id, NULL, 'an idempotency key refers to it, but it does not exist'
            FROM assent_idempotency c
            WHERE NOT EXISTS (SELECT 1 FROM assent_breakpoints b WHERE b.id = c.breakpoint_id)
              AND NOT EXISTS (SELECT 1 FROM assent_runs r WHERE r.id = c.breakpoint_id)""",
            """SELECT min(breakpoint_id), NULL, 'one idempotency key refers to several breakpoints, including this one'
            FROM assent_idempotency GROUP BY principal_id, key HAVING count(*) > 1""",
        ),
    ),
    "I10": Question(
        """SELECT (SELECT count(*) FROM assent_deliveries WHERE state IN ('pending', 'sending')) + count(*)
        FROM assent_breakpoints WHERE status = 'waiting'""",
        (
            """SELECT id, NULL, 'its deadline passed more than a minute ago, but it is still pending'
            FROM assent_breakpoints WHERE status = 'waiting' AND due_at < :now - 60000000""",
            """SELECT b.id, NULL, 'the answer of ' || p.name || ' is more than a minute overdue'
            FROM assent_held_answers h JOIN assent_breakpoints b ON b.id = h.breakpoint_id
            JOIN assent_people p ON p.id = h.person_id WHERE h.due_at < :now - 60000000""",
            """SELECT breakpoint_id, NULL, 'a notification about it is more than a minute overdue'
            FROM assent_routings WHERE next_at < :now - 60000000""",
            """SELECT b.id, d.seq, 'it has ended, but a delivery about it has been overdue for ten minutes'
            FROM assent_deliveries d JOIN assent_breakpoints b ON b.id = d.breakpoint_id
            WHERE d.state IN ('pending', 'sending') AND d.next_at < :now - 600000000 AND b.status <> 'waiting'
              AND NOT EXISTS (
                SELECT 1 FROM assent_deliveries f
                WHERE f.breakpoint_id = d.breakpoint_id AND f.channel = d.channel AND f.recipient = d.recipient
                  AND f.seq < d.seq AND f.state IN ('pending', 'sending'))""",
            """SELECT s.breakpoint_id, NULL, 'it ended ten minutes ago, but its run ' || r.id || ' is still waiting'
            FROM assent_run_steps s JOIN assent_runs r ON r.id = s.run_id
            JOIN assent_breakpoints b ON b.id = s.breakpoint_id
            WHERE s.state IN ('waiting', 'answered') AND r.state IN ('queued', 'suspended')
              AND b.ended_at < :now - 600000000""",
            """SELECT r.id, NULL, 'this run is suspended, but has nothing to wait for' FROM assent_runs r
            WHERE r.state = 'suspended' AND NOT EXISTS (
                SELECT 1 FROM assent_run_steps s
                WHERE s.run_id = r.id AND s.state IN ('waiting', 'answered', 'retrying'))""",
        ),
    ),
    "I12": Question(
        """SELECT (SELECT count(*) FROM assent_deliveries) + (SELECT count(*) FROM assent_labels)
        + (SELECT count(*) FROM assent_holds WHERE breakpoint_id IS NOT NULL)
        + (SELECT count(*) FROM assent_held_answers) + (SELECT count(*) FROM assent_claims)
        + (SELECT count(*) FROM assent_unsent_answers) + (SELECT count(*) FROM assent_absent_agents)
        + (SELECT count(*) FROM assent_routings)
        + (SELECT count(*) FROM assent_shadows) + count(*) FROM assent_breakpoint_files""",
        (
            """SELECT c.id, NULL, 'the search index has a different project, status, time or agent for it: ' || c.label
            FROM assent_labels c JOIN assent_breakpoints b ON b.id = c.id
            WHERE c.project_id <> b.project_id OR c.status <> b.status OR c.created_at <> b.created_at
               OR c.agent_id <> b.agent_id""",
            """SELECT c.breakpoint_id, c.seq, 'a delivery about it belongs to project ' || c.project_id
            FROM assent_deliveries c JOIN assent_breakpoints b ON b.id = c.breakpoint_id
            WHERE c.project_id <> b.project_id""",
            """SELECT c.breakpoint_id, NULL,
                'an answer to it, its claim or its notification belongs to project ' || c.project_id
            FROM (SELECT breakpoint_id, project_id FROM assent_held_answers
                  UNION ALL SELECT breakpoint_id, project_id FROM assent_unsent_answers
                  UNION ALL SELECT breakpoint_id, project_id FROM assent_claims
                  UNION ALL SELECT breakpoint_id, project_id FROM assent_absent_agents
                  UNION ALL SELECT breakpoint_id, project_id FROM assent_routings) c
            JOIN assent_breakpoints b ON b.id = c.breakpoint_id WHERE c.project_id <> b.project_id""",
            """SELECT c.breakpoint_id, NULL, 'a legal hold on it belongs to project ' || c.project_id
            FROM assent_holds c JOIN assent_breakpoints b ON b.id = c.breakpoint_id
            WHERE c.project_id <> b.project_id""",
            """SELECT c.breakpoint_id, NULL,
                'the rule ' || r.id || ', which matched it in shadow mode, belongs to project ' || r.project_id
            FROM assent_shadows c JOIN assent_rules r ON r.id = c.rule_id
            JOIN assent_breakpoints b ON b.id = c.breakpoint_id WHERE r.project_id <> b.project_id""",
            """SELECT c.breakpoint_id, NULL, 'the content of its file number ' || c.n || ' is missing from its project'
            FROM assent_breakpoint_files c JOIN assent_breakpoints b ON b.id = c.breakpoint_id
            WHERE c.sha256 IS NOT NULL AND b.purged_at IS NULL AND NOT EXISTS (
                SELECT 1 FROM assent_files f WHERE f.project_id = b.project_id AND f.sha256 = c.sha256)""",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of complete breakpoints; `last` is where the next batch starts, or None after the last batch."""

    stored: Sequence[Stored]
    unreadable: Sequence[Finding]
    events: int
    last: int | None


class Audit(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self.rules = tx[RuleAudit]
        self.admin = tx[AdminAudit]

    def one_moment(self) -> None:
        """Read everything in this transaction from a single snapshot, which SQLite always does."""
        if self._session.dialect == "postgresql":
            self._session.write("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY", [{}])

    def batch(self, *, after: int, limit: int, project: str | None = None, breakpoint_id: str | None = None) -> Batch:
        tests = (_ONE_PROJECT if project is not None else "") + (_ONE if breakpoint_id is not None else "")
        params = {"after": after, "limit": limit, "project_id": project, "id": breakpoint_id}
        rows = self._session.all(f"{_SELECT}{tests} ORDER BY ordinal LIMIT :limit", params)
        children = self._children([row[0] for row in rows])
        stored: list[Stored] = []
        unreadable: list[Finding] = []
        for row in rows:
            try:
                stored.append(_stored(row, children))
            except _UNREADABLE as error:
                what = f"its rows cannot be read: {type(error).__name__}: {error}"
                unreadable.append(Finding(Part.ROWS, str(row[0]), None, what))
        events = sum(map(len, children["events"].values()))
        return Batch(stored, unreadable, events, rows[-1][len(COLUMNS)] if len(rows) == limit else None)

    def files(
        self, *, after: tuple[str, str], limit: int, project: str | None = None, breakpoint_id: str | None = None
    ) -> Sequence[Row]:
        """Return the project, digest, size and content of a batch of files."""
        tests = " AND f.project_id = :project_id" if project is not None else ""
        tests += _BYTES_OF_ONE if breakpoint_id is not None else ""
        params = {
            "after_project": after[0],
            "after_sha256": after[1],
            "limit": limit,
            "project_id": project,
            "id": breakpoint_id,
        }
        return self._session.all(f"{_BYTES}{tests} ORDER BY f.project_id, f.sha256 LIMIT :limit", params)

    def _children(self, ids: list[str]) -> dict[str, dict[str, list[Row]]]:
        test, params = among("breakpoint_id", ids, self._session.dialect)
        return {
            "events": self._by_parent(f"{_EVENTS} WHERE {test} ORDER BY breakpoint_id, seq", params),
            "answers": self._by_parent(f"{_RESPONSES} WHERE {test} ORDER BY r.first_at, r.person_id", params),
            "comments": self._by_parent(f"{_COMMENTS} WHERE {test} ORDER BY created_at, id", params),
            "routings": self._by_parent(f"{_ROUTINGS} WHERE {test}", params),
            "files": self._by_parent(f"{_FILES} WHERE {test} ORDER BY n", params),
        }

    def _by_parent(self, statement: str, params: Mapping[str, Any]) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self._session.all(statement, params):
            found[row[0]].append(row)
        return found

    def count(self, question: str) -> int:
        return int(self._session.all(QUESTIONS[question].count, {})[0][0])

    def wrong(self, question: str, *, now: int) -> list[Finding]:
        return [
            Finding(Part.ROWS, *row)
            for statement in QUESTIONS[question].wrong
            for row in self._session.all(statement, {"now": now})
        ]

    def orphans(self) -> list[Finding]:
        found = [Finding(Part.ROWS, *row) for statement in ORPHANS for row in self._session.all(statement, {})]
        return found + self.rules.orphans()

    def worker_seen(self, since: int) -> bool:
        statement = "SELECT 1 FROM assent_workers WHERE seen_at >= :since LIMIT 1"
        return bool(self._session.all(statement, {"since": since}))

    def outcomes(self, ids: list[str]) -> dict[str, tuple[str, str | None]]:
        """Return the status and decision of each of these breakpoints that exists."""
        test, params = among("id", ids, self._session.dialect)
        rows = self._session.all(f"SELECT id, status, decision FROM assent_breakpoints WHERE {test}", params)
        return {row[0]: (row[1], row[2]) for row in rows}

    def missing_locks(self) -> list[str]:
        """Return the names of protective triggers that are missing."""
        found = {row[0] for row in self._session.all(_LOCKS_NOW[self._session.dialect], {})}
        return sorted(LOCKS[self._session.dialect] - found)

    def missing_tables(self, expected: Collection[str], *, schema: str) -> list[str]:
        """Return the missing tables; `schema` is their schema on PostgreSQL."""
        found = {row[0] for row in self._session.all(_TABLES_NOW[self._session.dialect], {"schema": schema})}
        return sorted(set(expected) - found)

    def damage(self, *, quickly: bool = False) -> list[str]:
        """Return the damage that SQLite detects in the database file; PostgreSQL checks pages as it reads them."""
        if self._session.dialect != "sqlite":
            return []
        if quickly:
            return [row[0] for row in self._session.all("PRAGMA quick_check(1)", {}) if row[0] != "ok"]
        said = [row[0] for row in self._session.all("PRAGMA integrity_check", {}) if row[0] != "ok"]
        broken = self._session.all("PRAGMA foreign_key_check", {})
        return said + [
            f"a row of {table} refers to a row of {parent} that does not exist" for table, _, parent, _ in broken
        ]


def _stored(row: Row, children: Mapping[str, Mapping[str, Sequence[Row]]]) -> Stored:
    def found(name: str) -> Sequence[Row]:
        return children[name].get(row[0], ())

    _refuse_empty([row[index] for index in _NOTHING_OR])
    if row[_CLAIMED] not in {0, 1}:
        msg = f"agent_id_claimed is {row[_CLAIMED]!r}, not 0 or 1"
        raise ValueError(msg)
    beside = dict(zip((*_BESIDE, "words"), row[len(COLUMNS) :], strict=True))
    return Stored(
        breakpoint=breakpoint_of(row[: len(COLUMNS)]),
        question=beside["question"],
        attempt=beside["attempt"],
        counts_as=beside["counts_as"],
        search=beside["words"],
        earlier_search=beside["search"],
        purged_at=beside["purged_at"],
        events=[event_of(each) for each in found("events")],
        answers=[answer_of(each[1:]) for each in found("answers")],
        comments=[Comment(*each[1:]) for each in found("comments")],
        files=[FileNamed(*each[1:]) for each in found("files")],
        routing=next((_routing(each[1:]) for each in found("routings")), None),
    )


def _routing(row: Sequence[Any]) -> StoredRouting:
    route_id, route, deputies = row
    kept = msgspec.json.decode(route) if route is not None else None
    return StoredRouting(route_id, kept, [Deputy(*each) for each in msgspec.json.decode(deputies)])


def answer_of(row: Sequence[Any]) -> Answer:
    """Build an answer from a row that contains person_id, the person's name, first_at and a response."""
    person_id, known_as, first_at, *response = row
    _refuse_empty(response[6:8])
    approved, override = response[1], response[-3]
    if approved not in (0, 1) or override not in (0, 1):
        msg = f"approved or override is neither 0 nor 1 in an answer by {response[0]}"
        raise ValueError(msg)
    return Answer(response_of(response), person_id, known_as, first_at)


def _refuse_empty(values: Sequence[Any]) -> None:
    """Reject empty strings, because missing values are stored as NULL and other code treats both alike."""
    if "" in values:
        msg = "a value is an empty string instead of NULL or JSON"
        raise ValueError(msg)
