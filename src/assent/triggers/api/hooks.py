"""Webhook endpoints for sources. They are outside /api, because each source authenticates its own senders."""

import re
from collections.abc import Callable, Sequence
from http import HTTPStatus

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from assent.core.errors import NotFound, TooLarge, Unauthenticated
from assent.delivery.api.callbacks import headers_of
from assent.http.endpoint import JSON
from assent.http.limits import RateLimit
from assent.kernel.ports import Incoming
from assent.triggers.usecases.webhooks import Door, Ingress, nothing_here

STRANGERS_PER_MINUTE = 120
"""The maximum number of rejected requests per minute from one client to one source."""
_ADDRESS = re.compile(r"[0-9a-z][0-9a-z_.-]{0,79}", re.ASCII)
_PATH = "/hooks/{source}"
_KEYED = "/hooks/{source}/{key}"


def hooks(ingress: Ingress, now: Callable[[], int], *, strangers_per_minute: int = STRANGERS_PER_MINUTE) -> list[Route]:
    """Return the webhook routes, which accept only POST requests."""
    limit = RateLimit(0, now)
    strangers = RateLimit(strangers_per_minute, now)

    async def take(request: Request) -> Response:
        key: str | None = request.path_params.get("key")
        # Logs contain this name instead of the path, which may end with a secret.
        request.scope["route_name"] = _PATH if key is None else _KEYED
        address: str = request.path_params["source"]
        try:
            door = await _door(ingress, address)
            incoming = Incoming(headers_of(request.scope["headers"]), await _body(request, door), now())
            arrived = await ingress.verified(door, key, incoming)
        except (NotFound, Unauthenticated):
            # Count only rejected requests, so that valid senders that share an IP address are not throttled.
            client = request.client.host if request.client else ""
            strangers.take(f"{client} {address}", what="unverified requests")
            raise
        # Apply this limit after verification, so that unauthenticated requests cannot use it up.
        limit.take(door.source.id, per_minute=door.per_minute, what="events from this source")
        kept = await ingress.keep(door, arrived)
        body = msgspec.json.encode({"eventId": kept.id, "duplicate": kept.duplicate})
        status = HTTPStatus.OK if kept.duplicate else HTTPStatus.ACCEPTED
        return Response(body, status, {"Cache-Control": "no-store"}, JSON)

    return [Route(path, take, methods=["POST"]) for path in (_PATH, _KEYED)]


class HookLane:
    """Routes webhooks before anything else, because matching every event against a hundred routes is slow."""

    def __init__(self, app: ASGIApp, routes: Sequence[Route]) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"].startswith("/hooks/"):
            for route in self._routes:
                match, found = route.matches(scope)
                if match is Match.FULL:
                    scope.update(found)
                    await route.handle(scope, receive, send)
                    return
        await self._app(scope, receive, send)


async def _door(ingress: Ingress, address: str) -> Door:
    if not _ADDRESS.fullmatch(address):
        raise nothing_here()
    return await ingress.door(address)


async def _body(request: Request, door: Door) -> bytes:
    """Read the body. Reject it as soon as it exceeds the source's size limit, without waiting for the rest."""
    told = request.headers.get("content-length", "")
    if told.isdecimal() and len(told) < 20 and int(told) > door.max_bytes:  # noqa: PLR2004  # a plausible number of digits
        raise _too_large(door)
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > door.max_bytes:
            raise _too_large(door)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(door: Door) -> TooLarge:
    return TooLarge(f"The request body exceeds {door.max_bytes} bytes.", limit=door.max_bytes)
