"""Responses to requests without a matching route come from an index and match those of a scan of all routes."""

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Match, Mount, Route
from starlette.testclient import TestClient

from assent.asgi import application
from assent.http.unmatched import METHODS, RouteIndex, Unmatched, allowed
from tests.support.nodes import Node

PATHS = (
    "/", "/api", "/api/", "/api/breakpoints", "/api/breakpoints/", "/api/breakpoints/bp_1", "/api/breakpoints/bp_1/x",
    "/api/breakpoints/bp_1/feedback", "/api//breakpoints", "/nothing", "/api/nothing", "/healthz", "/readyz",
    "/openapi.json", "/hooks/ci", "/hooks/ci/key", "/static/x/y/z.css", "/rules", "/rules/r_1", "/problems/not_found",
    "/api/rules/r_1", "/api/files", "/api/files/sha", "/%2e%2e", "/sign-in/astl_1", "/admin/tokens", "/api/tokens/t",
)  # fmt: skip


async def test_the_index_agrees_with_a_scan_of_all_routes(node: Node) -> None:
    routes: list[Any] = _routes(application(node.assent))
    index = RouteIndex(routes)
    assert index.is_whole
    for path in (*PATHS, *(each.path.replace("{", "").replace("}", "").replace(":path", "") for each in index.routes)):
        scanned = [
            method
            for method in METHODS
            if any(
                route.matches({"type": "http", "path": path, "method": method, "root_path": ""})[0] is Match.FULL
                for route in routes
            )
        ]
        assert allowed(index.at(path)) == ", ".join(scanned), path


def _routes(app: Any) -> list[Any]:
    """Return the routes of the application that the middleware wraps."""
    while not hasattr(app, "routes"):
        app = next(value for name, value in vars(app).items() if name.endswith("app"))
    return list(app.routes)


async def plain(_: Request) -> Response:
    return PlainTextResponse("ok")


def answered(request: Request, error: Any, headers: Any) -> Response:
    return PlainTextResponse(f"{request.url.path} {error.code}", 599, headers=headers)


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/a/b", 200, None),
        ("HEAD", "/a/b", 200, None),
        ("PUT", "/a/b", 599, "GET, HEAD, POST"),
        ("GET", "/a/b/c", 599, None),
        ("GET", "/deep/x/y/z", 200, None),
        ("DELETE", "/deep/x/y/z", 599, "GET, HEAD"),
        ("GET", "/any", 200, None),
    ],
)
def test_only_requests_without_a_route_get_an_error_response(
    method: str, path: str, status: int, allow: str | None
) -> None:
    routes = [
        Route("/a/b", plain, methods=["GET"]),
        Route("/a/{name}", plain, methods=["POST"]),
        Route("/deep/{rest:path}", plain),
        Route("/{one}", plain),
    ]
    client = TestClient(Unmatched(Starlette(routes=routes), routes, answered))
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers.get("allow")) == (status, allow)


def test_requests_pass_through_if_there_are_other_kinds_of_routes() -> None:
    routes = [Mount("/m", routes=[Route("/x", plain)])]
    client = TestClient(Unmatched(Starlette(routes=routes), routes, answered))
    assert (client.get("/m/x").status_code, client.get("/nothing").status_code) == (200, 404)
