"""Waiting for an answer: the long poll, a breakpoint's event stream, and the stream of hints for inboxes."""

import asyncio
import re

from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from assent.breakpoints.api import views
from assent.breakpoints.api.streams import HEARTBEAT, ChangeStream
from assent.breakpoints.store.reading import StatusRow
from assent.breakpoints.usecases.inbox import InboxService
from assent.core.access import Kind, Permission, Principal
from assent.core.breakpoint import TERMINAL
from assent.core.errors import Forbidden, InvalidRequest, RateLimited, Unauthenticated
from assent.core.timestamps import SECOND
from assent.http.auth import principal_of
from assent.http.endpoint import Services, services_of
from assent.http.prebuilt import ReadyJson
from assent.http.query import known_id
from assent.http.waiters import Woken, parked

MAX_WAIT = 30.0
DRAINING = ((b"retry-after", b"0"), (b"connection", b"close"))
TICK = 0.001
"""The event loop's timers have millisecond resolution and can fire slightly early."""
_NUMBER = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?")


async def status(request: Request) -> Response:
    """Return the status immediately, or with ?wait= as soon as it changes."""
    services, who = services_of(request), principal_of(request)
    breakpoint_id = known_id(request.path_params["breakpoint_id"])
    # Most requests have no query string, so skip parsing it.
    wait = _seconds(request.query_params.get("wait")) if request.scope["query_string"] else 0.0
    # A draining node responds immediately, so that the client continues to wait on another node.
    if wait and not services.hub.draining:
        row = await _wait(request, services, who, breakpoint_id, wait)
    else:
        row = await services[InboxService].status(breakpoint_id, who)
        if who.kind is Kind.AGENT:
            # Agents that poll count as present, just like agents that wait.
            services.hub.heard(row.id)
    body = views.status(row, await services[InboxService].feedback(row))
    return ReadyJson(body, more=DRAINING if services.hub.draining else ())


def _seconds(text: str | None) -> float:
    if text is None:
        return 0.0
    # float() alone would also accept " 5", "1_0" and non-ASCII digits.
    wait = float(text) if _NUMBER.fullmatch(text) else -1.0
    if not 0 <= wait <= MAX_WAIT:
        raise InvalidRequest.at("query wait", f"must be a number of seconds from 0 to {MAX_WAIT:.0f}")
    return wait


async def _wait(request: Request, services: Services, who: Principal, breakpoint_id: str, seconds: float) -> StatusRow:
    """Register before the first read, so that no change is missed; continue waiting after a spurious wake-up."""
    check_quota(services, who)
    request.scope["waited"] = True
    loop = asyncio.get_running_loop()
    waiter = services.hub.register(breakpoint_id, who.token_id or who.id, by_agent=who.kind is Kind.AGENT)
    try:
        row = before = await services[InboxService].status(breakpoint_id, who)
        until = loop.time() + seconds
        while row.status == "waiting" and row.version == before.version:
            left = until - loop.time()
            woken = await parked(waiter, min(left, until_due(services, row)), request.receive)
            if woken is Woken.REVOKED:
                msg = "This token was revoked."
                raise Unauthenticated(msg)
            services.hub.rearm(waiter)
            row = await services[InboxService].status(breakpoint_id, who)
            # A timeout before the end of the wait means that the deadline may have passed. Keep waiting, because only
            # the read can tell: the deadline may be governed by a different clock from this wait.
            at_deadline = woken is Woken.TIMEOUT and loop.time() < until
            if woken is not Woken.CHANGED and not at_deadline:
                break
        return row
    finally:
        services.hub.remove(waiter)


def until_due(services: Services, row: StatusRow) -> float:
    return max(TICK, (row.due_at - services.clock.now()) / SECOND + TICK)


def check_quota(services: Services, who: Principal) -> None:
    limit = services.settings.waits_per_token
    if limit and services.hub.held_by(who.token_id or who.id) >= limit:
        msg = f"This token already has {limit} open waits on this node. Wait for one to end, then try again."
        raise RateLimited(msg, retry_after=1)


async def stream(request: Request) -> Response:
    """Stream a breakpoint's events until the breakpoint ends."""
    services, who = services_of(request), principal_of(request)
    row = await services[InboxService].status(known_id(request.path_params["breakpoint_id"]), who)
    check_quota(services, who)
    last = request.headers.get("last-event-id", "0")
    # If the number were beyond the last event, the stream would skip every event up to that number.
    if not last.isascii() or not last.isdigit() or len(last) > 9 or int(last) > row.version:  # noqa: PLR2004
        raise InvalidRequest.at("header Last-Event-ID", "must be the seq of one of this breakpoint's events")
    # A HEAD request must not wait for events.
    if request.method == "HEAD":
        return Response(media_type=EventStream.media_type)
    return EventStream(services, who, row.id, int(last))


class EventStream(Response):
    """Streams a breakpoint's events, and closes after the final event."""

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
        by_agent = self._who.kind is Kind.AGENT
        waiter = self._services.hub.register(self._id, self._who.token_id or self._who.id, by_agent=by_agent)
        try:
            while True:
                ended = await self._send_new(send)
                if ended:
                    break
                row = await self._services[InboxService].status(self._id, self._who)
                # Another event was recorded after the events were read.
                if row.version > self._after:
                    continue
                # The client resumed after the last event: browsers reconnect when the server closes the stream.
                if row.status != "waiting":
                    break
                woken = await parked(waiter, min(HEARTBEAT, until_due(self._services, row)), receive)
                if woken in {Woken.GONE, Woken.DRAINED, Woken.REVOKED}:
                    break
                if woken is Woken.TIMEOUT:
                    await send({"type": "http.response.body", "body": b": still waiting\n\n", "more_body": True})
                self._services.hub.rearm(waiter)
        finally:
            self._services.hub.remove(waiter)
        await send({"type": "http.response.body", "body": b""})

    async def _send_new(self, send: Send) -> bool:
        found = await self._services[InboxService].events(self._id, after=self._after)
        for event in found:
            self._after = event.seq
            await send({"type": "http.response.body", "body": views.sse(event), "more_body": True})
        return any(event.type in TERMINAL for event in found)


async def changes(request: Request) -> Response:
    """Stream hints about changes in the project, which tell inboxes to read their lists again."""
    services, who = services_of(request), principal_of(request)
    who.require(Permission.READ)
    if who.kind is Kind.AGENT:
        msg = "Agents can see only their own breakpoints. Stream each breakpoint individually."
        raise Forbidden(msg)
    check_quota(services, who)
    if request.method == "HEAD":
        return Response(media_type=ChangeStream.media_type)
    return ChangeStream(services.hub, who.project, who.token_id or who.id)
