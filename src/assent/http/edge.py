"""The outermost layer: request ids, sizes, errors as problems, security headers, metrics and the access log."""

import itertools
import secrets
import time
from functools import partial
from typing import TypeAlias

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assent.domain import draft
from assent.domain.errors import AssentError, TooLarge
from assent.http.problems import Problem, internal_error, problem
from assent.telemetry import Metrics, subject
from assent.telemetry.exchanges import facts_of, route_of

Header: TypeAlias = tuple[bytes, bytes]

MAX_BODY = draft.MAX_BODY
MAX_UPLOAD = 10 * 1024 * 1024
MAX_HOOK = 25 * 1024 * 1024
"""What a source may be set up to take; most take less, and say so themselves."""
CLIENT_LEFT = 499
"""How logs and metrics count a request whose sender left before it was whole."""
_log = structlog.get_logger()
REFUSED = frozenset({401, 403, 429})
"""Answers that are logged even where others are not: somebody wanted what they may not have."""
POLICY = "default-src 'none'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""What a browser may do with an answer that says nothing about it itself: nothing."""
_DEFAULTS = [(b"content-security-policy", POLICY.encode())]
"""Said for an answer that does not say it itself."""
_API_DEFAULTS = [*_DEFAULTS, (b"cache-control", b"no-store")]
_HSTS = (b"strict-transport-security", b"max-age=31536000; includeSubDomains")
_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]
_DOCUMENT_HEADERS = [
    *_HEADERS,
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]
# One look at the system's randomness per process, not per request.
_PROCESS = secrets.token_hex(8)
_numbers = itertools.count(1)


class Edge:
    def __init__(self, app: ASGIApp, *, metrics: Metrics, access_log: bool, secure: bool = False) -> None:
        """`secure` says that people reach this server over TLS, and should never do so without."""
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
        self._metrics.answered(scope["method"], route, status, None if scope.get("waited") else seconds)
        # A source says for itself whom it refused, and says it of a flood of strangers once.
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
    """A node that cannot start raises why; Starlette would have the server print a traceback as well."""
    if message["type"] == "lifespan.startup.failed":
        message = {**message, "message": ""}
    await send(message)


class _Exchange:
    """One answer on its way out, and what the log says it is about."""

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
        if not self.status:
            await problem(error)(scope, receive, self.send)


class _Bounded:
    """A body that stops at its limit."""

    __slots__ = ("_left", "_limit", "_receive")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        self._limit = _limit_of(scope["path"])
        self._left = self._limit

    async def __call__(self) -> Message:
        message: Message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise Problem(TooLarge(f"The request body exceeds {self._limit} bytes."))
        return message


def _limit_of(path: str) -> int:
    if path.startswith("/hooks/"):
        return MAX_HOOK
    return MAX_UPLOAD if path == "/api/files" else MAX_BODY


def _loggable(path: str) -> str:
    """Links to sign in, or to say who one is on a channel, are secrets until they are used; no log keeps them.

    So is what follows the name of a source, where the sender cannot sign.
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
            if 0 < len(text) <= 128 and text.isascii() and text.isprintable():  # noqa: PLR2004  # a header's sane length
                return text
    return f"{_PROCESS}{next(_numbers):08x}"
