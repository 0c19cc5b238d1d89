"""Live changes for a browser: one stream of hints, on which its pages read again what they show."""

from starlette.responses import Response

from assent.domain.access import Permission
from assent.domain.errors import RateLimited
from assent.http.streams import ChangeStream
from assent.web.frame import Visit

BEAT = 5.0
"""How soon a stream ends after its session did."""


MOST = 50
"""Streams of one person on one node: a browser needs one, however many tabs it has."""


async def live(visit: Visit) -> Response:
    holder = f"session:{visit.who.id}"
    if visit.site.hub.held_by(holder) >= MOST:
        msg = f"You already have {MOST} live connections open. Close some tabs and try again."
        raise RateLimited(msg, retry_after=BEAT)

    async def still_signed_in() -> bool:
        found = await visit.site.sessions.find(visit.request)
        # Whoever looks at another project now hears of that one, by a stream of its own.
        same = found is not None and found.principal.project == visit.who.project
        return same and found is not None and found.principal.may(Permission.READ)

    return ChangeStream(visit.site.hub, visit.who.project, holder, allowed=still_signed_in, beat=BEAT)
