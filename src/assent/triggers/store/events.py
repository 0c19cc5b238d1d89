"""Trigger events, each stored only once per source even if delivered repeatedly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from assent.core.canonical import Json
from assent.core.errors import NotFound
from assent.db.sql import among, insert
from assent.db.transaction import Store
from assent.triggers.event import Arrived, EventState, TriggerEvent, Trust
from assent.triggers.payload_secrets import BUILT_IN

LONGEST_ERROR = 1_000
COLUMNS = (
    "id", "project_id", "source_id", "source", "type", "subject", "dedup_key", "delivery_id", "replay_of", "replay_for",
    "verified", "trust", "headers", "view", "data", "mark", "causation_id", "correlation_id", "depth", "state",
    "duplicates", "occurred_at", "received_at", "handled_at", "attempts", "next_at", "error", "trace",
)  # fmt: skip
# A repeated delivery is counted, and the event is processed again if processing had failed.
INSERT = insert(
    "assent_trigger_events",
    COLUMNS,
    suffix="""ON CONFLICT (source_id, dedup_key) WHERE replay_of IS NULL DO UPDATE SET
        duplicates = assent_trigger_events.duplicates + 1,
        state = CASE WHEN assent_trigger_events.state = 'failed' THEN 'received' ELSE assent_trigger_events.state END,
        attempts = CASE WHEN assent_trigger_events.state = 'failed' THEN 0 ELSE assent_trigger_events.attempts END,
        next_at = CASE WHEN assent_trigger_events.state = 'failed' THEN excluded.next_at
            ELSE assent_trigger_events.next_at END
    RETURNING id, state""",
)
# If a run could not be started, delivering its event again retries it and also reclaims the `once` key.
REVIVE = """
    UPDATE assent_firings
    SET state = 'held', because = 'retry', attempts = 0, error = NULL, next_at = :now, updated_at = :now
    WHERE event_id = :event_id AND state = 'dead' RETURNING id"""
INSERT_REPLAY = insert("assent_trigger_events", COLUMNS)
# Identical bodies count as the same event only for a while; after that, the earlier event releases its key.
GIVE_UP_KEY = """
    UPDATE assent_trigger_events SET dedup_key = dedup_key || '#' || id
    WHERE source_id = :source_id AND dedup_key = :dedup_key AND replay_of IS NULL AND received_at < :before"""
SELECT = f"SELECT {', '.join(COLUMNS)} FROM assent_trigger_events"
# Lists omit the body, trace and headers, which can be large.
_NOT_TOLD = {"data": "'null'", "trace": "NULL", "headers": "'{}'"}
SELECT_LISTED = f"SELECT {', '.join(_NOT_TOLD.get(name, name) for name in COLUMNS)} FROM assent_trigger_events"
DUE = "SELECT id, length(data) FROM assent_trigger_events WHERE next_at <= :now ORDER BY next_at, id LIMIT :limit"
SELECT_NEXT_DUE = """
    SELECT next_at FROM (
        SELECT min(next_at) AS next_at FROM assent_trigger_events WHERE next_at IS NOT NULL
        UNION ALL SELECT min(next_at) AS next_at FROM assent_firings WHERE next_at IS NOT NULL) AS due
    WHERE next_at IS NOT NULL ORDER BY next_at LIMIT 1"""
HANDLED = """
    UPDATE assent_trigger_events
    SET state = :state, handled_at = :now, next_at = NULL, error = NULL, trace = :trace
    WHERE id = :id AND state = 'received'"""
PUT_OFF = """
    UPDATE assent_trigger_events
    SET attempts = attempts + 1, state = :state, next_at = :next_at, error = :error WHERE id = :id"""
AGAIN = """
    UPDATE assent_trigger_events SET state = 'received', attempts = 0, next_at = :now
    WHERE id = :id AND state = 'failed'"""
# Only one node at a time matches events against triggers, in order of arrival.
ALONE = "SELECT pg_try_advisory_xact_lock(7241004)"
# Events with firings are kept, because their runs refer to them.
FORGET = """
    DELETE FROM assent_trigger_events WHERE id IN (
        SELECT e.id FROM assent_trigger_events e WHERE e.received_at < :before AND e.next_at IS NULL
            AND NOT EXISTS (SELECT 1 FROM assent_firings f WHERE f.event_id = e.id)
        ORDER BY e.received_at LIMIT :limit)"""
_FILTERS = ("source_id", "state", "type")


@dataclass(frozen=True, slots=True)
class Kept:
    """The result of storing an event."""

    id: str
    duplicate: bool
    again: bool = False
    """Whether this delivery retries an event that was not processed or whose run was not started."""


class TriggerEvents(Store):
    def keep(self, events: Sequence[TriggerEvent]) -> list[Kept]:
        """Store each event, or count it as a duplicate if its source has already delivered it."""
        self._session.dirty = self._session.news = True
        given_up = [_too_old(each, each.arrived.window) for each in events if each.arrived.window is not None]
        if given_up:
            self._session.write(GIVE_UP_KEY, given_up)
        found = self._session.each(INSERT, [_row(each) for each in events])
        kept = [_kept(event, *rows[0]) for event, rows in zip(events, found, strict=True)]
        return self._tried_again(kept, events[0].received_at) if any(each.duplicate for each in kept) else kept

    def _tried_again(self, kept: Sequence[Kept], now: int) -> list[Kept]:
        """Retry the dead firings of events that have just been delivered again."""
        duplicates = sorted({each.id for each in kept if each.duplicate})
        found = self._session.each(REVIVE, [{"event_id": each, "now": now} for each in duplicates])
        revived = {each for each, rows in zip(duplicates, found, strict=True) if rows}
        return [replace(each, again=True) if each.id in revived else each for each in kept]

    def replay(self, event: TriggerEvent) -> None:
        self._session.news = True
        self._session.write(INSERT_REPLAY, [_row(event)])

    def alone(self) -> bool:
        """Return whether this is the only transaction that is processing events, which is always true on SQLite."""
        return self._session.dialect == "sqlite" or bool(self._session.all(ALONE, {})[0][0])

    def due(self, now: int, *, limit: int, most: int) -> list[TriggerEvent]:
        """Return unprocessed events, oldest first: at least one, with up to `most` characters of bodies in total."""
        picked: list[str] = []
        for event_id, size in self._session.all(DUE, {"now": now, "limit": limit}):
            most -= size
            # At least one event is returned even if its body is too large, so that it cannot block the queue.
            if picked and most < 0:
                break
            picked.append(event_id)
        return self.these(picked)

    def these(self, event_ids: Sequence[str], *, listed: bool = False) -> list[TriggerEvent]:
        """Return events in the given order, without bodies if `listed`; missing events are omitted."""
        if not event_ids:
            return []
        test, params = among("id", list(event_ids), self._session.dialect)
        select = SELECT_LISTED if listed else SELECT
        found = {row[0]: row for row in self._session.all(f"{select} WHERE {test}", params)}
        return [_event(found[each]) for each in event_ids if each in found]

    def gathered(self, event_ids: Sequence[str], *, most: int) -> list[TriggerEvent]:
        """Return events. Bodies are included only for the latest events, up to `most` characters in total."""
        if not event_ids:
            return []
        test, params = among("id", list(event_ids), self._session.dialect)
        statement = f"SELECT id, length(data) FROM assent_trigger_events WHERE {test} ORDER BY id DESC"
        whole: set[str] = set()
        for event_id, size in self._session.all(statement, params):
            most -= size
            if most < 0:
                break
            whole.add(event_id)
        full = {each.id: each for each in self.these(sorted(whole))}
        return [full.get(each.id, each) for each in self.these(event_ids, listed=True)]

    def handled(self, event_id: str, state: EventState, trace: Json, *, now: int) -> bool:
        """Save the outcome of an event; return False if it has already been processed."""
        params = {"id": event_id, "state": state.value, "trace": msgspec.json.encode(trace).decode(), "now": now}
        return self._session.change(HANDLED, params) == 1

    def again(self, event_id: str, *, now: int) -> bool:
        """Process a failed event again; return False if it has not failed."""
        self._session.news = True
        return self._session.change(AGAIN, {"id": event_id, "now": now}) == 1

    def put_off(self, event_id: str, error: str, *, next_at: int | None) -> None:
        """Process the event again at `next_at`; if that is None, mark the event as failed."""
        state = EventState.RECEIVED if next_at is not None else EventState.FAILED
        params = {"id": event_id, "error": error[:LONGEST_ERROR], "next_at": next_at, "state": state.value}
        self._session.write(PUT_OFF, [params])

    def get(self, event_id: str, *, project: str) -> TriggerEvent:
        params = {"id": event_id, "project_id": project}
        rows = self._session.all(f"{SELECT} WHERE id = :id AND project_id = :project_id", params)
        if not rows:
            msg = f"Event {event_id} not found in this project."
            raise NotFound(msg)
        return _event(rows[0])

    def first_of(self, event_id: str) -> str | None:
        """Return the first event of the chain that contains this event."""
        rows = self._session.all("SELECT correlation_id FROM assent_trigger_events WHERE id = :id", {"id": event_id})
        return str(rows[0][0]) if rows else None

    def page(self, project: str, filters: Mapping[str, str], *, before: str | None, limit: int) -> list[TriggerEvent]:
        """Return events, newest first, without bodies and traces. The keys of `filters` are column names."""
        wheres = "".join(f" AND {name} = :{name}" for name in _FILTERS if name in filters)
        older = " AND id < :before" if before else ""
        params = {"project": project, "limit": limit, **filters, **({"before": before} if before else {})}
        statement = f"{SELECT_LISTED} WHERE project_id = :project{wheres}{older} ORDER BY id DESC LIMIT :limit"
        return [_event(row) for row in self._session.all(statement, params)]

    def chain(self, correlation_id: str, *, project: str, limit: int) -> list[TriggerEvent]:
        """Return the events of a chain, oldest first, without bodies."""
        params = {"id": correlation_id, "project": project, "limit": limit}
        where = "(id = :id OR (causation_id IS NOT NULL AND correlation_id = :id)) AND project_id = :project"
        return [
            _event(row) for row in self._session.all(f"{SELECT_LISTED} WHERE {where} ORDER BY id LIMIT :limit", params)
        ]

    def forget(self, before: int, *, limit: int) -> int:
        """Delete old events that have no firings."""
        return self._session.change(FORGET, {"before": before, "limit": limit})


def _too_old(event: TriggerEvent, window: int) -> dict[str, Any]:
    before = event.received_at - window
    return {"source_id": event.source_id, "dedup_key": event.arrived.key, "before": before}


def _kept(event: TriggerEvent, kept: str, state: str) -> Kept:
    duplicate = kept != event.id
    return Kept(kept, duplicate, duplicate and state == EventState.RECEIVED.value)


def _row(event: TriggerEvent) -> dict[str, Any]:
    arrived = event.arrived
    return {
        "id": event.id,
        "project_id": event.project,
        "source_id": event.source_id,
        "source": event.source,
        "type": arrived.type,
        "subject": arrived.subject,
        "dedup_key": arrived.key,
        "delivery_id": arrived.delivery_id,
        "replay_of": event.replay_of,
        "replay_for": event.replay_for,
        "verified": arrived.verified,
        "trust": arrived.trust.value,
        "headers": _json(arrived.headers),
        "view": _json(arrived.view),
        "data": _json(arrived.data),
        "mark": arrived.mark,
        "causation_id": event.causation_id,
        "correlation_id": event.correlation_id,
        "depth": event.depth,
        "state": event.state.value,
        "duplicates": event.duplicates,
        "occurred_at": arrived.occurred_at,
        "received_at": event.received_at,
        "handled_at": event.handled_at,
        "attempts": event.attempts,
        "next_at": event.received_at,
        "error": event.error,
        "trace": None,
    }


def _event(row: Sequence[Any]) -> TriggerEvent:
    found = dict(zip(COLUMNS, row, strict=True))
    data, view = (msgspec.json.decode(found[name]) for name in ("data", "view"))
    if BUILT_IN.suspects(found["data"]):  # events may have been stored before secrets were redacted on arrival
        data, view = BUILT_IN(data), BUILT_IN(view)
    arrived = Arrived(
        type=found["type"],
        key=found["dedup_key"],
        data=data,
        view=view,
        subject=found["subject"],
        occurred_at=found["occurred_at"],
        verified=found["verified"],
        trust=Trust(found["trust"]),
        delivery_id=found["delivery_id"],
        headers=msgspec.json.decode(found["headers"]),
        marks=(found["mark"],) if found["mark"] else (),
    )
    return TriggerEvent(
        id=found["id"],
        project=found["project_id"],
        source_id=found["source_id"],
        source=found["source"],
        arrived=arrived,
        state=EventState(found["state"]),
        duplicates=found["duplicates"],
        replay_of=found["replay_of"],
        replay_for=found["replay_for"],
        causation_id=found["causation_id"],
        correlation_id=found["correlation_id"],
        depth=found["depth"],
        received_at=found["received_at"],
        handled_at=found["handled_at"],
        attempts=found["attempts"],
        error=found["error"],
        trace=msgspec.json.decode(found["trace"]) if found["trace"] else None,
    )


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()
