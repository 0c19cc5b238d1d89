"""Renders rows as JSON; stored documents are inserted unchanged, without being parsed and encoded again."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from assent.breakpoints.store.reading import StatusRow, Summary, Whole
from assent.breakpoints.undo_window import PendingAnswer
from assent.core.breakpoint import NEVER, Event, Response, response_body
from assent.core.timestamps import iso
from assent.db.sql import Row
from assent.kernel.ports import Hint

_encode = msgspec.json.Encoder().encode
_NO_EXPERTS = msgspec.Raw(b"[]")


class FeedbackView(msgspec.Struct, rename="camel"):
    id: str
    breakpoint_id: str
    author: str
    comment: str
    created_at: datetime


class SummaryView(msgspec.Struct, rename="camel", omit_defaults=True):
    id: str
    breakpoint_id: str
    status: str
    agent_id: str
    gate: str
    tags: msgspec.Raw
    experts: msgspec.Raw
    strategy: str
    priority: str
    created_at: datetime
    updated_at: datetime
    decision: str | None = None
    run_id: str | None = None
    title: str | None = None
    question: str | None = None
    risk: str | None = None
    attempt: int | None = None
    deadline: datetime | None = None
    due_at: datetime | None = None
    released_at: datetime | None = None
    expired_at: datetime | None = None
    cancelled_at: datetime | None = None
    decided_by: str | None = None


class WholeView(SummaryView, kw_only=True, rename="camel", omit_defaults=True):
    payload: msgspec.Raw
    feedback: list[FeedbackView]
    responses: list[dict[str, object]]
    auto_approval: msgspec.Raw
    digest: str
    on_timeout: str
    created_by: str
    warnings: msgspec.Raw
    version: int
    result: msgspec.Raw | None = None
    ttl_seconds: int | None = None
    callback_url: str | None = None
    purged_at: datetime | None = None
    agent_id_claimed: bool = False


class StatusView(msgspec.Struct, rename="camel", omit_defaults=True):
    status: str
    updated_at: datetime
    decision: str | None = None
    feedback: list[FeedbackView] | None = None
    result: msgspec.Raw | None = None


class Rendered:
    """Caches encoded bodies by version, so that an unchanged breakpoint is not encoded again."""

    def __init__(self, *, entries: int, largest: int) -> None:
        self._entries = entries
        self._largest = largest
        self._bodies: dict[str, tuple[int, bytes]] = {}

    def find(self, breakpoint_id: str, version: int) -> bytes | None:
        kept = self._bodies.get(breakpoint_id)
        return kept[1] if kept is not None and kept[0] == version else None

    def keep(self, breakpoint_id: str, version: int, body: bytes) -> None:
        if len(body) > self._largest:
            return
        if len(self._bodies) >= self._entries:
            # Dictionaries preserve insertion order, so this removes the oldest entry.
            del self._bodies[next(iter(self._bodies))]
        self._bodies[breakpoint_id] = (version, body)


def moment(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1_000_000, UTC)


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def experts(seats: str) -> msgspec.Raw:
    if seats == "[]":
        return _NO_EXPERTS
    asked: list[tuple[str, list[str], bool]] = msgspec.json.decode(seats)
    # The server added the owner's seat; the agent requested the absent experts that the owner replaces.
    names = [name for seat, absent, added in asked for name in (absent if added else [seat, *absent])]
    return msgspec.Raw(_encode(names))


def summary_view(row: Summary) -> SummaryView:
    return SummaryView(*_summary_values(row))


def _summary_values(row: Summary) -> tuple[Any, ...]:
    """Return the fields of a SummaryView in order. A WholeView begins with the same fields."""
    due = moment(row.due_at) if row.due_at != NEVER else None
    ended = moment(row.ended_at) if row.ended_at is not None else None
    return (
        row.id,
        row.id,
        row.status,
        row.agent_id,
        row.gate,
        raw(row.tags),
        experts(row.seats),
        row.strategy,
        row.priority,
        moment(row.created_at),
        moment(row.updated_at),
        row.decision,
        row.run_id,
        row.title,
        row.question,
        row.risk,
        row.attempt,
        due,
        due,
        ended if row.status == "released" else None,
        ended if row.status == "expired" else None,
        ended if row.status == "cancelled" else None,
        row.ended_by if row.decision else None,
    )


def feedback_views(rows: Sequence[Row]) -> list[FeedbackView]:
    return [FeedbackView(each_id, parent, author, text, moment(at)) for parent, each_id, author, text, at in rows]


def whole(row: Whole, feedback: Sequence[Row], responses: Sequence[Response]) -> bytes:
    view = WholeView(
        *_summary_values(row),
        payload=raw(row.payload),
        feedback=feedback_views(feedback),
        responses=[response_body(each) for each in responses],
        auto_approval=raw(row.auto_approval),
        digest=row.digest,
        on_timeout=row.on_timeout,
        created_by=row.created_by,
        warnings=raw(row.warnings),
        version=row.version,
        result=raw(row.result) if row.result else None,
        ttl_seconds=row.ttl_seconds,
        callback_url=row.callback_url,
        purged_at=moment(row.purged_at) if row.purged_at is not None else None,
        agent_id_claimed=bool(row.agent_id_claimed),
    )
    return _encode(view)


def with_pending(body: bytes, pending: Sequence[PendingAnswer]) -> bytes:
    """Append pending answers to a cached body, because they can change without a new version of the breakpoint."""
    if not pending:
        return body
    shown = [{"by": each.person, "approved": each.approved, "dueAt": iso(each.due_at)} for each in pending]
    return body[:-1] + b',"pendingAnswers":' + _encode(shown) + b"}"


def status(row: StatusRow, feedback: Sequence[Row]) -> bytes:
    return _encode(
        StatusView(
            row.status,
            moment(row.updated_at),
            row.decision,
            feedback_views(feedback) or None,
            raw(row.result) if row.result else None,
        )
    )


def page(
    rows: Sequence[Summary], *, next_cursor: str | None, counts: dict[str, int] | None, rendered: Rendered
) -> bytes:
    items = b",".join([_summary(row, rendered) for row in rows])
    rest = b"" if next_cursor is None else b',"nextCursor":' + _encode(next_cursor)
    if counts is not None:
        rest += b',"counts":' + _encode(counts)
    return b'{"items":[' + items + b"]" + rest + b"}"


def _summary(row: Summary, rendered: Rendered) -> bytes:
    body = rendered.find(row.id, row.version)
    if body is None:
        body = _encode(summary_view(row))
        rendered.keep(row.id, row.version, body)
    return body


def event_body(event: Event) -> dict[str, object]:
    return {
        "id": f"{event.breakpoint_id}.{event.seq}",
        "breakpointId": event.breakpoint_id,
        "seq": event.seq,
        "type": event.type,
        "actor": str(event.actor),
        "timestamp": iso(event.at),
        "metadata": event.metadata,
        "hash": event.hash,
    }


def events_page(events: Sequence[Event]) -> bytes:
    return _encode({"items": [event_body(event) for event in events]})


def sse(event: Event) -> bytes:
    data = _encode(event_body(event))
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.type.encode(), data)


def hint(found: Hint) -> bytes:
    data = _encode({"breakpointId": found.breakpoint_id, "status": found.status.value, "version": found.version})
    return b"event: changed\ndata: " + data + b"\n\n"


class RenderedBreakpoints:
    """Caches of encoded breakpoints, both complete and as list rows."""

    def __init__(self) -> None:
        self.whole = Rendered(entries=4_096, largest=16_384)
        self.summaries = Rendered(entries=16_384, largest=4_096)
