"""Rows to JSON: stored documents are spliced in as they are, never parsed and written again."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from assent.domain.breakpoint import NEVER, Event, Response, response_body
from assent.domain.instants import iso
from assent.ports import Hint
from assent.store.reading import StatusRow, Summary, Whole
from assent.store.sql import Row

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


class StatusView(msgspec.Struct, rename="camel", omit_defaults=True):
    status: str
    updated_at: datetime
    decision: str | None = None
    feedback: list[FeedbackView] | None = None
    result: msgspec.Raw | None = None


class PageView(msgspec.Struct, rename="camel", omit_defaults=True):
    items: list[SummaryView]
    next_cursor: str | None = None
    counts: dict[str, int] | None = None


def moment(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1_000_000, UTC)


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def experts(seats: str) -> msgspec.Raw:
    if seats == "[]":
        return _NO_EXPERTS
    pairs: list[tuple[str, list[str]]] = msgspec.json.decode(seats)
    return msgspec.Raw(_encode([name for seat, absent in pairs for name in ([*absent] or [seat])]))


def summary_view(row: Summary) -> SummaryView:
    ended = moment(row.ended_at) if row.ended_at is not None else None
    return SummaryView(
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
        moment(row.due_at) if row.due_at != NEVER else None,
        ended if row.status == "released" else None,
        ended if row.status == "expired" else None,
        ended if row.status == "cancelled" else None,
        row.ended_by if row.decision else None,
    )


def feedback_views(rows: Sequence[Row]) -> list[FeedbackView]:
    return [FeedbackView(each_id, parent, author, text, moment(at)) for parent, each_id, author, text, at in rows]


def whole(row: Whole, feedback: Sequence[Row], responses: Sequence[Response]) -> bytes:
    base = summary_view(row)
    view = WholeView(
        *(getattr(base, name) for name in SummaryView.__struct_fields__),
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
    )
    return _encode(view)


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


def page(rows: Sequence[Summary], *, next_cursor: str | None, counts: dict[str, int] | None) -> bytes:
    return _encode(PageView([summary_view(row) for row in rows], next_cursor, counts))


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
