"""Answers whose head is ready: Starlette would write the same few headers anew for each."""

from collections.abc import Iterable

from starlette.responses import Response

JSON_HEAD = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))


class ReadyJson(Response):
    """JSON that is not to be kept by anybody on its way; names of further headers are in lower case."""

    def __init__(self, body: bytes, status: int = 200, *, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.body = body
        self.status_code = status
        self.background = None
        self.raw_headers = [(b"content-length", b"%d" % len(body)), *JSON_HEAD, *more]
