"""Channels: their configuration and their health."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from assent.core.access import Actor, Kind
from assent.core.errors import Conflict, NotFound
from assent.db.sql import insert, to_json
from assent.db.transaction import Store, Transaction
from assent.platform.admin_log import AdminLog

LONGEST_ERROR = 500
COLUMNS = (
    "id", "project_id", "name", "type", "settings", "enabled", "disabled_because", "source", "created_by",
    "created_at", "updated_at", "removed_at", "ok_at", "failed_at", "last_error", "heard_at",
)  # fmt: skip
INSERT = insert("assent_channels", COLUMNS, suffix="ON CONFLICT (project_id, name) WHERE removed_at IS NULL DO NOTHING")
SELECT = f"SELECT {', '.join(COLUMNS)} FROM assent_channels"
UPDATE = """
    UPDATE assent_channels
    SET name = :name, settings = :settings, enabled = :enabled, disabled_because = :disabled_because,
        updated_at = :updated_at
    WHERE id = :id AND updated_at = :expected AND removed_at IS NULL"""
REMOVE = "UPDATE assent_channels SET removed_at = :now, updated_at = :now WHERE id = :id AND removed_at IS NULL"
LISTENING = f"""
    {SELECT} WHERE removed_at IS NULL AND enabled = 1
        AND project_id NOT IN (SELECT id FROM assent_projects WHERE removed_at <= :since) ORDER BY project_id, name"""
# Two changes within a microsecond must differ in updated_at, which shows whether a cached channel is outdated.
DISABLE = """
    UPDATE assent_channels
    SET enabled = 0, disabled_because = :because, updated_at = CASE WHEN :now > updated_at THEN :now
        ELSE updated_at + 1 END
    WHERE id = :id AND enabled = 1 AND removed_at IS NULL"""
OTHER_OF_NAME = """
    SELECT 1 FROM assent_channels
    WHERE project_id = :project_id AND name = :name AND removed_at IS NULL AND id <> :id"""
# Health does not change updated_at, so that it does not restart listeners or invalidate cached channels.
NOTE_OK = """
    UPDATE assent_channels SET ok_at = :now, last_error = NULL WHERE id = :id AND (ok_at IS NULL OR ok_at < :now)"""
NOTE_FAILED = "UPDATE assent_channels SET failed_at = :now, last_error = :error WHERE id = :id"
NOTE_HEARD = "UPDATE assent_channels SET heard_at = :now WHERE id = :id AND (heard_at IS NULL OR heard_at < :now)"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChannel:
    id: str
    project: str
    name: str
    type: str
    settings: Mapping[str, Any]
    enabled: bool = True
    disabled_because: str | None = None
    source: str = "api"
    created_by: str = "system"
    created_at: int = 0
    updated_at: int = 0
    removed_at: int | None = None
    ok_at: int | None = None
    failed_at: int | None = None
    last_error: str | None = None
    heard_at: int | None = None


class Channels(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._log = tx[AdminLog]

    def add(self, channel: StoredChannel) -> None:
        with self._log.changes("channel", channel.id, project=channel.project):
            if self._session.change(INSERT, _row(channel)) != 1:
                raise _taken(channel.name)

    def save(self, channel: StoredChannel, *, now: int) -> StoredChannel:
        """Save the mutable fields of a channel, if it has not changed since it was read; return its new state."""
        # Checked before the update, because the index would only report a database error.
        if self._session.all(OTHER_OF_NAME, _picked(channel, "project_id", "name", "id")):
            raise _taken(channel.name)
        later = max(now, channel.updated_at + 1)
        row = _picked(channel, "id", "name", "settings", "enabled", "disabled_because")
        with self._log.changes("channel", channel.id, project=channel.project):
            if self._session.change(UPDATE, row | {"expected": channel.updated_at, "updated_at": later}) != 1:
                msg = f"The channel {channel.name} was changed or removed in the meantime. Reload it and try again."
                raise Conflict(msg)
        return self.get(channel.id)

    def setters(self, channel: StoredChannel) -> frozenset[str]:
        """Return the people who created a channel or changed its settings, as actors such as `person:ann`."""
        events = self._log.about(f"channel:{channel.id}", project=channel.project)
        changed = [each.actor for each in events if each.differs("settings")]
        actors = {Actor.parse(channel.created_by), *changed}
        return frozenset(str(actor) for actor in actors if actor.kind is Kind.PERSON)

    def remove(self, channel_id: str, *, now: int) -> None:
        """Mark a channel as removed: its deliveries still refer to it, but nothing more is sent through it."""
        with self._log.changes("channel", channel_id, project=self.get(channel_id).project):
            if self._session.change(REMOVE, {"id": channel_id, "now": now}) != 1:
                raise _missing(channel_id)

    def find(self, channel_id: str) -> StoredChannel | None:
        """Return a channel, even a removed one."""
        rows = self._session.all(f"{SELECT} WHERE id = :id", {"id": channel_id})
        return _channel(rows[0]) if rows else None

    def get(self, channel_id: str) -> StoredChannel:
        found = self.find(channel_id)
        if found is None:
            raise _missing(channel_id)
        return found

    def live(self, channel_id: str) -> StoredChannel | None:
        """Return the current state of a channel; None if it is disabled or removed."""
        found = self.find(channel_id)
        return found if found is not None and found.enabled and found.removed_at is None else None

    def any(self) -> bool:
        """Return whether any project has a channel."""
        return bool(self._session.all("SELECT 1 FROM assent_channels WHERE removed_at IS NULL LIMIT 1", {}))

    def every(self) -> list[StoredChannel]:
        """Return the channels of all projects, except removed ones."""
        rows = self._session.all(f"{SELECT} WHERE removed_at IS NULL ORDER BY project_id, name", {})
        return [_channel(row) for row in rows]

    def listening(self, *, since: int) -> list[StoredChannel]:
        """Return enabled channels, except those of projects that were removed at or before `since`."""
        return [_channel(row) for row in self._session.all(LISTENING, {"since": since})]

    def in_project(self, project: str) -> list[StoredChannel]:
        statement = f"{SELECT} WHERE project_id = :project_id AND removed_at IS NULL ORDER BY name"
        return [_channel(row) for row in self._session.all(statement, {"project_id": project})]

    def by_name(self, project: str, name: str) -> StoredChannel | None:
        statement = f"{SELECT} WHERE project_id = :project_id AND name = :name AND removed_at IS NULL"
        rows = self._session.all(statement, {"project_id": project, "name": name})
        return _channel(rows[0]) if rows else None

    def disable(self, channel_id: str, *, because: str, now: int) -> bool:
        """Disable a channel and record the reason; return False if it is not enabled."""
        params = {"id": channel_id, "because": because[:LONGEST_ERROR], "now": now}
        found = self.find(channel_id)
        if found is None:
            return False
        with self._log.changes("channel", channel_id, project=found.project, act="channel-disabled"):
            return self._session.change(DISABLE, params) == 1

    def note_ok(self, channel_id: str, now: int) -> None:
        self._session.write(NOTE_OK, [{"id": channel_id, "now": now}])

    def note_failed(self, channel_id: str, error: str, now: int) -> None:
        self._session.write(NOTE_FAILED, [{"id": channel_id, "error": error[:LONGEST_ERROR], "now": now}])

    def note_heard(self, channel_id: str, now: int) -> None:
        self._session.write(NOTE_HEARD, [{"id": channel_id, "now": now}])


def _missing(channel_id: str) -> NotFound:
    return NotFound(f"Channel {channel_id} not found.")


def _taken(name: str) -> Conflict:
    return Conflict(f"A channel named {name} already exists.")


def _picked(channel: StoredChannel, *names: str) -> dict[str, Any]:
    row = _row(channel)
    return {name: row[name] for name in names}


def _row(channel: StoredChannel) -> dict[str, Any]:
    return {
        "id": channel.id,
        "project_id": channel.project,
        "name": channel.name,
        "type": channel.type,
        "settings": to_json(channel.settings),
        "enabled": int(channel.enabled),
        "disabled_because": channel.disabled_because,
        "source": channel.source,
        "created_by": channel.created_by,
        "created_at": channel.created_at,
        "updated_at": channel.updated_at,
        "removed_at": channel.removed_at,
        "ok_at": channel.ok_at,
        "failed_at": channel.failed_at,
        "last_error": channel.last_error,
        "heard_at": channel.heard_at,
    }


def _channel(row: Sequence[Any]) -> StoredChannel:
    found = dict(zip(COLUMNS, row, strict=True))
    project, settings, enabled = found.pop("project_id"), found.pop("settings"), found.pop("enabled")
    return StoredChannel(**found, project=project, settings=msgspec.json.decode(settings), enabled=bool(enabled))
