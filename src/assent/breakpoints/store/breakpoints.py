"""Breakpoints with their events, responses, comments and labels; every change is one guarded UPDATE."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any

import msgspec

from assent.breakpoints.search_words import words_of
from assent.core.access import Actor
from assent.core.breakpoint import Breakpoint, Comment, Event, Outline, Response, Status, ended, timed_out
from assent.core.errors import NotFound
from assent.core.seats import Seat
from assent.core.strategies import Decision
from assent.db.sql import among, given, insert, to_json
from assent.db.transaction import Store, Transaction
from assent.delivery.store.deliveries import NOTIFIED, Deliveries
from assent.delivery.store.notification_state import Routings
from assent.runs.store import Runs

COLUMNS = (
    "id", "project_id", "status", "decision", "agent_id", "run_id", "title", "gate", "payload", "tags", "seats",
    "strategy", "risk", "priority", "on_timeout", "ttl_seconds", "callback_url", "digest", "created_at", "created_by",
    "created_by_id", "due_at", "auto_approval", "warnings", "updated_at", "ended_at", "ended_by", "result", "version",
    "head", "comments", "votes", "agent_id_claimed",
)  # fmt: skip
INSERT = insert("assent_breakpoints", (*COLUMNS, "question", "attempt", "search", "counts_as"))
# Each statement runs immediately after its breakpoint is inserted, and uses the ordinal assigned by that insert.
INSERT_WORDS = {
    "sqlite": (
        "INSERT INTO assent_breakpoint_words (ordinal, words) VALUES (last_insert_rowid(), :words)",
        "INSERT INTO assent_search (rowid, words) VALUES (last_insert_rowid(), :words)",
    ),
    "postgresql": (
        """
        INSERT INTO assent_breakpoint_words (ordinal, words)
        VALUES (currval(pg_get_serial_sequence('assent_breakpoints', 'ordinal')), :words)""",
    ),
}
EVENT_COLUMNS = ("breakpoint_id", "seq", "type", "actor", "at", "metadata", "previous", "hash")
INSERT_EVENT = insert("assent_events", EVENT_COLUMNS)
INSERT_LABEL = insert("assent_labels", ("project_id", "label", "status", "created_at", "id", "agent_id"))
INSERT_COMMENT = insert("assent_comments", ("id", "breakpoint_id", "author", "comment", "created_at"))
SELECT = f"SELECT {', '.join(COLUMNS)} FROM assent_breakpoints WHERE id = :id AND project_id = :project_id"
# The conditions let the database resolve every race: a version can change only once, and an ended breakpoint cannot
# change.
UPDATE = """
    UPDATE assent_breakpoints
    SET status = :status, decision = :decision, updated_at = :updated_at, ended_at = :ended_at, ended_by = :ended_by,
        result = :result, version = :version, head = :head, comments = :comments, votes = :votes
    WHERE id = :id AND status = 'waiting' AND version = :expected"""
UPDATE_LABELS = "UPDATE assent_labels SET status = :status WHERE id = :id"
SELECT_COMMENTS = """
    SELECT breakpoint_id, id, author, comment, created_at FROM assent_comments
    WHERE breakpoint_id = :id ORDER BY created_at, id"""
RESPONSE_COLUMNS = (
    "breakpoint_id", "person_id", "person", "approved", "at", "first_at", "via", "comment", "option", "answers",
    "edits", "seat", "in_place_of", "override", "digest", "after_reset_by",
)  # fmt: skip
# A changed answer keeps `first_at`, and therefore its position among the responses.
UPSERT_RESPONSE = insert(
    "assent_responses",
    RESPONSE_COLUMNS,
    suffix="ON CONFLICT (breakpoint_id, person_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in RESPONSE_COLUMNS[3:] if name != "first_at"),
)
RESEAT = """
    UPDATE assent_responses SET seat = :seat, in_place_of = :in_place_of
    WHERE breakpoint_id = :id AND person = :person"""
SELECT_RESPONSES = """
    SELECT person, approved, at, via, comment, option, answers, edits, seat, in_place_of, override, digest,
           after_reset_by
    FROM assent_responses WHERE breakpoint_id = :id ORDER BY first_at, person_id"""
SELECT_EVENTS = """
    SELECT breakpoint_id, seq, type, actor, at, metadata, previous, hash
    FROM assent_events WHERE breakpoint_id = :id AND seq > :after ORDER BY seq LIMIT :limit"""
OUTLINE_COLUMNS = (
    "id", "project_id", "on_timeout", "callback_url", "digest", "created_at", "due_at", "version", "head",
)  # fmt: skip
SELECT_DUE = f"""
    SELECT {", ".join(OUTLINE_COLUMNS)} FROM assent_breakpoints
    WHERE status = 'waiting' AND due_at <= :now ORDER BY due_at LIMIT :limit"""
SELECT_NEXT_DUE = "SELECT due_at FROM assent_breakpoints WHERE status = 'waiting' ORDER BY due_at LIMIT 1"
# Overdue breakpoints are left to the sweep.
SELECT_LEFT = """
    SELECT b.id, b.project_id FROM assent_projects p
    JOIN assent_breakpoints b ON b.project_id = p.id AND b.status = 'waiting'
    WHERE p.removed_at IS NOT NULL AND b.due_at > :now ORDER BY b.id LIMIT :limit"""
ENDING = {
    "id": "text", "expected": "bigint", "status": "text", "decision": "text", "updated_at": "bigint",
    "ended_at": "bigint", "ended_by": "text", "result": "text", "version": "bigint", "head": "text",
}  # fmt: skip
UPDATE_DUE = """
    UPDATE assent_breakpoints
    SET status = given.status, decision = given.decision, updated_at = given.updated_at, ended_at = given.ended_at,
        ended_by = given.ended_by, result = given.result, version = given.version, head = given.head
    FROM {given}
    WHERE assent_breakpoints.id = given.id AND assent_breakpoints.version = given.expected
        AND assent_breakpoints.status = 'waiting' AND assent_breakpoints.due_at <= :now
    RETURNING assent_breakpoints.id"""
ENDED_EVENT = {name: "bigint" if name in {"seq", "at"} else "text" for name in EVENT_COLUMNS}
INSERT_EVENTS = (
    f"INSERT INTO assent_events ({', '.join(EVENT_COLUMNS)}) SELECT {', '.join(EVENT_COLUMNS)} FROM {{given}}"
)
ENDED_LABEL = {"id": "text", "status": "text"}
UPDATE_MANY_LABELS = "UPDATE assent_labels SET status = given.status FROM {given} WHERE assent_labels.id = given.id"


class Deadline(StrEnum):
    """The condition that an update sets on the deadline."""

    AHEAD = "AND due_at > :now"
    PASSED = "AND due_at <= :now"
    ANY = ""


_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class NewRows:
    """The rows of a new breakpoint, which can be built without a transaction."""

    row: dict[str, Any]
    events: list[dict[str, Any]]
    labels: list[dict[str, Any]]
    words: str

    @classmethod
    def of(cls, new: Breakpoint, events: Sequence[Event], *, counts_as: str | None = None) -> "NewRows":
        labels = [f"t:{tag}" for tag in new.tags] + [f"e:{name}" for seat in new.seats for name in seat.names]
        shared = {
            "project_id": new.project,
            "status": new.status.value,
            "created_at": new.created_at,
            "id": new.id,
            "agent_id": new.agent_id,
        }
        return cls(
            row_of(new) | {"search": "", "counts_as": counts_as},
            [event_row(event) for event in events],
            # The same name can occur in several seats, but a label is stored only once per breakpoint.
            [shared | {"label": label} for label in dict.fromkeys(labels)],
            words_of(new),
        )


class Breakpoints(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._deliveries = tx[Deliveries]
        self._routings = tx[Routings]
        self._runs = tx[Runs]
        # SQLite has only one writer at a time, so its rows need no locks.
        self._lock = " FOR UPDATE" if tx.session.dialect == "postgresql" else ""

    def add(self, new: Breakpoint, events: Sequence[Event], rows: "NewRows") -> None:
        session = self._session
        session.write(INSERT, [rows.row])
        for statement in INSERT_WORDS[session.dialect]:
            session.write(statement, [{"words": rows.words}])
        self._record(rows.events)
        if rows.labels:
            session.write(INSERT_LABEL, rows.labels)
        self._deliveries.tell(new, events)
        if new.status is Status.WAITING:
            self._routings.begin(new.id, new.project, at=new.created_at)

    def get(self, breakpoint_id: str, *, project: str) -> Breakpoint:
        """Return a breakpoint, locked until the transaction ends, or raise NotFound."""
        return self._find(SELECT + self._lock, breakpoint_id, project)

    def look(self, breakpoint_id: str, *, project: str) -> Breakpoint:
        """Return a breakpoint without locking it, or raise NotFound."""
        return self._find(SELECT, breakpoint_id, project)

    def _find(self, statement: str, breakpoint_id: str, project: str) -> Breakpoint:
        rows = self._session.all(statement, {"id": breakpoint_id, "project_id": project})
        if not rows:
            msg = f"Breakpoint {breakpoint_id} not found in this project."
            raise NotFound(msg)
        return breakpoint_of(rows[0])

    def move(self, changed: Breakpoint, events: Sequence[Event], *, deadline: Deadline, now: int) -> None:
        """Save a change if the stored breakpoint has the previous version and the deadline meets the condition."""
        expected = changed.version - len(events)
        params = {
            "id": changed.id,
            "status": changed.status.value,
            "decision": changed.decision.value if changed.decision else None,
            "updated_at": changed.updated_at,
            "ended_at": changed.ended_at,
            "ended_by": str(changed.ended_by) if changed.ended_by else None,
            "result": to_json(changed.result) if changed.result is not None else None,
            "version": changed.version,
            "head": changed.head,
            "comments": changed.comments,
            "votes": changed.votes,
            "expected": expected,
        }
        if deadline is not Deadline.ANY:
            params["now"] = now
        # If nothing was updated, another change came first, or the deadline does not meet the condition.
        if self._session.change(f"{UPDATE} {deadline.value}", params) != 1:
            raise ended(timed_out(self.get(changed.id, project=changed.project), now))
        self._record([event_row(event) for event in events])
        if changed.status is not Status.WAITING:
            self._session.write(UPDATE_LABELS, [{"id": changed.id, "status": changed.status.value}])
        self._deliveries.tell(changed, events)
        if any(event.type in NOTIFIED for event in events):
            self._routings.changed([changed.id], at=now)
        if changed.run_id is not None:
            self._tell_run(changed, events, now)

    def _tell_run(self, changed: Breakpoint, events: Sequence[Event], now: int) -> None:
        if changed.status is not Status.WAITING:
            self._runs.answered([changed.id], now=now)
        # A run is notified of reviewers' comments, but not of comments by its own agent.
        elif any(event.type == "commented" and event.actor != changed.created_by for event in events):
            self._runs.commented(changed.id, version=changed.version, now=now)

    def _record(self, events: Sequence[Mapping[str, Any]]) -> None:
        self._session.write(INSERT_EVENT, events)
        self._session.recorded += len(events)

    def add_comment(self, comment_id: str, breakpoint_id: str, *, author: Actor, comment: str, at: int) -> None:
        row = {
            "id": comment_id,
            "breakpoint_id": breakpoint_id,
            "author": str(author),
            "comment": comment,
            "created_at": at,
        }
        self._session.write(INSERT_COMMENT, [row])

    def comments(self, breakpoint_id: str) -> list[Comment]:
        return [Comment(*row[1:]) for row in self._session.all(SELECT_COMMENTS, {"id": breakpoint_id})]

    def put_response(self, breakpoint_id: str, response: Response, *, person_id: str) -> None:
        row = {
            "breakpoint_id": breakpoint_id,
            "person_id": person_id,
            "person": response.person,
            "approved": int(response.approved),
            "at": response.at,
            "first_at": response.at,
            "via": response.via,
            "comment": response.comment,
            "option": response.option,
            "answers": _optional_json(response.answers),
            "edits": _optional_json(response.edits),
            "seat": response.seat,
            "in_place_of": to_json(response.in_place_of),
            "override": int(response.override),
            "digest": response.digest,
            "after_reset_by": response.after_reset_by,
        }
        self._session.write(UPSERT_RESPONSE, [row])

    def reseat(self, breakpoint_id: str, response: Response) -> None:
        """Save which expert an answer now counts for."""
        row = {
            "id": breakpoint_id,
            "person": response.person,
            "seat": response.seat,
            "in_place_of": to_json(response.in_place_of),
        }
        self._session.write(RESEAT, [row])

    def responses(self, breakpoint_id: str) -> list[Response]:
        return [response_of(row) for row in self._session.all(SELECT_RESPONSES, {"id": breakpoint_id})]

    def events(self, breakpoint_id: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        rows = self._session.all(SELECT_EVENTS, {"id": breakpoint_id, "after": after, "limit": limit})
        return [event_of(row) for row in rows]

    def waiting_among(self, breakpoint_ids: Sequence[str], *, now: int) -> frozenset[str]:
        """Return which of these breakpoints are still pending."""
        test, params = among("id", breakpoint_ids, self._session.dialect)
        rows = self._session.all(
            f"SELECT id FROM assent_breakpoints WHERE status = 'waiting' AND due_at > :now AND {test}",
            params | {"now": now},
        )
        return frozenset(row[0] for row in rows)

    def payloads(self, breakpoint_ids: Sequence[str], *, longest: int) -> dict[str, str]:
        """Return the payloads of these breakpoints as JSON, omitting payloads longer than `longest` characters."""
        test, params = among("id", breakpoint_ids, self._session.dialect)
        rows = self._session.all(
            f"SELECT id, payload FROM assent_breakpoints WHERE length(payload) <= :longest AND {test}",
            params | {"longest": longest},
        )
        return {row[0]: row[1] for row in rows}

    def due(self, now: int, *, limit: int) -> list[Outline]:
        """Return the most overdue breakpoints, ordered by ID; locked ones are left to the transactions holding them."""
        skip = f"{self._lock} SKIP LOCKED" if self._lock else ""
        rows = self._session.all(SELECT_DUE + skip, {"now": now, "limit": limit})
        return sorted((_outline(row) for row in rows), key=attrgetter("id"))

    def left_waiting(self, now: int, *, limit: int) -> list[tuple[str, str]]:
        """Return the ID and project of pending breakpoints in removed projects; locked ones are left for next time."""
        skip = " FOR UPDATE OF b SKIP LOCKED" if self._lock else ""
        rows = self._session.all(SELECT_LEFT + skip, {"now": now, "limit": limit})
        return [(row[0], row[1]) for row in rows]

    def end_due(self, endings: Sequence[tuple[Outline, Event]], *, now: int) -> list[Outline]:
        """Save many timeouts at once; return the saved ones, excluding breakpoints that changed in the meantime."""
        session = self._session
        rows = [_ending(changed) for changed, _ in endings]
        # The session treats this statement as a read because it returns rows.
        session.dirty = True
        params = {"rows": to_json(rows), "now": now}
        ids = {row[0] for row in session.all(UPDATE_DUE.format(given=given(session.dialect, ENDING)), params)}
        moved = [(changed, event) for changed, event in endings if changed.id in ids]
        if moved:
            self._write_many(INSERT_EVENTS, ENDED_EVENT, [event_row(event) for _, event in moved])
            labels = [{"id": changed.id, "status": changed.status.value} for changed, _ in moved]
            self._write_many(UPDATE_MANY_LABELS, ENDED_LABEL, labels)
        session.recorded += len(moved)
        for changed, event in moved:
            self._deliveries.tell(changed, [event])
        self._routings.changed([changed.id for changed, _ in moved], at=now)
        self._runs.answered([changed.id for changed, _ in moved], now=now)
        return [changed for changed, _ in moved]

    def _write_many(self, statement: str, columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> None:
        source = given(self._session.dialect, columns)
        self._session.write(statement.format(given=source), [{"rows": to_json(rows)}])


def response_of(row: Sequence[Any]) -> Response:
    person, approved, at, via, comment, option, answers, edits, seat, in_place_of, override, digest, reset_by = row
    return Response(
        person=person,
        approved=bool(approved),
        at=at,
        via=via,
        comment=comment,
        option=option,
        answers=_decode(answers) if answers else None,
        edits=_decode(edits) if edits else None,
        seat=seat,
        in_place_of=tuple(_decode(in_place_of)),
        override=bool(override),
        digest=digest,
        after_reset_by=reset_by,
    )


def event_of(row: Sequence[Any]) -> Event:
    breakpoint_id, seq, kind, actor, at, metadata, previous, digest = row
    return Event(breakpoint_id, seq, kind, Actor.parse(actor), at, _decode(metadata), previous, digest)


def event_row(event: Event) -> dict[str, Any]:
    return {
        "breakpoint_id": event.breakpoint_id,
        "seq": event.seq,
        "type": event.type,
        "actor": str(event.actor),
        "at": event.at,
        "metadata": to_json(event.metadata),
        "previous": event.previous,
        "hash": event.hash,
    }


def _ending(changed: Outline) -> dict[str, Any]:
    return {
        "id": changed.id,
        "expected": changed.version - 1,
        "status": changed.status.value,
        "decision": changed.decision.value if changed.decision else None,
        "updated_at": changed.updated_at,
        "ended_at": changed.ended_at,
        "ended_by": str(changed.ended_by),
        "result": _optional_json(changed.result),
        "version": changed.version,
        "head": changed.head,
    }


def _optional_json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else to_json(value)


def seats_json(seats: Sequence[Seat]) -> str:
    return to_json([[seat.name, list(seat.stands_in_for), seat.added] for seat in seats])


def row_of(new: Breakpoint) -> dict[str, Any]:
    return {
        "question": new.payload.get("question"),
        "attempt": new.payload.get("attempt"),
        "id": new.id,
        "project_id": new.project,
        "status": new.status.value,
        "decision": new.decision.value if new.decision else None,
        "agent_id": new.agent_id,
        "run_id": new.run_id,
        "title": new.title,
        "gate": new.gate,
        "payload": to_json(new.payload),
        "tags": to_json(new.tags),
        "seats": seats_json(new.seats),
        "strategy": new.strategy,
        "risk": new.risk,
        "priority": new.priority,
        "on_timeout": new.on_timeout,
        "ttl_seconds": new.ttl_seconds,
        "callback_url": new.callback_url,
        "digest": new.digest,
        "created_at": new.created_at,
        "created_by": str(new.created_by),
        "created_by_id": new.created_by_id,
        "due_at": new.due_at,
        "auto_approval": to_json(new.auto_approval),
        "warnings": to_json(new.warnings),
        "updated_at": new.updated_at,
        "ended_at": new.ended_at,
        "ended_by": str(new.ended_by) if new.ended_by else None,
        "result": _optional_json(new.result),
        "version": new.version,
        "head": new.head,
        "comments": new.comments,
        "votes": new.votes,
        "agent_id_claimed": int(new.agent_id_claimed),
        "purged_at": None,  # not inserted, but expected by `whole_of`
    }


def _outline(row: Sequence[Any]) -> Outline:
    breakpoint_id, project, on_timeout, callback_url, digest, created_at, due_at, version, head = row
    return Outline(
        id=breakpoint_id,
        project=project,
        on_timeout=on_timeout,
        callback_url=callback_url,
        digest=digest,
        created_at=created_at,
        due_at=due_at,
        version=version,
        head=head,
    )


def breakpoint_of(row: Sequence[Any]) -> Breakpoint:
    value: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
    value["project"] = value.pop("project_id")
    value["status"] = Status(value["status"])
    value["decision"] = Decision(value["decision"]) if value["decision"] else None
    value["seats"] = tuple(Seat(name, tuple(absent), added) for name, absent, added in _decode(value["seats"]))
    value["created_by"] = Actor.parse(value["created_by"])
    value["ended_by"] = Actor.parse(value["ended_by"]) if value["ended_by"] else None
    for name in ("payload", "auto_approval"):
        value[name] = _decode(value[name])
    for name in ("tags", "warnings"):
        value[name] = tuple(_decode(value[name]))
    value["result"] = _decode(value["result"]) if value["result"] else None
    value["agent_id_claimed"] = bool(value["agent_id_claimed"])
    return Breakpoint(**value)
