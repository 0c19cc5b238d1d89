"""Responses with prebuilt headers, because Starlette would encode the same headers for every response."""

from collections.abc import Iterable

from starlette.responses import Response

JSON_HEAD = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))


class ReadyJson(Response):
    """A JSON response that must not be cached; the names of additional headers must be in lower case."""

    def __init__(self, body: bytes, status: int = 200, *, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.body = body
        self.status_code = status
        self.background = None
        self.raw_headers = [(b"content-length", b"%d" % len(body)), *JSON_HEAD, *more]
