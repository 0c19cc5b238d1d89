"""Breakpoints: create, read, wait, answer, end."""

import asyncio
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from assent import wire
from assent.api.routing import NO_FIELDS, Services, Who, With, checked, read_json, router, services_of
from assent.domain.access import Kind, Permission, Principal
from assent.domain.breakpoint import TERMINAL
from assent.domain.canonical import canonical, sha256
from assent.domain.draft import draft
from assent.domain.errors import Forbidden, InvalidRequest, NotFound, RateLimited, Unauthenticated
from assent.domain.instants import SECOND, from_iso
from assent.domain.terms import Answer
from assent.http import views
from assent.http.auth import principal_of
from assent.http.waiting import Woken, parked
from assent.services.breakpoints import Once, Outcome
from assent.store.reading import SORTS, Query, StatusRow, Whole, decode_cursor, encode_cursor

MAX_WAIT = 30.0
HEARTBEAT = 15.0
MAX_LIMIT = 200
STATUSES = ("waiting", "released", "expired", "cancelled")
JSON = "application/json"
_ID = re.compile(r"bp_[0-9a-z]{26}")
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_NUMBER = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?")
_ETAG = re.compile(r'(?:W/)?"v(\d{1,9})"')

breakpoints = router("breakpoints")


def known_id(breakpoint_id: str) -> str:
    """Anything that cannot be an id is not there; the database need not be asked."""
    if not _ID.fullmatch(breakpoint_id):
        msg = f"There is no breakpoint {breakpoint_id[:60]!r} in this project."
        raise NotFound(msg)
    return breakpoint_id


def _once(key: str | None, body: object, *scope: str) -> Once | None:
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise InvalidRequest.at("header Idempotency-Key", "must be 1 to 255 visible ASCII characters")
    return Once(key, sha256(canonical([*scope, body])))


async def create(request: Request) -> Response:
    """Raise a breakpoint; the same Idempotency-Key gives the same one."""
    services, who = services_of(request), principal_of(request)
    who.require(Permission.CREATE)
    sent = await read_json(request)
    checked(sent, wire.CreateBreakpoint)
    services.creates.take(who.token_id or who.id, per_minute=who.creates_per_minute, what="breakpoints")
    wanted = draft(sent)
    use_case = partial(
        services.breakpoints.create,
        draft=wanted,
        by=who,
        digest=wanted.digest(who.project),
        once=_once(request.headers.get("idempotency-key"), sent, "create"),
    )
    created = await services.database.write(use_case)
    if isinstance(created, str):
        return await _whole(services, created, who, status=201)
    services.metrics.created.inc()
    return _answer(views.whole(created, (), ()), created, status=201)


async def feedback(request: Request) -> Response:
    """Comment, or answer."""
    services, who = services_of(request), principal_of(request)
    breakpoint_id = known_id(request.path_params["breakpoint_id"])
    sent = await read_json(request)
    body = checked(sent, wire.GiveFeedback)
    once = _once(request.headers.get("idempotency-key"), sent, "feedback", breakpoint_id)
    if_match = _version(request.headers.get("if-match"))
    outcome = await services.database.write(_feedback_use_case(services, breakpoint_id, body, who, once, if_match))
    if outcome is None:
        return await _whole(services, breakpoint_id, who)
    return _answer(views.whole(outcome.row, (), outcome.responses), outcome.row)


def _feedback_use_case(  # the parts of one request
    services: Services,
    breakpoint_id: str,
    body: wire.GiveFeedback,
    who: Principal,
    once: Once | None,
    if_match: int | None,
) -> Callable[..., Outcome | None]:
    if body.release or body.approved is not None:
        if body.release is False:
            raise InvalidRequest.at("/release", "is false, but approved was given; which one is it?")
        answer = Answer(
            approved=body.approved is not False,
            comment=body.comment,
            option=body.option,
            answers=body.answers,
            edits=body.edits,
            confirm=body.confirm,
            digest=body.digest,
        )
        return partial(
            services.breakpoints.respond,
            breakpoint_id=breakpoint_id,
            answer=answer,
            by=who,
            via="api",
            once=once,
            if_match=if_match,
        )
    if body.option is not None or body.answers is not None or body.edits is not None:
        raise InvalidRequest.at("/release", "an option, answers or edits need release: true")
    if not body.comment:
        raise InvalidRequest.at("/comment", "say something, or decide with release: true")
    return partial(services.breakpoints.comment, breakpoint_id=breakpoint_id, comment=body.comment, by=who, once=once)


def _version(if_match: str | None) -> int | None:
    if if_match is None or if_match == "*":
        return None
    found = _ETAG.fullmatch(if_match.strip())
    return int(found.group(1)) if found else -1


@breakpoints.post(
    "/breakpoints/{breakpoint_id}/cancel",
    response_model=wire.BreakpointView,
    dependencies=NO_FIELDS,
    summary="Take it back",
)
async def cancel(breakpoint_id: str, who: Who, services: With) -> Response:
    await services.database.write(partial(services.breakpoints.cancel, breakpoint_id=known_id(breakpoint_id), by=who))
    return await _whole(services, breakpoint_id, who)


@breakpoints.post(
    "/breakpoints/{breakpoint_id}/expire",
    response_model=wire.BreakpointView,
    dependencies=NO_FIELDS,
    summary="End it now",
)
async def expire(breakpoint_id: str, who: Who, services: With) -> Response:
    await services.database.write(partial(services.breakpoints.expire, breakpoint_id=known_id(breakpoint_id), by=who))
    return await _whole(services, breakpoint_id, who)


@breakpoints.get("/breakpoints/{breakpoint_id}/events", response_model=wire.EventPage, summary="Its history")
async def events(breakpoint_id: str, who: Who, services: With) -> Response:
    await services.inbox.status(known_id(breakpoint_id), who)
    return Response(views.events_page(await services.inbox.history(breakpoint_id)), media_type=JSON)


async def _whole(services: Services, breakpoint_id: str, who: Principal, *, status: int = 200) -> Response:
    row = await services.inbox.whole(breakpoint_id, who)
    body = services.rendered.find(row.id, row.version)
    if body is None:
        body = views.whole(row, await services.inbox.feedback(row), await services.inbox.responses(row))
        services.rendered.keep(row.id, row.version, body)
    return _answer(body, row, status=status)


def _answer(body: bytes, row: Whole, *, status: int = 200) -> Response:
    return Response(body, status, {"ETag": f'"v{row.version}"', "Cache-Control": "no-store"}, JSON)


async def get(request: Request) -> Response:
    services = services_of(request)
    return await _whole(services, known_id(request.path_params["breakpoint_id"]), principal_of(request))


async def status(request: Request) -> Response:
    """Answer now, or with ?wait= as soon as something happens."""
    services, who = services_of(request), principal_of(request)
    breakpoint_id = known_id(request.path_params["breakpoint_id"])
    wait = _seconds(request.query_params.get("wait"))
    if wait and not services.hub.draining:
        row = await _wait(request, services, who, breakpoint_id, wait)
    else:
        row = await services.inbox.status(breakpoint_id, who)
    body = views.status(row, await services.inbox.feedback(row))
    headers = {"Cache-Control": "no-store"}
    if services.hub.draining:
        headers |= {"Retry-After": "0", "Connection": "close"}
    return Response(body, 200, headers, JSON)


def _seconds(text: str | None) -> float:
    if text is None:
        return 0.0
    # float() alone would take " 5", "1_0" and digits of every script.
    wait = float(text) if _NUMBER.fullmatch(text) else -1.0
    if not 0 <= wait <= MAX_WAIT:
        raise InvalidRequest.at("query wait", f"must be a number of seconds from 0 to {MAX_WAIT:.0f}")
    return wait


async def _wait(request: Request, services: Services, who: Principal, breakpoint_id: str, seconds: float) -> StatusRow:
    """Register, read, wait, read again; a wake-up about nothing new is slept through."""
    _check_quota(services, who)
    request.scope["waited"] = True
    loop = asyncio.get_running_loop()
    waiter = services.hub.register(breakpoint_id, who.token_id or who.id)
    try:
        row = before = await services.inbox.status(breakpoint_id, who)
        until = loop.time() + min(seconds, max(0.0, (row.due_at - services.clock.now()) / SECOND))
        while row.status == "waiting" and row.version == before.version:
            woken = await parked(waiter, until - loop.time(), request.receive)
            if woken is Woken.REVOKED:
                msg = "This token was revoked."
                raise Unauthenticated(msg)
            services.hub.rearm(waiter)
            row = await services.inbox.status(breakpoint_id, who)
            if woken is not Woken.CHANGED:
                break
        return row
    finally:
        services.hub.remove(waiter)


def _check_quota(services: Services, who: Principal) -> None:
    limit = services.settings.waits_per_token
    if limit and services.hub.held_by(who.token_id or who.id) >= limit:
        msg = f"This token holds {limit} waits open on this node already."
        raise RateLimited(msg, retry_after=1)


async def stream(request: Request) -> Response:
    """Every event of one breakpoint, until the one that ends it."""
    services, who = services_of(request), principal_of(request)
    row = await services.inbox.status(known_id(request.path_params["breakpoint_id"]), who)
    _check_quota(services, who)
    last = request.headers.get("last-event-id", "0")
    # A number beyond the last event would wait for ever, deaf to everything before it.
    if not last.isascii() or not last.isdigit() or len(last) > 9 or int(last) > row.version:  # noqa: PLR2004
        raise InvalidRequest.at("header Last-Event-ID", "must be the number of an event of this breakpoint")
    return EventStream(services, who, row.id, int(last))


class EventStream(Response):
    """Server-sent events over the waiting hub; ends by itself."""

    media_type = "text/event-stream"

    def __init__(self, services: Services, who: Principal, breakpoint_id: str, after: int) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._services = services
        self._who = who
        self._id = breakpoint_id
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["waited"] = True
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        waiter = self._services.hub.register(self._id, self._who.token_id or self._who.id)
        try:
            while True:
                ended = await self._send_new(send)
                if ended:
                    break
                row = await self._services.inbox.status(self._id, self._who)
                if row.version > self._after:
                    continue
                if row.status != "waiting":
                    break
                until_due = max(0.0, (row.due_at - self._services.clock.now()) / SECOND)
                woken = await parked(waiter, min(HEARTBEAT, until_due), receive)
                if woken in {Woken.GONE, Woken.DRAINED, Woken.REVOKED}:
                    break
                if woken is Woken.TIMEOUT:
                    await send({"type": "http.response.body", "body": b": still waiting\n\n", "more_body": True})
                self._services.hub.rearm(waiter)
        finally:
            self._services.hub.remove(waiter)
        await send({"type": "http.response.body", "body": b""})

    async def _send_new(self, send: Send) -> bool:
        found = await self._services.inbox.events(self._id, after=self._after)
        for event in found:
            self._after = event.seq
            await send({"type": "http.response.body", "body": views.sse(event), "more_body": True})
        return any(event.type in TERMINAL for event in found)


async def changes(request: Request) -> Response:
    """What changed in the project, as hints: an inbox reads again what it shows."""
    services, who = services_of(request), principal_of(request)
    who.require(Permission.READ)
    if who.kind is Kind.AGENT:
        msg = "An agent sees only its own breakpoints; stream those one by one."
        raise Forbidden(msg)
    _check_quota(services, who)
    return ChangeStream(services, who)


class ChangeStream(Response):
    media_type = "text/event-stream"

    def __init__(self, services: Services, who: Principal) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._services = services
        self._who = who

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["waited"] = True
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": b": listening\n\n", "more_body": True})
        inbox = self._services.hub.open_inbox(self._who.project, self._who.token_id or self._who.id)
        gone = asyncio.ensure_future(_gone(receive))
        gone.add_done_callback(lambda _: inbox.close())
        try:
            while not inbox.closed:
                try:
                    await asyncio.wait_for(inbox.ready.wait(), HEARTBEAT)
                except TimeoutError:
                    await send({"type": "http.response.body", "body": b": quiet\n\n", "more_body": True})
                await self._send_hints(inbox, send)
        finally:
            gone.cancel()
            self._services.hub.close_inbox(inbox)
        await send({"type": "http.response.body", "body": b""})

    async def _send_hints(self, inbox: Any, send: Send) -> None:  # noqa: ANN401
        inbox.ready.clear()
        hints, inbox.hints = inbox.hints, {}
        for hint in hints.values():
            await send({"type": "http.response.body", "body": views.hint(hint), "more_body": True})
        if inbox.overflowed:
            inbox.overflowed = False
            await send({"type": "http.response.body", "body": b"event: resync\ndata: {}\n\n", "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def listing(request: Request) -> Response:
    services, who = services_of(request), principal_of(request)
    who.require(Permission.READ)
    query = await list_query(request, services, who)
    rows = await services.inbox.page(query)
    more = len(rows) > query.limit
    rows = rows[: query.limit]
    counts = None
    if _flag(request, "counts"):
        counts = await services.inbox.reader.counts(query)
    next_cursor = encode_cursor(query, rows[-1]) if more else None
    body = views.page(rows, next_cursor=next_cursor, counts=counts, rendered=services.summaries)
    return Response(body, 200, {"Cache-Control": "no-store"}, JSON)


LIST_PARAMETERS = frozenset(
    {
        "status", "tag", "agentId", "runId", "gate", "expert", "assignedTo", "createdAfter", "createdBefore", "q",
        "sort", "limit", "cursor", "counts",
    }
)  # fmt: skip


async def list_query(request: Request, services: Services, who: Principal) -> Query:
    """Read the filters, strictly: a misspelt one must not silently show everything."""
    params = request.query_params
    for name, value in params.multi_items():
        if name not in LIST_PARAMETERS:
            raise InvalidRequest.at(f"query {name[:60]}", "is not a filter")
        if not value or len(value) > 1000 or "\x00" in value:  # noqa: PLR2004  # a filter's sane length
            raise InvalidRequest.at(f"query {name}", "must have 1 to 1000 characters and no NUL")
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
        raise InvalidRequest.at("query q", "must have a word")
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
        created_by_id=who.id if who.kind is Kind.AGENT else None,
        q=q,
        sort=sort,
        limit=_limit(params.get("limit")),
        cursor=decode_cursor(params["cursor"], sort=sort) if "cursor" in params else None,
    )


async def _experts(expert: str | None, assigned: str | None, services: Services, who: Principal) -> tuple[str, ...]:
    if assigned is None:
        return (expert,) if expert is not None else ()
    if assigned != "me":
        raise InvalidRequest.at("query assignedTo", "must be me")
    if who.kind is not Kind.PERSON:
        raise InvalidRequest.at("query assignedTo", "only a person has things assigned to them")
    names = await services.database.read(partial(services.people.expert_names, by=who))
    return tuple(name for name in names if expert is None or name == expert) or ("",)


def _moment(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    try:
        return from_iso(text)
    except (ValueError, OverflowError) as error:
        raise InvalidRequest.at(f"query {name}", "must be a time such as 2026-11-15T09:30:00Z") from error


def _limit(text: str | None) -> int:
    if text is None:
        return 50
    if not (text.isascii() and text.isdigit() and len(text) < 4 and 1 <= int(text) <= MAX_LIMIT):  # noqa: PLR2004
        raise InvalidRequest.at("query limit", f"must be a whole number from 1 to {MAX_LIMIT}")
    return int(text)


def _flag(request: Request, name: str) -> bool:
    text = request.query_params.get(name, "false")
    if text not in {"true", "false"}:
        raise InvalidRequest.at(f"query {name}", "must be true or false")
    return text == "true"


HOT_ROUTES = [
    Route("/api/breakpoints", listing, methods=["GET"]),
    Route("/api/breakpoints", create, methods=["POST"]),
    Route("/api/breakpoints/{breakpoint_id}", get, methods=["GET"]),
    Route("/api/breakpoints/{breakpoint_id}/status", status, methods=["GET"]),
    Route("/api/breakpoints/{breakpoint_id}/feedback", feedback, methods=["POST"]),
    Route("/api/breakpoints/{breakpoint_id}/stream", stream, methods=["GET"]),
    Route("/api/stream", changes, methods=["GET"]),
]


class FastLane:
    """Answers the hot routes without the framework's machinery, which costs three times what they do."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services
        self._handlers = {
            (method, route.path.count("/"), _last_word(route.path)): (route, route.endpoint)
            for route in HOT_ROUTES
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["services"] = self._services
            found = self._find(scope["method"], scope["path"])
            if found is not None:
                scope["route"], scope["path_params"] = found[0], found[2]
                response: Response = await found[1](Request(scope, receive))
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _find(self, method: str, path: str) -> tuple[Route, Any, dict[str, str]] | None:
        if not path.startswith("/api/breakpoints"):
            return None
        parts = path.split("/")
        named = len(parts) == _PARTS_OF_ONE
        found = self._handlers.get((method, len(parts) - 1, "" if named else parts[-1]))
        if found is None or parts[2] != "breakpoints":
            return None
        return *found, {"breakpoint_id": parts[3]} if len(parts) >= _PARTS_OF_ONE else {}


_PARTS_OF_ONE = "/api/breakpoints/{breakpoint_id}".count("/") + 1


def _last_word(path: str) -> str:
    """The literal that tells a route from the others with as many parts."""
    last = path.rsplit("/", 1)[-1]
    return "" if last.startswith("{") else last
