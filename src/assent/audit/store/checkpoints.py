"""The log of all events: entries, events that have not been added yet, checkpoints, and their publication."""

import base64
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import msgspec

from assent.audit.checkpoint import entry
from assent.audit.merkle import Subtree, leaf
from assent.core.receipts import spelt
from assent.db.sql import Row, given, insert
from assent.db.transaction import Store, Transaction
from assent.platform.admin_events import INSTALLATION
from assent.platform.admin_log import AdminLog

_LOCK = 7_373_012
"""The key of the advisory lock that a node holds while it extends the log."""
# A subject's events are committed in `seq` order, and this query returns them for the log in the same order.
_UNSIGNED = """
    SELECT u.subject_id, u.seq, coalesce(e.hash, r.hash, a.hash)
    FROM assent_unsigned_events u
    LEFT JOIN assent_events e ON e.breakpoint_id = u.subject_id AND e.seq = u.seq
    LEFT JOIN assent_rule_events r ON r.rule_id = u.subject_id AND r.seq = u.seq
    LEFT JOIN assent_admin_events a ON a.chain_id = u.subject_id AND a.seq = u.seq
    WHERE coalesce(e.hash, r.hash, a.hash) IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM assent_leaves l WHERE l.subject_id = u.subject_id AND l.seq = u.seq)
    ORDER BY u.subject_id, u.seq LIMIT :limit"""
# These statements handle many rows at once, because one statement per row is slow on PostgreSQL.
_LEAF = {"position": "bigint", "subject_id": "text", "seq": "bigint", "hash": "text"}
_INSERT_LEAVES = """
    INSERT INTO assent_leaves (position, subject_id, seq, hash) SELECT position, subject_id, seq, hash FROM {given}"""
_SIGNED = "DELETE FROM assent_unsigned_events WHERE (subject_id, seq) IN (SELECT subject_id, seq FROM {given})"
_INSERT_NODE = insert("assent_nodes", ("level", "n", "hash"))
_LEAVES = """
    SELECT hash FROM assent_leaves WHERE position >= :first AND position < :upto ORDER BY position"""
_NODES = """
    SELECT hash FROM assent_nodes WHERE level = :level AND n >= :first AND n < :upto ORDER BY n"""
_PLACES = "SELECT subject_id, seq, position, hash FROM assent_leaves WHERE subject_id = :subject_id ORDER BY seq"
_COLUMNS = ("number", "size", "root", "at", "key_id", "note")
_INSERT = insert("assent_checkpoints", _COLUMNS)
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM assent_checkpoints"
_KEY = ("version", "key_id", "origin", "public_key", "created_at", "created_by", "retired_at")
_INSERT_KEY = insert("assent_checkpoint_keys", _KEY)
_SELECT_KEYS = f"SELECT {', '.join(_KEY)} FROM assent_checkpoint_keys ORDER BY version DESC"
_RETIRE_KEY = "UPDATE assent_checkpoint_keys SET retired_at = :now WHERE retired_at IS NULL"
_SELECT_ANCHOR = "SELECT number, attempts, next_at, error FROM assent_anchors WHERE place = :place"
_FIRST_ANCHOR = insert(
    "assent_anchors", ("place", "number", "at", "attempts", "next_at", "error"), suffix="ON CONFLICT DO NOTHING"
)
_ANCHORED = """
    UPDATE assent_anchors SET number = :number, at = :at, attempts = 0, next_at = NULL, error = NULL
    WHERE place = :place AND number < :number"""
_NOT_ANCHORED = """
    UPDATE assent_anchors SET attempts = :attempts, next_at = :next_at, error = :error, at = :at WHERE place = :place"""
# Log entries with their events' hashes (NULL if the event is missing). The next query finds events without an entry.
LOGGED = """
    SELECT l.position, l.subject_id, l.seq, l.hash, coalesce(e.hash, r.hash, a.hash)
    FROM assent_leaves l
    LEFT JOIN assent_events e ON e.breakpoint_id = l.subject_id AND e.seq = l.seq
    LEFT JOIN assent_rule_events r ON r.rule_id = l.subject_id AND r.seq = l.seq
    LEFT JOIN assent_admin_events a ON a.chain_id = l.subject_id AND a.seq = l.seq
    WHERE l.position >= :first ORDER BY l.position LIMIT :limit"""
_NOWHERE = """
    SELECT c.{subject}, c.seq FROM {table} c
    WHERE NOT EXISTS (SELECT 1 FROM assent_leaves l WHERE l.subject_id = c.{subject} AND l.seq = c.seq)
      AND NOT EXISTS (SELECT 1 FROM assent_unsigned_events u WHERE u.subject_id = c.{subject} AND u.seq = c.seq)"""
_GONE = """
    SELECT u.subject_id, u.seq FROM assent_unsigned_events u
    WHERE NOT EXISTS (SELECT 1 FROM assent_events e WHERE e.breakpoint_id = u.subject_id AND e.seq = u.seq)
      AND NOT EXISTS (SELECT 1 FROM assent_rule_events r WHERE r.rule_id = u.subject_id AND r.seq = u.seq)
      AND NOT EXISTS (SELECT 1 FROM assent_admin_events a WHERE a.chain_id = u.subject_id AND a.seq = u.seq)"""


@dataclass(frozen=True, slots=True)
class Leaf:
    """The position of an event in the log."""

    subject_id: str
    seq: int
    position: int
    hash: str


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    number: int
    size: int
    root: str
    at: int
    key_id: str
    note: str

    @property
    def root_hash(self) -> bytes:
        return bytes.fromhex(self.root)


@dataclass(frozen=True, slots=True)
class CheckpointKey:
    """A public key. New checkpoints are signed with the newest key, and signatures by older keys remain valid."""

    version: int
    key_id: str
    origin: str
    public: bytes
    created_at: int
    created_by: str
    retired_at: int | None = None


@dataclass(frozen=True, slots=True)
class Anchored:
    """The last checkpoint that an external destination has received, and when to retry."""

    number: int = 0
    attempts: int = 0
    next_at: int | None = None
    error: str | None = None


class Checkpoints(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._log = tx[AdminLog]

    def alone(self) -> bool:
        """Lock the log, or return False if another transaction is extending it; SQLite has only one writer anyway."""
        if self._session.dialect != "postgresql":
            return True
        return bool(self._session.all(f"SELECT pg_try_advisory_xact_lock({_LOCK})", {})[0][0])

    def unsigned(self, *, limit: int) -> Sequence[tuple[str, int, str]]:
        """Return events that no checkpoint covers yet, as subject, number and hash."""
        return [(row[0], row[1], row[2]) for row in self._session.all(_UNSIGNED, {"limit": limit})]

    def extend(self, leaves: Sequence[Leaf], nodes: Sequence[Subtree]) -> None:
        """Append entries to the log, and remove their events from the queue of unsigned events."""
        table = given(self._session.dialect, _LEAF)
        rows = {"rows": msgspec.json.encode(leaves).decode()}
        self._session.write(_INSERT_LEAVES.format(given=table), [rows])
        if nodes:
            self._session.write(
                _INSERT_NODE, [{"level": each.level, "n": each.n, "hash": each.hash.hex()} for each in nodes]
            )
        self._session.write(_SIGNED.format(given=table), [rows])

    def kept(self, level: int, first: int, count: int) -> list[bytes]:
        """Return stored hashes of the tree; hashes at level 0 are computed from the entries."""
        params = {"first": first, "upto": first + count}
        if level == 0:
            return [leaf(entry(row[0])) for row in self._session.all(_LEAVES, params)]
        return [bytes.fromhex(row[0]) for row in self._session.all(_NODES, params | {"level": level})]

    def places(self, subject_id: str) -> list[Leaf]:
        return [Leaf(*row) for row in self._session.all(_PLACES, {"subject_id": subject_id})]

    def add(self, new: StoredCheckpoint) -> None:
        row: Mapping[str, Any] = {name: getattr(new, name) for name in _COLUMNS}
        self._session.write(_INSERT, [row])

    def last(self) -> StoredCheckpoint | None:
        rows = self._session.all(f"{_SELECT} ORDER BY number DESC LIMIT 1", {})
        return StoredCheckpoint(*rows[0]) if rows else None

    def find(self, number: int) -> StoredCheckpoint | None:
        rows = self._session.all(f"{_SELECT} WHERE number = :number", {"number": number})
        return StoredCheckpoint(*rows[0]) if rows else None

    def before(self, number: int, *, limit: int) -> list[StoredCheckpoint]:
        """Return checkpoints with a lower number, newest first."""
        statement = f"{_SELECT} WHERE number < :number ORDER BY number DESC LIMIT :limit"
        return [StoredCheckpoint(*row) for row in self._session.all(statement, {"number": number, "limit": limit})]

    def after(self, number: int, *, limit: int) -> list[StoredCheckpoint]:
        """Return checkpoints with a higher number, oldest first."""
        statement = f"{_SELECT} WHERE number > :number ORDER BY number LIMIT :limit"
        return [StoredCheckpoint(*row) for row in self._session.all(statement, {"number": number, "limit": limit})]

    def of_sizes(self, above: int, to: int) -> list[StoredCheckpoint]:
        """Return checkpoints that cover more than `above` and at most `to` entries, smallest first."""
        statement = f"{_SELECT} WHERE size > :above AND size <= :upto ORDER BY size"
        return [StoredCheckpoint(*row) for row in self._session.all(statement, {"above": above, "upto": to})]

    def entries(self) -> int:
        """Return the number of entries in the log."""
        rows = self._session.all("SELECT max(position) FROM assent_leaves", {})
        return 0 if rows[0][0] is None else int(rows[0][0]) + 1

    def add_key(self, new: CheckpointKey) -> None:
        row = {
            "version": new.version,
            "key_id": new.key_id,
            "origin": new.origin,
            "public_key": spelt(new.public),
            "created_at": new.created_at,
            "created_by": new.created_by,
            "retired_at": new.retired_at,
        }
        with self._log.changes("checkpoint-key", new.key_id, project=INSTALLATION):
            self._session.write(_INSERT_KEY, [row])

    def retire_key(self, *, now: int) -> None:
        with ExitStack() as recorded:
            for key in self.every_key():
                recorded.enter_context(
                    self._log.changes("checkpoint-key", key.key_id, project=INSTALLATION, act="checkpoint-key-retired")
                )
            self._session.write(_RETIRE_KEY, [{"now": now}])

    def every_key(self) -> list[CheckpointKey]:
        """Return every key, newest first."""
        return [_key(row) for row in self._session.all(_SELECT_KEYS, {})]

    def anchored(self, place: str) -> Anchored:
        rows = self._session.all(_SELECT_ANCHOR, {"place": place})
        return Anchored(*rows[0]) if rows else Anchored()

    def note_anchored(self, place: str, *, number: int, now: int) -> None:
        self._first(place, now)
        self._session.write(_ANCHORED, [{"place": place, "number": number, "at": now}])

    def note_not_anchored(self, place: str, missed: Anchored, *, now: int) -> None:
        self._first(place, now)
        row = {"place": place, "attempts": missed.attempts, "next_at": missed.next_at, "error": missed.error, "at": now}
        self._session.write(_NOT_ANCHORED, [row])

    def _first(self, place: str, now: int) -> None:
        row = {"place": place, "number": 0, "at": now, "attempts": 0, "next_at": None, "error": None}
        self._session.write(_FIRST_ANCHOR, [row])

    def logged(self, *, first: int, limit: int) -> Sequence[Row]:
        """Return the position, subject, number, logged hash and event hash of log entries, in log order."""
        return self._session.all(LOGGED, {"first": first, "limit": limit})

    def nowhere(self) -> list[tuple[str, int]]:
        """Return events that are neither in the log nor waiting to be added."""
        tables = {
            "assent_events": "breakpoint_id",
            "assent_rule_events": "rule_id",
            "assent_admin_events": "chain_id",
        }
        return [
            (row[0], row[1])
            for table, subject in tables.items()
            for row in self._session.all(_NOWHERE.format(table=table, subject=subject), {})
        ]

    def gone(self) -> list[tuple[str, int]]:
        """Return events that are waiting to be added to the log but no longer exist."""
        return [(row[0], row[1]) for row in self._session.all(_GONE, {})]


def _key(row: Sequence[Any]) -> CheckpointKey:
    version, key_id, origin, public, *rest = row
    return CheckpointKey(version, key_id, origin, base64.b64decode(public), *rest)
