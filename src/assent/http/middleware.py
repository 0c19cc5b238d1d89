"""The outermost middleware: request IDs, size limits, error responses, security headers, metrics and the access log."""

import itertools
import secrets
import time
from functools import partial
from typing import TypeAlias

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assent.core import draft
from assent.core.errors import AssentError, TooLarge
from assent.http.problems import Problem, internal_error, problem
from assent.kernel.telemetry import Metrics, subject
from assent.kernel.telemetry.exchanges import facts_of, route_of

Header: TypeAlias = tuple[bytes, bytes]

MAX_BODY = draft.MAX_BODY
MAX_UPLOAD = 10 * 1024 * 1024
MAX_HOOK = 25 * 1024 * 1024
"""The largest limit that a source can configure; sources enforce smaller limits themselves."""
CLIENT_LEFT = 499
"""The status in logs and metrics for requests whose client disconnected before sending the entire request."""
_log = structlog.get_logger()
REFUSED = frozenset({401, 403, 429})
"""Statuses that are logged even if the access log is disabled, because they can indicate an attack."""
POLICY = "default-src 'none'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The Content-Security-Policy of responses that do not set one; it allows nothing."""
_DEFAULTS = [(b"content-security-policy", POLICY.encode())]
"""Headers that are added unless the response already has them."""
_API_DEFAULTS = [*_DEFAULTS, (b"cache-control", b"no-store")]
_HSTS = (b"strict-transport-security", b"max-age=31536000; includeSubDomains")
_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]
_DOCUMENT_HEADERS = [
    *_HEADERS,
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]
# Read the system's random number generator once per process, not for every request.
_PROCESS = secrets.token_hex(8)
_numbers = itertools.count(1)


class Edge:
    def __init__(self, app: ASGIApp, *, metrics: Metrics, access_log: bool, secure: bool = False) -> None:
        """With `secure`, clients reach this server over TLS, and browsers must never connect without it."""
        self._app = app
        self._metrics = metrics
        self._access_log = access_log
        always = [_HSTS] if secure else []
        self._api_headers = [*_HEADERS, *always]
        self._document_headers = [*_DOCUMENT_HEADERS, *always]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, partial(_without_traceback, send))
            return
        started = time.perf_counter()
        request_id = _request_id(scope)
        scope["request_id"] = request_id
        if scope["path"].startswith("/api/"):
            exchange = _Exchange(send, scope, self._api_headers, _API_DEFAULTS)
        else:
            exchange = _Exchange(send, scope, self._document_headers, _DEFAULTS)
        subject.set(exchange)
        try:
            await self._app(scope, _Bounded(scope, receive), exchange.send)
        except Problem as error:
            await exchange.fail(error.error, scope, receive)
        except AssentError as error:
            await exchange.fail(error, scope, receive)
        except ClientDisconnect:
            exchange.status = CLIENT_LEFT
        except Exception:  # noqa: BLE001  # the last handler
            _log.exception("request_failed", request_id=request_id, path=_loggable(scope["path"]))
            await exchange.fail(internal_error(request_id), scope, receive)
        self._record(scope, exchange.status, time.perf_counter() - started)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", None) or route_of(scope)
        # The duration of a long poll is not a latency.
        self._metrics.answered(scope["method"], route, status, None if scope.get("waited") else seconds)
        # Sources log rejected events themselves, and a flood from unknown senders only once.
        refused = status in REFUSED and not scope["path"].startswith("/hooks/")
        if self._access_log or refused:
            say = _log.warning if refused else _log.info
            say(
                "request",
                request_id=scope["request_id"],
                method=scope["method"],
                route=route,
                path=_loggable(scope["path"]),
                status=status,
                ms=round(seconds * 1000, 1),
                address=(scope.get("client") or ("unknown",))[0],
            )


async def _without_traceback(send: Send, message: Message) -> None:
    """Remove the traceback of a failed startup, because the node raises the reason as an error."""
    if message["type"] == "lifespan.startup.failed":
        message = {**message, "message": ""}
    await send(message)


class _Exchange:
    """The response to a request, and the facts that log lines include about it."""

    __slots__ = ("_defaults", "_headers", "_scope", "_send", "status")

    def __init__(self, send: Send, scope: Scope, headers: list[Header], defaults: list[Header]) -> None:
        self._send = send
        self._headers = headers
        self._defaults = defaults
        self._scope = scope
        self.status = 0

    def facts(self) -> dict[str, object]:
        return facts_of(self._scope)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = list(message.get("headers", ()))
            said = {name for name, _ in given}
            message["headers"] = [
                *given,
                *[header for header in self._defaults if header[0] not in said],
                *self._headers,
                (b"x-request-id", self._scope["request_id"].encode("latin-1")),
            ]
        await self._send(message)

    async def fail(self, error: AssentError, scope: Scope, receive: Receive) -> None:
        # A response that has started cannot be replaced.
        if not self.status:
            await problem(error)(scope, receive, self.send)


class _Bounded:
    """A request body that raises an error when it exceeds its limit."""

    __slots__ = ("_left", "_limit", "_receive")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        self._limit = _limit_of(scope["path"])
        self._left = self._limit

    async def __call__(self) -> Message:
        message: Message = await self._receive()
        # Count the received bytes, because Content-Length can be missing or wrong.
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise Problem(TooLarge(f"The request body exceeds {self._limit} bytes."))
        return message


def _limit_of(path: str) -> int:
    if path.startswith("/hooks/"):
        return MAX_HOOK
    return MAX_UPLOAD if path == "/api/files" else MAX_BODY


def _loggable(path: str) -> str:
    """Remove secrets from a path: sign-in links and account links, which are secret until they are used.

    The key after the name of a source is secret too; it authenticates senders that cannot sign.
    """
    if path.startswith("/hooks/"):
        _, _, source, *key = path.split("/", 3)
        return f"/hooks/{source}/…" if key else path
    secret = next((each for each in ("/sign-in/", "/link/") if path.startswith(each)), None)
    return f"{secret}…" if secret else path


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            text: str = value.decode("latin-1")
            if 0 < len(text) <= 128 and text.isascii() and text.isprintable():  # noqa: PLR2004  # a reasonable length for a header
                return text
    return f"{_PROCESS}{next(_numbers):08x}"
