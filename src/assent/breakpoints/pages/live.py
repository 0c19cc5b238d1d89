"""The event stream that makes open pages refresh when breakpoints change."""

from starlette.responses import Response
from starlette.routing import Route

from assent.breakpoints.api.streams import ChangeStream
from assent.core.access import Permission
from assent.core.errors import RateLimited
from assent.web.site import Site, Visit, route

BEAT = 5.0
"""Seconds between session checks; a stream ends at most this long after its session ends."""


MOST = 50
"""Maximum number of streams per person and node; a browser's tabs share one stream."""


async def live(visit: Visit) -> Response:
    holder = f"session:{visit.who.id}"
    if visit.site.hub.held_by(holder) >= MOST:
        msg = f"You already have {MOST} live connections open. Close some tabs and try again."
        raise RateLimited(msg, retry_after=BEAT)

    async def still_signed_in() -> bool:
        found = await visit.site.sessions.find(visit.request)
        # After switching to another project, the browser opens a new stream.
        same = found is not None and found.principal.project == visit.who.project
        return same and found is not None and found.principal.may(Permission.READ)

    return ChangeStream(visit.site.hub, visit.who.project, holder, allowed=still_signed_in, beat=BEAT)


def routes(site: Site) -> list[Route]:
    return [route("/live", live, site)]
