"""The list endpoint and its filters."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from fastapi import Request
from starlette.datastructures import QueryParams
from starlette.responses import Response

from assent.breakpoints.api import views
from assent.breakpoints.api.views import RenderedBreakpoints
from assent.breakpoints.store.reading import SORTS, Query, decode_cursor, encode_cursor
from assent.breakpoints.usecases.inbox import InboxService
from assent.core.access import Kind, Permission, Principal
from assent.core.errors import InvalidRequest
from assent.core.timestamps import from_iso
from assent.http.auth import principal_of
from assent.http.endpoint import Services, services_of
from assent.http.prebuilt import ReadyJson
from assent.http.query import STATUSES
from assent.people.usecases.people import PeopleService

MAX_LIMIT = 200


async def listing(request: Request) -> Response:
    services, who = services_of(request), principal_of(request)
    who.require(Permission.READ)
    query = await list_query(request, services, who)
    rows = await services[InboxService].page(query)
    more = len(rows) > query.limit
    rows = rows[: query.limit]
    counts = None
    if _flag(request, "counts"):
        counts = await services[InboxService].reader.counts(query)
    next_cursor = encode_cursor(query, rows[-1]) if more else None
    body = views.page(rows, next_cursor=next_cursor, counts=counts, rendered=services[RenderedBreakpoints].summaries)
    return ReadyJson(body)


LIST_PARAMETERS = frozenset(
    {
        "status", "tag", "agentId", "runId", "gate", "expert", "assignedTo", "createdAfter", "createdBefore", "q",
        "sort", "limit", "cursor", "counts",
    }
)  # fmt: skip


def known_filters(request: Request, known: frozenset[str]) -> QueryParams:
    params = request.query_params
    for name, value in params.multi_items():
        if name not in known:
            raise InvalidRequest.at(f"query {name[:60]}", "is not a known filter")
        if not value or len(value) > 1000 or "\x00" in value:  # noqa: PLR2004  # the maximum length of a filter
            raise InvalidRequest.at(f"query {name}", "must be 1 to 1,000 characters and must not contain NUL")
    return params


def single_filters(request: Request, known: Collection[str]) -> dict[str, str]:
    """Parse filters, and reject repeated ones, because a second value would be ignored."""
    params = known_filters(request, frozenset(known))
    for name in params:
        if len(params.getlist(name)) > 1:
            raise InvalidRequest.at(f"query {name}", "must be given only once")
    return dict(params)


def documented(parameters: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the OpenAPI parameters for filters that FastAPI does not parse; a schema can include a description."""
    return {"parameters": [_parameter(name, dict(schema)) for name, schema in parameters.items()]}


def _parameter(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    described = {"description": schema.pop("description")} if "description" in schema else {}
    return {"name": name, "in": "query", "required": False, "schema": schema, **described}


async def list_query(request: Request, services: Services, who: Principal) -> Query:
    """Parse the filters, and reject unknown ones, because ignoring a misspelled filter would list everything."""
    params = known_filters(request, LIST_PARAMETERS)
    statuses = tuple(dict.fromkeys(params.getlist("status"))) or STATUSES
    if unknown := set(statuses) - set(STATUSES):
        raise InvalidRequest.at(
            "query status", f"{', '.join(sorted(unknown))[:60]} is not one of {', '.join(STATUSES)}"
        )
    sort = params.get("sort", "-created")
    if sort not in SORTS:
        raise InvalidRequest.at("query sort", f"must be one of {', '.join(SORTS)}")
    q = params.get("q")
    if q is not None and not q.split():
        raise InvalidRequest.at("query q", "must contain at least one word")
    return Query(
        project=who.project,
        statuses=statuses,
        tags=tuple(dict.fromkeys(params.getlist("tag"))),
        experts_any=await _experts(params.get("expert"), params.get("assignedTo"), services, who),
        agent_id=params.get("agentId"),
        run_id=params.get("runId"),
        gate=params.get("gate"),
        created_after=_moment(params.get("createdAfter"), "createdAfter"),
        created_before=_moment(params.get("createdBefore"), "createdBefore"),
        # Agents can see only their own breakpoints.
        created_by_id=who.id if who.kind is Kind.AGENT else None,
        q=q,
        sort=sort,
        limit=page_limit(params.get("limit")),
        cursor=decode_cursor(params["cursor"], sort=sort) if "cursor" in params else None,
    )


async def _experts(expert: str | None, assigned: str | None, services: Services, who: Principal) -> tuple[str, ...]:
    if assigned is None:
        return (expert,) if expert is not None else ()
    if assigned != "me":
        raise InvalidRequest.at("query assignedTo", "must be me")
    if who.kind is not Kind.PERSON:
        raise InvalidRequest.at("query assignedTo", "can be used only with a person's token or session")
    names = await services.database.read(partial(services[PeopleService].expert_names, by=who))
    # An empty tuple would disable the filter. No expert has an empty name, so ("",) matches nothing.
    return tuple(name for name in names if expert is None or name == expert) or ("",)


def _moment(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    try:
        return from_iso(text)
    except (ValueError, OverflowError) as error:
        raise InvalidRequest.at(f"query {name}", "must be a time, for example 2026-11-15T09:30:00Z") from error


def page_limit(text: str | None) -> int:
    if text is None:
        return 50
    # isdigit() alone accepts characters that int() rejects, such as superscripts.
    if not (text.isascii() and text.isdigit() and len(text) < 4 and 1 <= int(text) <= MAX_LIMIT):  # noqa: PLR2004
        raise InvalidRequest.at("query limit", f"must be a whole number from 1 to {MAX_LIMIT}")
    return int(text)


def _flag(request: Request, name: str) -> bool:
    text = request.query_params.get(name, "false")
    if text not in {"true", "false"}:
        raise InvalidRequest.at(f"query {name}", "must be true or false")
    return text == "true"
