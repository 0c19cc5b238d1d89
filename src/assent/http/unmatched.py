"""Uses an index to respond to requests without a matching route, instead of trying every route."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from starlette._utils import get_route_path
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from assent.core.errors import NO_SUCH_URL, AssentError, MethodNotAllowed, NotFound

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_DEPTH = 2
"""How many leading segments of a path the index uses; routes rarely have more of them in common."""
Answer = Callable[[Request, AssentError, Mapping[str, str] | None], Response]


class RouteIndex:
    """The routes of an application by their leading path segments; mounts and the like are ignored."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self.routes = [each for each in routes if isinstance(each, Route)]
        self.is_whole = len(self.routes) == len(routes)
        """Whether the index contains all routes; only a mount itself knows which paths it matches."""
        self._by_parts: dict[tuple[str | None, ...], list[Route]] = defaultdict(list)
        for route in self.routes:
            self._by_parts[_literal_parts(route.path)].append(route)

    def at(self, path: str) -> list[Route]:
        """Return the routes that match a path, regardless of their methods."""
        first, second = _parts(path)
        keys = ((first, second), (first, None), (None, second), (None, None))
        return [route for key in keys for route in self._by_parts.get(key, ()) if route.path_regex.match(path)]


class Unmatched:
    """Middleware that returns the 404 and 405 responses of an application."""

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute], answer: Answer) -> None:
        self._app = app
        self._index = RouteIndex(routes)
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # With an incomplete index, only the application knows whether a route matches.
        if scope["type"] != "http" or not self._index.is_whole:
            await self._app(scope, receive, send)
            return
        found = self._index.at(get_route_path(scope))
        if any(_takes(each, scope["method"]) for each in found):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        if not found:
            response = self._answer(request, NotFound(NO_SUCH_URL), None)
        else:
            _, about = found[0].matches(scope)  # the metrics need the route
            scope.update(about)
            response = self._answer(request, MethodNotAllowed(), {"Allow": allowed(found)})
        await response(scope, receive, send)


def allowed(routes: Sequence[Route]) -> str:
    """Return the Allow header of a 405 response: the methods of all routes at this path, not only of the first."""
    return ", ".join(method for method in METHODS if any(_takes(each, method) for each in routes))


def _takes(route: Route, method: str) -> bool:
    return route.methods is None or method in route.methods


def _literal_parts(path: str) -> tuple[str | None, ...]:
    """Return the leading segments of a route; None for a segment that is a parameter or can be part of one."""
    before, reaches, _ = path.partition(":path}")
    if reaches:
        return tuple([None if "{" in each else each for each in before.split("/")[1:]] + [None] * _DEPTH)[:_DEPTH]
    return tuple(None if "{" in each else each for each in _parts(path))


def _parts(path: str) -> tuple[str, ...]:
    found = path.split("/", _DEPTH + 1)[1 : _DEPTH + 1]
    return tuple(found + [""] * (_DEPTH - len(found)))
