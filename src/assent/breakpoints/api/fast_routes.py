"""The hot routes, and a dispatcher that calls them without FastAPI's routing and middleware."""

from typing import Any

from fastapi import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from assent.breakpoints.api.breakpoints import create, feedback, get
from assent.breakpoints.api.listing import listing
from assent.breakpoints.api.waiting import changes, status, stream
from assent.http.endpoint import Services

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
    """Calls the hot routes directly, because routing and middleware cost more than the handlers (ADR 0007)."""

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
        # The prefix also matches other paths, such as /api/breakpoints-x.
        if found is None or parts[2] != "breakpoints":
            return None
        return *found, {"breakpoint_id": parts[3]} if len(parts) >= _PARTS_OF_ONE else {}


_PARTS_OF_ONE = "/api/breakpoints/{breakpoint_id}".count("/") + 1


def _last_word(path: str) -> str:
    """Return the last segment of a route's path, or "" if it is a parameter."""
    last = path.rsplit("/", 1)[-1]
    return "" if last.startswith("{") else last
