"""Claiming, reassigning and snoozing breakpoints. None of these actions decides a breakpoint."""

from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from assent.breakpoints.pages.decide import back, with_word
from assent.breakpoints.pages.detail import detail_page, load
from assent.breakpoints.pages.filters import asked_in
from assent.breakpoints.usecases.triage import TriageService
from assent.core.errors import AssentError, InvalidRequest
from assent.core.timestamps import SECOND
from assent.web.site import Site, Visit, redirect, route

ME, NOBODY = "me", "nobody"
LONGEST_MINUTES = 7 * 24 * 60


async def claim(visit: Visit) -> Response:
    row, to, triage = await load(visit), visit.form.get("to", "").strip(), visit.site[TriageService]
    if to == ME:
        use_case, said = partial(triage.claim, breakpoint_id=row.id, by=visit.who), "claimed"
    elif to == NOBODY:
        use_case, said = partial(triage.unclaim, breakpoint_id=row.id, by=visit.who), "unclaimed"
    else:
        use_case, said = partial(triage.assign, breakpoint_id=row.id, person=to, by=visit.who), "assigned"
    try:
        await visit.site.database.write(use_case, locks=row.id)
    except AssentError as error:
        return await detail_page(visit, await load(visit), error)
    return redirect(with_word(f"/breakpoints/{row.id}", asked_in(visit.request), "said", said))


async def snooze(visit: Visit) -> Response:
    row, minutes, triage = await load(visit), visit.form.get("minutes", ""), visit.site[TriageService]
    try:
        if not (minutes.isascii() and minutes.isdigit() and len(minutes) < 6 and int(minutes) <= LONGEST_MINUTES):  # noqa: PLR2004
            raise InvalidRequest.at("/minutes", "must be a number of minutes, up to one week")
        until = visit.site.clock.now() + int(minutes) * 60 * SECOND
        put_off = partial(triage.snooze, breakpoint_id=row.id, until=until, by=visit.who)
        wake = partial(triage.wake, breakpoint_id=row.id, by=visit.who)
        await visit.site.database.write(put_off if int(minutes) else wake, locks=row.id)
    except AssentError as error:
        return await detail_page(visit, await load(visit), error)
    said = "snoozed" if int(minutes) else "woken"
    return redirect(with_word(f"/breakpoints/{row.id}", asked_in(visit.request), "said", said))


def routes(site: Site) -> list[Route]:
    one = "/breakpoints/{breakpoint_id}"
    return [
        route(one + "/claim", claim, site, method="POST"),
        route(one + "/snooze", snooze, site, method="POST"),
        *(route(one + form, back, site) for form in ("/claim", "/snooze")),
    ]
