"""Endpoints for auditors: a project's breakpoint events and admin events."""

from typing import Any

from fastapi import Request, Response

from assent.audit.store.event_log import ADMIN, BREAKPOINT, LogQuery, decode_place, encode_place
from assent.audit.usecases.event_log import EventLogService, event_body
from assent.breakpoints.api.listing import MAX_LIMIT, documented, page_limit, single_filters
from assent.contracts import audit as wire
from assent.core.access import Principal
from assent.core.errors import InvalidRequest
from assent.core.timestamps import from_iso
from assent.http.endpoint import Who, With, router
from assent.http.query import CURSOR, LIMIT

audit_events = router("audit")
_TEXT = {"type": "string", "minLength": 1, "maxLength": 1000}
_MOMENT = {"type": "string", "format": "date-time"}
_PARAMETERS: dict[str, dict[str, Any]] = {
    "kind": {"type": "string", "enum": [BREAKPOINT, ADMIN], "description": "Kind of event to filter by."},
    "type": _TEXT | {"description": "Event type to filter by, such as `roles-changed`."},
    "actor": _TEXT | {"description": "Actor to filter by, such as `person:ann`."},
    "gate": _TEXT | {"description": "Gate to filter by. Only breakpoint events have a gate."},
    "since": _MOMENT | {"description": "Return only events at or after this time."},
    "until": _MOMENT | {"description": "Return only events before this time."},
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 50, "description": LIMIT},
    "cursor": _TEXT | {"description": CURSOR},
}


@audit_events.get(
    "/audit/events",
    response_model_exclude_none=True,
    openapi_extra=documented(_PARAMETERS),
    summary="Lists breakpoint events and admin events, newest first",
)
async def list_audit_events(request: Request, who: Who, services: With, response: Response) -> wire.AuditEventPage:
    params = single_filters(request, _PARAMETERS)
    limit = page_limit(params.get("limit"))
    before = decode_place(params["cursor"]) if "cursor" in params else None
    log = EventLogService(services.database)
    found = await log.page(_query(params, who), by=who, before=before, limit=limit + 1)
    response.headers["Cache-Control"] = "no-store"
    following = encode_place(found[limit - 1].place) if len(found) > limit else None
    items = [{name: value for name, value in event_body(each).items() if value != ""} for each in found[:limit]]
    return wire.AuditEventPage.of({"items": items, "nextCursor": following})


def _query(params: dict[str, str], who: Principal) -> LogQuery:
    kind = params.get("kind")
    if kind not in (None, BREAKPOINT, ADMIN):
        raise InvalidRequest.at("query kind", f"must be {BREAKPOINT} or {ADMIN}")
    return LogQuery(
        project=who.project,
        everywhere=who.everywhere,
        kind=kind,
        actor=params.get("actor"),
        type=params.get("type"),
        gate=params.get("gate"),
        since=_moment(params, "since"),
        until=_moment(params, "until"),
    )


def _moment(params: dict[str, str], name: str) -> int | None:
    try:
        return from_iso(params[name]) if name in params else None
    except ValueError as error:
        raise InvalidRequest.at(f"query {name}", "must be a time, for example 2026-11-16T09:00:00Z") from error
