"""Authenticates API requests before their bodies are read."""

from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from assent.core.access import Principal
from assent.core.errors import UnsupportedMediaType


class Door:
    """Middleware for /api that authenticates the caller first, and only then checks the content type."""

    def __init__(self, app: ASGIApp, authenticate: Callable[[str], Awaitable[Principal]]) -> None:
        self._app = app
        self._authenticate = authenticate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/api/"):
            scope["principal"] = await self._authenticate(_header(scope, b"authorization"))
            if scope["method"] in {"POST", "PUT", "PATCH"}:
                _require_json(scope)
        await self._app(scope, receive, send)


def _header(scope: Scope, name: bytes) -> str:
    for key, value in scope["headers"]:
        if key == name:
            text: str = value.decode("latin-1")
            return text
    return ""


def _require_json(scope: Scope) -> None:
    headers = Headers(scope=scope)
    if headers.get("content-encoding", "identity") != "identity":
        msg = "Send the request body without compression (Content-Encoding)."
        raise UnsupportedMediaType(msg)
    if scope["path"] == "/api/files":
        # An upload is the content of a file, which can have any type.
        return
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if has_body and kind != "application/json":
        raise UnsupportedMediaType


def principal_of(request: HTTPConnection) -> Principal:
    """Return the authenticated caller, which the middleware has added to the request."""
    principal: Principal = request.scope["principal"]
    return principal
