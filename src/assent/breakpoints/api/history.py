"""The history endpoint: past breakpoints with their outcomes and response times, and statistics for a gate."""

from dataclasses import replace
from typing import Any

from fastapi import Request, Response

from assent.breakpoints.api.listing import MAX_LIMIT, documented, page_limit, single_filters
from assent.breakpoints.store.reading import Query, decode_cursor, encode_cursor
from assent.breakpoints.usecases.history import HistoryService, Past, Standing, is_auto, response_seconds
from assent.contracts import history as wire
from assent.core.access import Kind, Permission, Principal
from assent.core.timestamps import iso
from assent.http.endpoint import Who, With, router
from assent.http.query import CURSOR, LIMIT

history = router("history")

_TEXT = {"type": "string", "minLength": 1, "maxLength": 1000}
_PARAMETERS: dict[str, dict[str, Any]] = {
    "gate": _TEXT | {"description": "Gate to filter by. If set, the first page contains a `summary`."},
    "agentId": _TEXT | {"description": "Agent ID to filter by."},
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 50, "description": LIMIT},
    "cursor": _TEXT | {"description": CURSOR},
}


@history.get(
    "/history",
    response_model_exclude_none=True,
    openapi_extra=documented(_PARAMETERS),
    summary="Lists past breakpoints and their outcomes, newest first, optionally with statistics for a gate",
)
async def list_history(request: Request, who: Who, services: With, response: Response) -> wire.HistoryPage:
    who.require(Permission.READ)
    query = _query(request, who)
    found = await services[HistoryService].page(query)
    response.headers["Cache-Control"] = "no-store"
    page: dict[str, Any] = {"items": [_body(each) for each in found[: query.limit]]}
    if len(found) > query.limit:
        page["nextCursor"] = encode_cursor(query, found[query.limit - 1].row)
    if query.gate is not None and query.cursor is None:
        page["summary"] = _summary_body(query, await services[HistoryService].standing(query))
    return wire.HistoryPage.of(page)


def _query(request: Request, who: Principal) -> Query:
    params = single_filters(request, _PARAMETERS)
    query = Query(
        project=who.project,
        gate=params.get("gate"),
        agent_id=params.get("agentId"),
        # Agents can see only their own breakpoints.
        created_by_id=who.id if who.kind is Kind.AGENT else None,
        limit=page_limit(params.get("limit")),
    )
    cursor = params.get("cursor")
    return query if cursor is None else replace(query, cursor=decode_cursor(cursor, sort=query.sort))


def _body(past: Past) -> dict[str, Any]:
    row = past.row
    return {
        "id": row.id,
        "breakpointId": row.id,
        "gate": row.gate,
        "agentId": row.agent_id,
        "title": row.title,
        "status": row.status,
        "decision": row.decision,
        "decidedBy": row.ended_by if row.decision else None,
        "auto": is_auto(row.ended_by),
        "matchedRule": past.more.matched_rule,
        "createdAt": iso(row.created_at),
        "endedAt": iso(row.ended_at) if row.ended_at is not None else None,
        "responseSeconds": response_seconds(row),
        "strategy": row.strategy,
        "feedback": past.more.feedback,
    }


def _summary_body(query: Query, standing: Standing) -> dict[str, Any]:
    counts = standing.counts
    names = ("approved", "rejected", "auto", "expired", "cancelled", "waiting")
    streaks = dict(standing.streaks)
    return {
        "gate": query.gate,
        "agentId": query.agent_id,
        "asked": counts.total(),
        **{name: counts[name] for name in names},
        "medianResponseSeconds": standing.median_response,
        "streak": streaks.get(query.agent_id, 0) if query.agent_id is not None else None,
        "streaks": [{"agentId": agent, "streak": streak} for agent, streak in streaks.items()],
        "countedAtMost": standing.counted_at_most,
        "complete": standing.complete,
        "since": iso(standing.since) if standing.since is not None else None,
    }
