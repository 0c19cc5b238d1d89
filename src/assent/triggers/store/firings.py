"""Firings: events that matched a trigger, tracked until a run starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from assent.core.errors import NotFound
from assent.db.sql import among, insert
from assent.db.transaction import Store
from assent.triggers.model import Because, FiringState

LONGEST_ERROR = 1_000
COLUMNS = (
    "id", "project_id", "event_id", "trigger_id", "trigger_name", "trigger_version", "state", "because", "once_key",
    "debounce_key", "room_key", "first_at", "gathered", "beyond", "depth", "asks", "asked", "breakpoint_id", "run_id",
    "attempts", "next_at", "error", "created_at", "updated_at",
)  # fmt: skip
INSERT = insert(
    "assent_firings", COLUMNS, suffix="ON CONFLICT (trigger_id, once_key) WHERE once_key IS NOT NULL DO NOTHING"
)
SELECT = f"SELECT {', '.join(COLUMNS)} FROM assent_firings"
SAVE = """
    UPDATE assent_firings
    SET state = :state, because = :because, once_key = :once_key, debounce_key = :debounce_key, room_key = :room_key,
        gathered = :gathered, beyond = :beyond, first_at = :first_at, depth = :depth, asks = :asks, asked = :asked,
        trigger_version = :trigger_version, breakpoint_id = :breakpoint_id,
        run_id = :run_id, attempts = :attempts, next_at = :next_at, error = :error, event_id = :event_id,
        updated_at = :updated_at
    WHERE id = :id AND state = 'held'"""
DUE = f"{SELECT} WHERE next_at <= :now AND state = 'held' ORDER BY next_at, id LIMIT :limit"
# Query the breakpoints here, so that answering a breakpoint has no extra cost. This query also finds firings whose
# question is outdated because the trigger has changed.
ANSWERED = f"""
    SELECT {", ".join(f"f.{name}" for name in COLUMNS)}
    FROM assent_firings f JOIN assent_breakpoints b ON b.id = f.breakpoint_id
        JOIN assent_triggers t ON t.id = f.trigger_id
    WHERE f.state = 'held' AND f.because = 'approval'
        AND (b.status <> 'waiting' OR t.version <> f.trigger_version OR t.removed_at IS NOT NULL)
    ORDER BY f.id LIMIT :limit"""
HELD_FOR = f"{SELECT} WHERE trigger_id = :trigger_id AND state = 'held' AND because = :because ORDER BY id LIMIT :limit"
RUNNING = """
    SELECT r.id FROM assent_runs r JOIN assent_firings f ON f.run_id = r.id
    WHERE r.project_id = :project_id AND r.state IN ('queued', 'running', 'suspended')
        AND r.trigger_name = :trigger_name AND f.trigger_id = :trigger_id AND f.room_key = :room_key ORDER BY r.id"""
RESUMED = f"""
    SELECT {", ".join(f"f.{name}" for name in COLUMNS)}
    FROM assent_firings f JOIN assent_triggers t ON t.id = f.trigger_id
    WHERE f.state = 'held' AND f.because = 'suspended' AND (t.state <> 'suspended' OR t.removed_at IS NOT NULL)
    ORDER BY f.event_id LIMIT :limit"""
FULL = "SELECT DISTINCT trigger_id, room_key FROM assent_firings WHERE state = 'held' AND because = 'room'"
QUEUED = f"""
    {SELECT} WHERE state = 'held' AND because = 'room' AND trigger_id = :trigger_id AND room_key = :room_key
    ORDER BY event_id LIMIT :limit"""
GATHERING = f"""
    {SELECT} WHERE state = 'held' AND because = 'debounce' AND trigger_id = :trigger_id AND debounce_key = :debounce_key
    ORDER BY id LIMIT 1"""
USED = "SELECT 1 FROM assent_firings WHERE trigger_id = :trigger_id AND once_key = :once_key"
ASKS = "SELECT 1 FROM assent_firings WHERE state = 'held' AND because = 'approval' LIMIT 1"
DISCARD = """
    UPDATE assent_firings
    SET state = 'skipped', because = 'discarded', error = :why, once_key = NULL, next_at = NULL, updated_at = :now
    WHERE id = :id AND state IN ('held', 'dead')"""
FORGET = """
    DELETE FROM assent_firings WHERE id IN (
        SELECT id FROM assent_firings WHERE state = 'skipped' AND updated_at < :before ORDER BY id LIMIT :limit)"""
# If a firing does not start a run, the events merged into it have not fired either.
GIVE_UP_KEYS = """
    UPDATE assent_firings SET once_key = NULL
    WHERE trigger_id = :trigger_id AND event_id = :event_id AND state = 'skipped' AND because = 'merged'"""
# Merged events are counted with the firing they were merged into, and events skipped by `once` did not fire again.
SINCE = """
    SELECT count(*) FROM assent_firings
    WHERE trigger_id = :trigger_id AND created_at > :since AND id > :from_id
        AND (because IS NULL OR because NOT IN ('merged', 'once'))"""
# The latest runs that a trigger started, with the data that shows whether one of them caused the next event.
STARTED = """
    SELECT e.source_id, e.type, e.subject, e.view, e.received_at, r.created_at, r.ended_at
    FROM assent_firings f JOIN assent_trigger_events e ON e.id = f.event_id JOIN assent_runs r ON r.id = f.run_id
    WHERE f.trigger_id = :trigger_id AND f.state = 'started' AND f.created_at > :since AND e.replay_of IS NULL
    ORDER BY f.id DESC LIMIT :limit"""
REVIVE = """
    UPDATE assent_firings
    SET state = 'held', because = 'retry', attempts = 0, error = NULL, next_at = :now, updated_at = :now
    WHERE id = :id AND state = 'dead'"""
COUNTS = """
    SELECT state, because, count(*) FROM assent_firings
    WHERE project_id = :project_id AND state IN ('held', 'dead') GROUP BY state, because"""
COUNTS_BY_TRIGGER = """
    SELECT trigger_id, state, count(*) FROM assent_firings
    WHERE project_id = :project_id AND state IN ('held', 'dead') GROUP BY trigger_id, state"""
_FILTERS = ("event_id", "trigger_id", "state", "because", "run_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    id: str
    project: str
    event_id: str
    trigger_id: str
    trigger_name: str
    trigger_version: int
    state: FiringState
    because: Because | None = None
    once_key: str | None = None
    debounce_key: str | None = None
    room_key: str | None = None
    first_at: int
    """When the first of its events arrived."""
    gathered: tuple[str, ...] = ()
    """Earlier events that were merged into this firing."""
    beyond: int = 0
    """The number of merged events that are not listed."""
    depth: int = 0
    """The greatest depth among all its events."""
    asks: bool = False
    """Whether any of its events requires an approval."""
    asked: str | None = None
    """A digest of what its breakpoint asks for."""
    breakpoint_id: str | None = None
    run_id: str | None = None
    attempts: int = 0
    next_at: int | None = None
    error: str | None = None
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Started:
    """A run that a trigger started, and the event that caused it."""

    source_id: str
    type: str
    subject: str | None
    paths: frozenset[str]
    received_at: int
    run_at: int
    ended_at: int | None


def _started(row: Sequence[Any]) -> Started:
    source_id, kind, subject, view, received_at, run_at, ended_at = row
    paths = frozenset(msgspec.json.decode(view).get("paths", ()))
    return Started(source_id, kind, subject, paths, received_at, run_at, ended_at)


class Firings(Store):
    def add(self, firing: Firing) -> bool:
        """Store a firing; return False if its trigger has already fired for the same `once` key."""
        return self._session.change(INSERT, _row(firing)) == 1

    def save(self, firing: Firing) -> bool:
        """Save a firing if it is still held; return False if it was changed in the meantime."""
        row = _row(firing)
        fixed = ("project_id", "trigger_id", "trigger_name", "created_at")
        return self._session.change(SAVE, {name: value for name, value in row.items() if name not in fixed}) == 1

    def due(self, now: int, *, limit: int) -> list[Firing]:
        return [_firing(row) for row in self._session.all(DUE, {"now": now, "limit": limit})]

    def answered(self, *, limit: int) -> list[Firing]:
        """Return firings whose breakpoint has ended, or whose trigger has changed."""
        return [_firing(row) for row in self._session.all(ANSWERED, {"limit": limit})]

    def held_for(self, trigger_id: str, because: Because, *, limit: int) -> list[Firing]:
        params = {"trigger_id": trigger_id, "because": because.value, "limit": limit}
        return [_firing(row) for row in self._session.all(HELD_FOR, params)]

    def running(self, firing: Firing) -> list[str]:
        """Return the unfinished runs for the firing's trigger and key, oldest first."""
        names = ("trigger_id", "trigger_name", "room_key")
        params = {"project_id": firing.project} | {name: getattr(firing, name) for name in names}
        return [row[0] for row in self._session.all(RUNNING, params)]

    def take(self, firing_id: str) -> Firing | None:
        """Lock and return a firing, or return None if it is no longer held."""
        # SQLite has a single writer, so rows do not have to be locked.
        lock = " FOR UPDATE" if self._session.dialect == "postgresql" else ""
        rows = self._session.all(f"{SELECT} WHERE id = :id AND state = 'held'{lock}", {"id": firing_id})
        return _firing(rows[0]) if rows else None

    def resumed(self, *, limit: int) -> list[Firing]:
        """Return firings whose trigger is no longer suspended, oldest first."""
        return [_firing(row) for row in self._session.all(RESUMED, {"limit": limit})]

    def full(self) -> list[tuple[str, str]]:
        """Return the triggers and keys whose firings are waiting for a free slot."""
        return [(trigger_id, room_key) for trigger_id, room_key in self._session.all(FULL, {})]

    def queued(self, trigger_id: str, room_key: str, *, limit: int) -> list[Firing]:
        """Return the firings that are waiting for a free slot, oldest first."""
        params = {"trigger_id": trigger_id, "room_key": room_key, "limit": limit}
        return [_firing(row) for row in self._session.all(QUEUED, params)]

    def gathering(self, trigger_id: str, debounce_key: str) -> Firing | None:
        """Return the firing that is being debounced under this key."""
        rows = self._session.all(GATHERING, {"trigger_id": trigger_id, "debounce_key": debounce_key})
        return _firing(rows[0]) if rows else None

    def used(self, trigger_id: str, once_key: str) -> bool:
        return bool(self._session.all(USED, {"trigger_id": trigger_id, "once_key": once_key}))

    def give_up_keys(self, firing: Firing) -> None:
        """Release the `once` keys of events merged into this firing, so that other events can use them."""
        rows = [{"trigger_id": firing.trigger_id, "event_id": each} for each in firing.gathered]
        if rows:
            self._session.write(GIVE_UP_KEYS, rows)

    def asks(self) -> bool:
        """Return whether any firing is waiting for approval."""
        return bool(self._session.all(ASKS, {}))

    def discard(self, firing_id: str, why: str, *, now: int) -> bool:
        """Discard a firing that is held or dead; return False if it is neither."""
        return self._session.change(DISCARD, {"id": firing_id, "why": why[:LONGEST_ERROR], "now": now}) == 1

    def forget(self, before: int, *, limit: int) -> int:
        """Delete firings that were skipped before this time."""
        return self._session.change(FORGET, {"before": before, "limit": limit})

    def count_since(self, trigger_id: str, since: int, *, from_id: str) -> int:
        """Count firings since this time. IDs are sorted by time, so `from_id` limits the scan to the newest firings."""
        params = {"trigger_id": trigger_id, "since": since, "from_id": from_id}
        return int(self._session.all(SINCE, params)[0][0])

    def started(self, trigger_id: str, *, since: int, limit: int) -> list[Started]:
        """Return the runs that a trigger has started since this time, newest first."""
        params = {"trigger_id": trigger_id, "since": since, "limit": limit}
        return [_started(row) for row in self._session.all(STARTED, params)]

    def revive(self, firing_id: str, *, now: int) -> bool:
        """Retry a dead firing; return False if it is not dead."""
        self._session.news = True
        return self._session.change(REVIVE, {"id": firing_id, "now": now}) == 1

    def get(self, firing_id: str, *, project: str) -> Firing:
        params = {"id": firing_id, "project_id": project}
        rows = self._session.all(f"{SELECT} WHERE id = :id AND project_id = :project_id", params)
        if not rows:
            msg = f"Firing {firing_id} not found in this project."
            raise NotFound(msg)
        return _firing(rows[0])

    def page(self, project: str, filters: Mapping[str, str], *, before: str | None, limit: int) -> list[Firing]:
        """Return firings, newest first. The keys of `filters` are column names."""
        wheres = "".join(f" AND {name} = :{name}" for name in _FILTERS if name in filters)
        older = " AND id < :before" if before else ""
        params = {"project": project, "limit": limit, **filters, **({"before": before} if before else {})}
        statement = f"{SELECT} WHERE project_id = :project{wheres}{older} ORDER BY id DESC LIMIT :limit"
        return [_firing(row) for row in self._session.all(statement, params)]

    def of_event(self, event_id: str) -> list[Firing]:
        rows = self._session.all(f"{SELECT} WHERE event_id = :event_id ORDER BY id", {"event_id": event_id})
        return [_firing(row) for row in rows]

    def of_events(self, event_ids: Sequence[str]) -> dict[str, list[Firing]]:
        """Return the firings of several events, by event."""
        found: dict[str, list[Firing]] = {each: [] for each in event_ids}
        test, params = among("event_id", list(found), self._session.dialect)
        for row in self._session.all(f"{SELECT} WHERE {test} ORDER BY id", params):
            firing = _firing(row)
            found[firing.event_id].append(firing)
        return found

    def counts_by_trigger(self, project: str) -> dict[tuple[str, str], int]:
        """Return the number of held and dead firings for each trigger."""
        rows = self._session.all(COUNTS_BY_TRIGGER, {"project_id": project})
        return {(trigger_id, state): count for trigger_id, state, count in rows}

    def counts(self, project: str) -> dict[tuple[str, str | None], int]:
        """Return the number of held firings by reason, and the number of dead firings."""
        rows = self._session.all(COUNTS, {"project_id": project})
        return {(state, because): count for state, because, count in rows}


def _row(firing: Firing) -> dict[str, Any]:
    row = {name: getattr(firing, name) for name in COLUMNS if name != "project_id"}
    return row | {
        "project_id": firing.project,
        "state": firing.state.value,
        "because": firing.because.value if firing.because else None,
        "gathered": msgspec.json.encode(firing.gathered).decode(),
        "asks": int(firing.asks),
        "error": firing.error and firing.error[:LONGEST_ERROR],
    }


def _firing(row: Sequence[Any]) -> Firing:
    found = dict(zip(COLUMNS, row, strict=True))
    project, state, because = found.pop("project_id"), found.pop("state"), found.pop("because")
    gathered, asks = tuple(msgspec.json.decode(found.pop("gathered"))), bool(found.pop("asks"))
    return Firing(
        **found,
        project=project,
        state=FiringState(state),
        because=Because(because) if because else None,
        gathered=gathered,
        asks=asks,
    )
