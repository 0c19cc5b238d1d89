"""Live changes for a browser: one stream of hints, on which its pages read again what they show."""

from starlette.responses import Response

from assent.domain.access import Permission
from assent.http.streams import ChangeStream
from assent.web.frame import Visit

BEAT = 5.0
"""How soon a stream ends after its session did."""


async def live(visit: Visit) -> Response:
    async def still_signed_in() -> bool:
        found = await visit.site.sessions.find(visit.request)
        return found is not None and found.principal.may(Permission.READ)

    return ChangeStream(
        visit.site.hub, visit.who.project, f"session:{visit.who.id}", allowed=still_signed_in, beat=BEAT
    )
