"""Callback URLs for channels. They are outside /api, because each channel verifies its own requests."""

import re
from collections.abc import Callable, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assent.core.errors import NO_SUCH_URL, NotFound
from assent.delivery.usecases.replies import AnsweringService
from assent.http.endpoint import JSON
from assent.http.limits import RateLimit
from assent.kernel.ports import Incoming

PER_MINUTE = 600
_ID = re.compile(r"[0-9a-z_]{1,60}", re.ASCII)
_NAME = re.compile(r"[0-9a-z!#$%&'*+.^_`|~-]{1,200}", re.ASCII)
_PATH = "/callbacks/{channel_id}"
_OURS = "x-assent-"
"""The prefix of internal headers, which callers must not be able to set."""


def callbacks(answering: AnsweringService, now: Callable[[], int], *, per_minute: int = PER_MINUTE) -> list[Route]:
    """Return the callback route; it accepts only POST, so that following a link cannot decide anything."""
    limit = RateLimit(per_minute, now)

    async def take(request: Request) -> Response:
        # The route's name in metrics; it must not contain the channel ID.
        request.scope["route_name"] = _PATH
        channel_id: str = request.path_params["channel_id"]
        # Checked here, because the database cannot store every character that a URL can contain.
        if not _ID.fullmatch(channel_id):
            raise NotFound(NO_SUCH_URL)
        stored = await answering.find(channel_id)
        incoming = Incoming(headers_of(request.scope["headers"]), await request.body(), now())
        said = answering.hear(stored, incoming)
        # Checked after the signature, so that unauthenticated callers cannot use up the channel's limit.
        limit.take(stored.id, what="calls to this channel")
        body = await answering.act(stored, said)
        headers = {"Cache-Control": "no-store"}
        return Response(b"" if body is None else msgspec.json.encode(body), headers=headers, media_type=JSON)

    return [Route(_PATH, take, methods=["POST"])]


def headers_of(given: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers without internal ones; if a name is repeated, the first value is used."""
    found: dict[str, str] = {}
    for name, value in given:
        spelt = name.decode("latin-1").lower()
        if _NAME.fullmatch(spelt) and not spelt.startswith(_OURS):
            found.setdefault(spelt, value.decode("latin-1"))
    return found
