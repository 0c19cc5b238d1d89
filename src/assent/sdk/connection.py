"""Code shared by both clients: the server's URL, timeouts and connection errors."""

import math
import os
import random
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx2

from assent.sdk.errors import BadAddress
from assent.sdk.protocol import Lost, Pace, Reply, Request

DEFAULT_URL = "http://127.0.0.1:7373"
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
# Many waits share one client, and a limit would make them wait for each other.
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
# After these errors, the server cannot have received the request, so any request can be repeated.
BEFORE_SENDING = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """Connection settings fixed in advance, so that the environment cannot set the URL, proxy or certificates."""

    proxy: str | None = None
    ca_file: str | None = None

    @property
    def verify(self) -> ssl.SSLContext | bool:
        if self.ca_file is None:
            return True
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            msg = f"Cannot read the certificates in {self.ca_file}: {error}."
            raise BadAddress(msg) from error


class Connection:
    """How to reach a server, validated before anything is sent."""

    def __init__(self, url: str | None, token: str | None, fixed: Fixed | None = None) -> None:
        if fixed is not None and not url:
            msg = "To use a fixed proxy or CA file, pass a URL."
            raise BadAddress(msg)
        # Fail here, before a question is asked, rather than at the first request.
        self.url = _checked_url(url or os.environ.get("ASSENT_URL") or DEFAULT_URL)
        self.token = _checked_token(token or os.environ.get("ASSENT_TOKEN"))
        self.fixed = fixed
        self.headers = {"Authorization": f"Bearer {self.token}"}
        # An internet proxy cannot reach this machine's loopback interface.
        self.trust_env = fixed is None and httpx2.URL(self.url).host not in _LOOPBACK
        self.proxy = fixed.proxy if fixed else None
        self.verify = fixed.verify if fixed else True
        self.pace = Pace(time.monotonic, random.random)

    def lost(self, error: httpx2.RequestError) -> Lost:
        spoken = str(error) or type(error).__name__
        if isinstance(error, BEFORE_SENDING):
            return Lost(f"cannot connect to {self.url} ({spoken})", sent=False)
        return Lost(f"lost the connection to {self.url} ({spoken})", sent=True)


def timeout(request: Request) -> httpx2.Timeout:
    # None means that only the limits below apply.
    within = request.within or math.inf
    answer, connect = ANSWER_SECONDS + request.patient_for, CONNECT_SECONDS
    return httpx2.Timeout(min(answer, within), connect=min(connect, within))


def silence(request: Request) -> httpx2.Timeout:
    """Return the timeouts for an open stream, including how long it can be silent."""
    return httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS, read=request.patient_for)


def reply(response: httpx2.Response, body: bytes) -> Reply:
    return Reply(response.status_code, {name.lower(): value for name, value in response.headers.items()}, body)


def last_line(lines: list[bytes], on_line: Callable[[bytes], None], before: bytes) -> bytes:
    """Pass each line to `on_line` and return the last one, or `before` if `lines` is empty."""
    for line in lines:
        on_line(line)
    return lines[-1] if lines else before


def _checked_url(url: str) -> str:
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        msg = f"ASSENT_URL is {url!r}, which is not a valid URL. Example: {DEFAULT_URL}."
        raise BadAddress(msg) from error
    if parts.scheme not in {"http", "https"} or not parts.host:
        msg = f"ASSENT_URL is {url!r}. It must begin with http:// or https://, for example {DEFAULT_URL}."
        raise BadAddress(msg)
    return url.rstrip("/")


def _checked_token(token: str | None) -> str:
    if not token:
        msg = (
            "ASSENT_TOKEN is not set. For an agent or CI job, create an agent token with"
            " `assent token create --kind agent --name NAME`. To review, create a token with --kind reviewer."
        )
        raise BadAddress(msg)
    # Control, space and non-ASCII characters, often copied by accident, are not allowed in a token.
    if not (token.isascii() and token.isprintable()) or " " in token:
        msg = "ASSENT_TOKEN contains invalid characters. Copy it again, without quotes or spaces."
        raise BadAddress(msg)
    return token
