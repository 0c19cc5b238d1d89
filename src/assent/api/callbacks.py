"""Where channels are told what people said there: outside /api, since each channel verifies its own."""

import re
from collections.abc import Callable, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assent.api.routing import JSON
from assent.domain.errors import NO_SUCH_URL, NotFound
from assent.http.limits import RateLimit
from assent.ports import Incoming
from assent.services.answering import AnsweringService

PER_MINUTE = 600
_ID = re.compile(r"[0-9a-z_]{1,60}", re.ASCII)
_NAME = re.compile(r"[0-9a-z!#$%&'*+.^_`|~-]{1,200}", re.ASCII)
_PATH = "/callbacks/{channel_id}"
_OURS = "x-assent-"
"""What begins so is said by our own parts to each other, never by a caller."""


def callbacks(answering: AnsweringService, now: Callable[[], int], *, per_minute: int = PER_MINUTE) -> list[Route]:
    """Return the routes that take what channels hear; they take POST alone, so that no link can decide."""
    limit = RateLimit(per_minute, now)

    async def take(request: Request) -> Response:
        request.scope["route_name"] = _PATH
        channel_id: str = request.path_params["channel_id"]
        if not _ID.fullmatch(channel_id):
            raise NotFound(NO_SUCH_URL)
        stored = await answering.find(channel_id)
        incoming = Incoming(headers_of(request.scope["headers"]), await request.body(), now())
        said = answering.hear(stored, incoming)
        # After the signature: a stranger must not be able to use up what the channel may say.
        limit.take(stored.id, what="calls to this channel")
        body = await answering.act(stored, said)
        headers = {"Cache-Control": "no-store"}
        return Response(b"" if body is None else msgspec.json.encode(body), headers=headers, media_type=JSON)

    return [Route(_PATH, take, methods=["POST"])]


def headers_of(given: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return what the caller may have said; of a name that stands twice, the first."""
    found: dict[str, str] = {}
    for name, value in given:
        spelt = name.decode("latin-1").lower()
        if _NAME.fullmatch(spelt) and not spelt.startswith(_OURS):
            found.setdefault(spelt, value.decode("latin-1"))
    return found
