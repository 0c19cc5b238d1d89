"""Sources of trigger events: their configuration, the time of the last event, and rejected requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from assent.core.errors import Conflict, NotFound
from assent.db.sql import insert, to_json
from assent.db.transaction import Store, Transaction
from assent.platform.admin_log import AdminLog

LONGEST_ERROR = 500
COLUMNS = (
    "id", "project_id", "name", "kind", "settings", "enabled", "origin", "created_by", "created_at", "updated_by",
    "updated_at", "removed_at", "heard_at", "refused_at", "refused", "last_refusal", "problem", "memory", "next_at",
    "silent_at", "alarm_id",
)  # fmt: skip
INSERT = insert("assent_sources", COLUMNS, suffix="ON CONFLICT (project_id, name) WHERE removed_at IS NULL DO NOTHING")
# The memory of a local source can be large, and only the source itself needs it.
_LISTED = ", ".join("NULL" if name == "memory" else name for name in COLUMNS)
SELECT = f"SELECT {_LISTED} FROM assent_sources"
UPDATE = """
    UPDATE assent_sources
    SET settings = :settings, enabled = :enabled, next_at = :next_at, silent_at = :silent_at, problem = NULL,
        updated_by = :updated_by, updated_at = :updated_at
    WHERE id = :id AND updated_at = :expected AND removed_at IS NULL"""
REMOVE = """
    UPDATE assent_sources
    SET removed_at = :now, updated_by = :by, updated_at = :now, next_at = NULL, silent_at = NULL
    WHERE id = :id AND removed_at IS NULL"""
# Update this row at most once per second, because a busy source would otherwise update it for every event.
NOTE_HEARD = """
    UPDATE assent_sources SET heard_at = :now, silent_at = :silent_at
    WHERE id = :id AND (heard_at IS NULL OR heard_at < :now - 1000000)"""
NOTE_REFUSED = """
    UPDATE assent_sources SET refused = refused + :count, refused_at = :now, last_refusal = :why WHERE id = :id"""
NOTE_PROBLEM = "UPDATE assent_sources SET problem = :problem WHERE id = :id AND removed_at IS NULL"
REMEMBER = "UPDATE assent_sources SET memory = :memory WHERE id = :id"
# If two nodes watch the same source, the first to update its memory reports the change; the other node's update fails.
REMEMBER_FIRST = f"{REMEMBER} AND memory IS NULL"
REMEMBER_NEXT = f"{REMEMBER} AND substr(memory, 1, :width) = :seen"
# The node that advances `next_at` owns the tick, so that two nodes never tick for the same time.
TICKED = "UPDATE assent_sources SET next_at = :next_at WHERE id = :id AND next_at = :expected AND removed_at IS NULL"
ALARMED = "UPDATE assent_sources SET alarm_id = :alarm_id, silent_at = :silent_at WHERE id = :id"
DUE = f"{SELECT} WHERE next_at <= :now AND enabled = 1 AND removed_at IS NULL ORDER BY next_at LIMIT :limit"
SILENT = f"{SELECT} WHERE silent_at <= :now AND enabled = 1 AND removed_at IS NULL ORDER BY silent_at LIMIT :limit"
SELECT_NEXT_SILENT = """
    SELECT silent_at FROM assent_sources
    WHERE silent_at IS NOT NULL AND enabled = 1 AND removed_at IS NULL ORDER BY silent_at LIMIT 1"""
SELECT_NEXT_DUE = """
    SELECT next_at FROM assent_sources
    WHERE next_at IS NOT NULL AND enabled = 1 AND removed_at IS NULL ORDER BY next_at LIMIT 1"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSource:
    id: str
    project: str
    name: str
    kind: str
    settings: Mapping[str, Any]
    enabled: bool = True
    origin: str = "api"
    created_by: str = "system"
    created_at: int = 0
    updated_by: str = "system"
    updated_at: int = 0
    removed_at: int | None = None
    heard_at: int | None = None
    refused_at: int | None = None
    refused: int = 0
    last_refusal: str | None = None
    problem: str | None = None
    memory: str | None = None
    next_at: int | None = None
    silent_at: int | None = None
    alarm_id: str | None = None


class Sources(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._log = tx[AdminLog]

    def add(self, source: StoredSource) -> None:
        with self._log.changes("source", source.id, project=source.project):
            if self._session.change(INSERT, _row(source)) != 1:
                msg = f"A source named {source.name} already exists."
                raise Conflict(msg)

    def save(self, source: StoredSource, *, now: int) -> StoredSource:
        """Save settings, state and due times if the source has not changed since it was read, and return the result."""
        row = _row(source)
        picked = {name: row[name] for name in ("id", "settings", "enabled", "next_at", "silent_at", "updated_by")}
        # Always increase `updated_at`, which serves as the version of the row, even if the clock has not advanced.
        params = picked | {"expected": source.updated_at, "updated_at": max(now, source.updated_at + 1)}
        with self._log.changes("source", source.id, project=source.project):
            if self._session.change(UPDATE, params) != 1:
                msg = f"The source {source.name} was changed or removed in the meantime. Reload it and try again."
                raise Conflict(msg)
        return self.get(source.id)

    def remove(self, source_id: str, *, now: int, by: str = "system") -> None:
        """Mark a source as removed. It receives no more events, but its past events still refer to it."""
        with self._log.changes("source", source_id, project=self.get(source_id).project):
            if self._session.change(REMOVE, {"id": source_id, "now": now, "by": by}) != 1:
                raise _missing(source_id)

    def find(self, source_id: str) -> StoredSource | None:
        """Return a source, including a removed one, but always without its memory."""
        rows = self._session.all(f"{SELECT} WHERE id = :id", {"id": source_id})
        return _source(rows[0]) if rows else None

    def get(self, source_id: str) -> StoredSource:
        found = self.find(source_id)
        if found is None:
            raise _missing(source_id)
        return found

    def every(self) -> list[StoredSource]:
        """Return the sources of all projects, except removed ones."""
        rows = self._session.all(f"{SELECT} WHERE removed_at IS NULL ORDER BY project_id, name", {})
        return [_source(row) for row in rows]

    def in_project(self, project: str) -> list[StoredSource]:
        statement = f"{SELECT} WHERE project_id = :project_id AND removed_at IS NULL ORDER BY name"
        return [_source(row) for row in self._session.all(statement, {"project_id": project})]

    def by_name(self, project: str, name: str) -> StoredSource | None:
        statement = f"{SELECT} WHERE project_id = :project_id AND name = :name AND removed_at IS NULL"
        rows = self._session.all(statement, {"project_id": project, "name": name})
        return _source(rows[0]) if rows else None

    def due(self, now: int, *, limit: int) -> list[StoredSource]:
        """Return the schedules that are due. To claim a tick, call `ticked`."""
        return [_source(row) for row in self._session.all(DUE, {"now": now, "limit": limit})]

    def ticked(self, source: StoredSource, *, next_at: int | None) -> bool:
        params = {"id": source.id, "expected": source.next_at, "next_at": next_at}
        return self._session.change(TICKED, params) == 1

    def silent(self, now: int, *, limit: int) -> list[StoredSource]:
        """Return the sources that should have received an event by now."""
        return [_source(row) for row in self._session.all(SILENT, {"now": now, "limit": limit})]

    def with_alarm(self) -> list[StoredSource]:
        """Return the sources with an alert about their silence, including removed ones."""
        return [_source(row) for row in self._session.all(f"{SELECT} WHERE alarm_id IS NOT NULL ORDER BY id", {})]

    def alarmed(self, source_id: str, *, alarm_id: str | None, silent_at: int | None) -> None:
        self._session.write(ALARMED, [{"id": source_id, "alarm_id": alarm_id, "silent_at": silent_at}])

    def note_heard(self, source_id: str, now: int, *, silent_at: int | None) -> None:
        self._session.write(NOTE_HEARD, [{"id": source_id, "now": now, "silent_at": silent_at}])

    def note_refused(self, source_id: str, why: str, now: int, *, count: int = 1) -> None:
        row = {"id": source_id, "why": why[:LONGEST_ERROR], "now": now, "count": count}
        self._session.write(NOTE_REFUSED, [row])

    def note_problem(self, source_id: str, problem: str | None) -> None:
        self._session.write(NOTE_PROBLEM, [{"id": source_id, "problem": problem and problem[:LONGEST_ERROR]}])

    def memory(self, source_id: str) -> Any:  # noqa: ANN401  # any JSON value that the source stored
        """Return the state that the source stored for its next restart, or None."""
        rows = self._session.all("SELECT memory FROM assent_sources WHERE id = :id", {"id": source_id})
        return msgspec.json.decode(rows[0][0]) if rows and rows[0][0] else None

    def remember(self, source_id: str, memory: object) -> None:
        self._session.write(REMEMBER, [{"id": source_id, "memory": msgspec.json.encode(memory).decode()}])

    def remember_next(self, source_id: str, memory: object, *, turn: str, after: str | None) -> bool:
        """Store new memory with this turn if the previous turn is still stored; `memory` returns both."""
        params: dict[str, Any] = {"id": source_id, "memory": msgspec.json.encode([turn, memory]).decode()}
        if after is None:
            return self._session.change(REMEMBER_FIRST, params) == 1
        # The memory is stored as JSON that starts with its turn, so comparing the beginning is sufficient.
        seen = f'["{after}",'
        return self._session.change(REMEMBER_NEXT, params | {"seen": seen, "width": len(seen)}) == 1


def _missing(source_id: str) -> NotFound:
    return NotFound(f"Source {source_id} not found.")


def _row(source: StoredSource) -> dict[str, Any]:
    row = {name: getattr(source, name) for name in COLUMNS if name != "project_id"}
    return row | {
        "project_id": source.project,
        "settings": to_json(source.settings),
        "enabled": int(source.enabled),
    }


def _source(row: Sequence[Any]) -> StoredSource:
    found = dict(zip(COLUMNS, row, strict=True))
    project, settings, enabled = found.pop("project_id"), found.pop("settings"), found.pop("enabled")
    return StoredSource(**found, project=project, settings=msgspec.json.decode(settings), enabled=bool(enabled))
