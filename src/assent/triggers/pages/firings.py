"""The list of firings, with the reason why each is held or has failed, and buttons to retry or discard them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urlencode

from starlette.responses import Response
from starlette.routing import Route

from assent.core.errors import AssentError, InvalidRequest
from assent.db.transaction import Transaction
from assent.delivery.store.deliveries import Deliveries
from assent.http.query import FIRING_ID, known_firing_id
from assent.triggers.model import Because
from assent.triggers.pages.layout import MEANS, cursor, said, text_filter, trigger_page
from assent.triggers.store.firings import Firing, Firings
from assent.triggers.usecases.dispatch import TriggeringService
from assent.triggers.usecases.triggers import TriggerService
from assent.web.guards import reading, ruling
from assent.web.site import Site, Visit, redirect, route

PAGE = 50
STATES = {each.value: meaning for each, meaning in MEANS.items()}


def routes(site: Site) -> list[Route]:
    one = "/firings/{firing_id}"
    return [
        route("/firings", reading(listing), site),
        route(one + "/retry", ruling(retry), site, method="POST"),
        route(one + "/discard", ruling(discard), site, method="POST"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters in the URL."""

    state: str = ""
    because: str = ""
    trigger: str = ""
    cursor: str = ""

    @property
    def narrowed(self) -> bool:
        return bool(self.state or self.because or self.trigger)

    @property
    def wanted(self) -> dict[str, str]:
        given = {"state": self.state, "because": self.because, "trigger_id": self.trigger}
        return {name: value for name, value in given.items() if value}

    def address(self, **changes: str) -> str:
        changed = replace(self, **changes)
        given = [(name, getattr(changed, name)) for name in ("state", "because", "trigger", "cursor")]
        text = urlencode([(name, value) for name, value in given if value])
        return f"/firings?{text}" if text else "/firings"


def filters(visit: Visit) -> Filters:
    found = Filters(
        state=text_filter(visit, "state"),
        because=text_filter(visit, "because"),
        trigger=text_filter(visit, "trigger"),
        cursor=cursor(visit, FIRING_ID),
    )
    if found.state and found.state not in STATES:
        raise InvalidRequest.at("state", f"must be one of {', '.join(STATES)}")
    if found.because and found.because not in list(Because):
        raise InvalidRequest.at("because", f"must be one of {', '.join(Because)}")
    return found


@dataclass(frozen=True, slots=True)
class Listed:
    firings: Sequence[Firing]
    more: bool
    triggers: Mapping[str, str]
    """The names of existing triggers, by ID."""
    titles: Mapping[str, str]
    counts: Mapping[tuple[str, str | None], int]

    def count(self, state: str) -> int:
        return sum(count for (each, _), count in self.counts.items() if each == state)


def look(tx: Transaction, *, visit: Visit, asked: Filters) -> Listed:
    standing = visit.site[TriggerService].listed(tx, by=visit.who)
    # The filter can be the ID or the name of a trigger.
    ids = {each.name: each.id for each in standing}
    wanted = asked.wanted
    if "trigger_id" in wanted:
        wanted["trigger_id"] = ids.get(wanted["trigger_id"], wanted["trigger_id"])
    found = visit.site[TriggeringService].firings(tx, wanted, by=visit.who, before=asked.cursor or None, limit=PAGE + 1)
    held = [each.breakpoint_id for each in found if each.breakpoint_id]
    return Listed(
        found[:PAGE],
        len(found) > PAGE,
        {each.id: each.name for each in standing},
        tx[Deliveries].titles(held) if held else {},
        tx[Firings].counts(visit.who.project),
    )


async def listing(visit: Visit) -> Response:
    return await _listing_page(visit)


async def _listing_page(visit: Visit, error: AssentError | None = None) -> Response:
    asked = filters(visit)
    found = await visit.site.database.read(partial(look, visit=visit, asked=asked))
    return await trigger_page(
        "trigger_firings.html",
        "firings",
        visit=visit,
        error=error,
        problem=said(error) if error else None,
        asked=asked,
        listed=found,
        firings=found.firings,
        titles=found.titles,
        states=STATES,
        next_page=asked.address(cursor=found.firings[-1].id) if found.more else None,
    )


async def retry(visit: Visit) -> Response:
    return await _moved(visit, visit.site[TriggeringService].retry, "retried")


async def discard(visit: Visit) -> Response:
    return await _moved(visit, visit.site[TriggeringService].discard, "discarded")


async def _moved(visit: Visit, move: Callable[..., Firing], done: str) -> Response:
    firing_id = known_firing_id(visit.request.path_params["firing_id"])
    try:
        found = await visit.site.database.write(lambda tx: move(tx, firing_id, by=visit.who))
    except AssentError as error:
        return await _listing_page(visit, error)
    # Return to the page that contained the button.
    back = f"/events/{found.event_id}?" if visit.form.get("back") == "event" else "/firings?state=dead&"
    return redirect(f"{back}done={done}")
