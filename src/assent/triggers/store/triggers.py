"""Triggers. Removed triggers are kept so that the runs they started can be explained."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from assent.core.errors import Conflict, InvalidRequest, NotFound
from assent.db.sql import among, insert
from assent.db.transaction import Store, Transaction
from assent.platform.admin_log import AdminLog
from assent.triggers.file_format import checked, written
from assent.triggers.model import Trigger, TriggerState

LONGEST_REASON = 500
COLUMNS = (
    "id", "project_id", "name", "content", "state", "because", "version", "origin", "created_by", "created_at",
    "updated_by", "updated_at", "removed_at", "fired_at", "alarm_id",
)  # fmt: skip
INSERT = insert("assent_triggers", COLUMNS, suffix="ON CONFLICT (project_id, name) WHERE removed_at IS NULL DO NOTHING")
SELECT = f"SELECT {', '.join(COLUMNS)} FROM assent_triggers"
UPDATE = """
    UPDATE assent_triggers
    SET content = :content, state = :state, because = :because, version = version + 1,
        updated_by = :updated_by, updated_at = :now
    WHERE id = :id AND version = :version AND removed_at IS NULL"""
REMOVE = """
    UPDATE assent_triggers SET removed_at = :now, updated_by = :by, updated_at = :now
    WHERE id = :id AND removed_at IS NULL"""
SET_STATE = """
    UPDATE assent_triggers
    SET state = :state, because = :because, alarm_id = COALESCE(:alarm_id, alarm_id), version = version + 1,
        updated_by = :by, updated_at = :now
    WHERE id = :id AND state <> :state AND removed_at IS NULL"""
# Alarms whose breakpoint has ended, or whose question has already been settled in another way.
ANSWERED = f"""
    SELECT {", ".join(f"t.{name}" for name in COLUMNS)}
    FROM assent_triggers t JOIN assent_breakpoints b ON b.id = t.alarm_id
    WHERE b.status <> 'waiting' OR t.state <> 'suspended' OR t.removed_at IS NOT NULL ORDER BY t.id LIMIT :limit"""
VERSIONS = """
    SELECT id, version, updated_at FROM assent_triggers
    WHERE project_id = :project_id AND removed_at IS NULL ORDER BY name"""
ALARMED = "UPDATE assent_triggers SET alarm_id = :alarm_id WHERE id = :id"
NOTE_FIRED = "UPDATE assent_triggers SET fired_at = :now WHERE id = :id"
# Concurrent changes to a project's triggers take turns.
WAIT = "SELECT pg_advisory_xact_lock(hashtextextended(:project_id, 7241003))"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrigger:
    id: str
    project: str
    trigger: Trigger
    said: TriggerState = TriggerState.ENABLED
    """The state in the definition. Suspending or resuming the trigger changes only `state`."""
    because: str | None = None
    version: int = 1
    origin: str = "api"
    created_by: str = "system"
    created_at: int = 0
    updated_by: str = "system"
    updated_at: int = 0
    removed_at: int | None = None
    fired_at: int | None = None
    alarm_id: str | None = None

    @property
    def name(self) -> str:
        return self.trigger.name

    @property
    def edition(self) -> tuple[int, int]:
        """Changes whenever the trigger changes; a version number alone can be reused after a rollback."""
        return self.version, self.updated_at

    @property
    def state(self) -> TriggerState:
        return self.trigger.state


class Triggers(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._log = tx[AdminLog]

    def wait_for_others(self, project: str) -> None:
        if self._session.dialect == "postgresql":
            self._session.all(WAIT, {"project_id": project})

    def add(self, stored: StoredTrigger) -> None:
        with self._log.changes("trigger", stored.id, project=stored.project):
            if self._session.change(INSERT, _row(stored)) != 1:
                msg = f"A trigger named {stored.name} already exists."
                raise Conflict(msg)

    def save(self, stored: StoredTrigger, *, now: int) -> StoredTrigger:
        """Save the definition and state if the version has not changed since it was read, and return the result."""
        self._session.news = True
        row = _row(stored)
        params = {name: row[name] for name in ("id", "content", "state", "because", "version", "updated_by")} | {
            "now": now
        }
        with self._log.changes("trigger", stored.id, project=stored.project):
            if self._session.change(UPDATE, params) != 1:
                msg = f"The trigger {stored.name} was changed or removed in the meantime. Reload it and try again."
                raise Conflict(msg)
        return self.get(stored.id, project=stored.project)

    def set_state(
        self,
        trigger_id: str,
        state: TriggerState,
        *,
        because: str | None,
        alarm_id: str | None,
        now: int,
        by: str = "system",
    ) -> bool:
        """Change the state; return False if it was already set. An existing alarm is kept unless a new one is given."""
        self._session.news = True
        reason = because and because[:LONGEST_REASON]
        params = {"id": trigger_id, "state": state.value, "because": reason, "alarm_id": alarm_id, "now": now, "by": by}
        with self._recorded(trigger_id):
            return self._session.change(SET_STATE, params) == 1

    def remove(self, trigger_id: str, *, now: int, by: str = "system") -> bool:
        self._session.news = True
        with self._recorded(trigger_id):
            return self._session.change(REMOVE, {"id": trigger_id, "now": now, "by": by}) == 1

    @contextmanager
    def _recorded(self, trigger_id: str) -> Generator[None, None, None]:
        rows = self._session.all("SELECT project_id FROM assent_triggers WHERE id = :id", {"id": trigger_id})
        with self._log.changes("trigger", trigger_id, project=rows[0][0] if rows else ""):
            yield

    def find(self, trigger_id: str) -> StoredTrigger | None:
        """Return a trigger, including a removed one."""
        rows = self._session.all(f"{SELECT} WHERE id = :id", {"id": trigger_id})
        return _trigger(rows[0]) if rows else None

    def current(self, trigger_id: str, known: StoredTrigger | None) -> StoredTrigger | None:
        """Return a trigger, including a removed one. Its definition is parsed only if it differs from the known one."""
        rows = self._session.all(f"{SELECT} WHERE id = :id", {"id": trigger_id})
        if not rows:
            return None
        found = dict(zip(COLUMNS, rows[0], strict=True))
        if known is None or known.edition != (found["version"], found["updated_at"]):
            return _readable(rows[0])
        # The alarm can change without a new edition.
        return replace(known, removed_at=found["removed_at"], alarm_id=found["alarm_id"])

    def get(self, trigger_id: str, *, project: str) -> StoredTrigger:
        """Return a current trigger by its ID or name."""
        # The ID takes precedence, so that it never refers to another trigger with that name.
        statement = (
            f"{SELECT} WHERE (id = :id OR name = :id) AND project_id = :project_id AND removed_at IS NULL"
            " ORDER BY CASE WHEN id = :id THEN 0 ELSE 1 END"
        )
        rows = self._session.all(statement, {"id": trigger_id, "project_id": project})
        if not rows:
            msg = f"Trigger {trigger_id} not found in this project."
            raise NotFound(msg)
        return _trigger(rows[0])

    def in_project(self, project: str) -> list[StoredTrigger]:
        statement = f"{SELECT} WHERE project_id = :project_id AND removed_at IS NULL ORDER BY name"
        return [_trigger(row) for row in self._session.all(statement, {"project_id": project})]

    def projects(self, origin: str) -> set[str]:
        statement = "SELECT DISTINCT project_id FROM assent_triggers WHERE origin = :origin AND removed_at IS NULL"
        return {row[0] for row in self._session.all(statement, {"origin": origin})}

    def versions(self, project: str) -> dict[str, tuple[int, int]]:
        """Return the `edition` of each current trigger by ID, which is far faster than loading the triggers."""
        return {row[0]: (row[1], row[2]) for row in self._session.all(VERSIONS, {"project_id": project})}

    def these(self, trigger_ids: Sequence[str]) -> list[StoredTrigger]:
        """Return triggers by ID. Unreadable triggers are included but match nothing."""
        test, params = among("id", list(trigger_ids), self._session.dialect)
        return [_readable(row) for row in self._session.all(f"{SELECT} WHERE {test}", params)]

    def answered(self, *, limit: int) -> list[StoredTrigger]:
        """Return the triggers whose alarm has ended, for any reason."""
        return [_readable(row) for row in self._session.all(ANSWERED, {"limit": limit})]

    def asks(self) -> bool:
        """Return whether any trigger has a pending alarm."""
        return bool(self._session.all("SELECT 1 FROM assent_triggers WHERE alarm_id IS NOT NULL LIMIT 1", {}))

    def alarmed(self, trigger_id: str, alarm_id: str | None) -> None:
        """Save the breakpoint that asks whether to resume the trigger, or None once it is settled."""
        self._session.write(ALARMED, [{"id": trigger_id, "alarm_id": alarm_id}])

    def note_fired(self, trigger_id: str, now: int) -> None:
        self._session.write(NOTE_FIRED, [{"id": trigger_id, "now": now}])


def _row(stored: StoredTrigger) -> dict[str, Any]:
    # The definition keeps its own state, because suspending a trigger does not change the definition.
    content = written(replace(stored.trigger, state=stored.said))
    return {
        "id": stored.id,
        "project_id": stored.project,
        "name": stored.name,
        "content": msgspec.json.encode(content).decode(),
        "state": stored.state.value,
        "because": stored.because,
        "version": stored.version,
        "origin": stored.origin,
        "created_by": stored.created_by,
        "created_at": stored.created_at,
        "updated_by": stored.updated_by,
        "updated_at": stored.updated_at,
        "removed_at": stored.removed_at,
        "fired_at": stored.fired_at,
        "alarm_id": stored.alarm_id,
    }


def _trigger(row: Sequence[Any]) -> StoredTrigger:
    found = dict(zip(COLUMNS, row, strict=True))
    del found["name"]
    content, state, project = found.pop("content"), found.pop("state"), found.pop("project_id")
    as_written = checked(msgspec.json.decode(content))
    trigger = replace(as_written, state=TriggerState(state))
    return StoredTrigger(**found, project=project, trigger=trigger, said=as_written.state)


def _readable(row: Sequence[Any]) -> StoredTrigger:
    try:
        return _trigger(row)
    except InvalidRequest as error:
        found = dict(zip(COLUMNS, row, strict=True))
        name, state, project = found.pop("name"), found.pop("state"), found.pop("project_id")
        del found["content"]
        # A trigger that this version can no longer parse must not stop the others.
        trigger = Trigger(name=name, on="", run="", state=TriggerState(state), note=error.message)
        return StoredTrigger(**found, project=project, trigger=trigger)
