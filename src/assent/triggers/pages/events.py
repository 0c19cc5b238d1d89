"""The list of events, newest first, with the outcome of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response
from starlette.routing import Route

from assent.core.canonical import canonical, sha256
from assent.core.errors import InvalidRequest
from assent.core.plurals import plural
from assent.db.transaction import Transaction
from assent.http.query import EVENT_ID
from assent.triggers.event import EventState, TriggerEvent
from assent.triggers.model import FiringState
from assent.triggers.pages.layout import cursor, text_filter, trigger_page
from assent.triggers.store.firings import Firing, Firings
from assent.triggers.store.sources import Sources, StoredSource
from assent.triggers.usecases.dispatch import TriggeringService
from assent.web.guards import reading
from assent.web.site import Site, Visit, page, route

PAGE = 50
STATES = {
    EventState.RECEIVED.value: "not processed yet",
    EventState.MATCHED.value: "a trigger matched",
    EventState.UNMATCHED.value: "no trigger matched",
    EventState.FAILED.value: "could not be processed",
}


def routes(site: Site) -> list[Route]:
    return [
        route("/events", reading(listing), site),
        route("/events/live", reading(live), site),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters in the URL."""

    source: str = ""
    type: str = ""
    state: str = ""
    cursor: str = ""

    @property
    def narrowed(self) -> bool:
        return bool(self.source or self.type or self.state)

    @property
    def wanted(self) -> dict[str, str]:
        given = {"source_id": self.source, "type": self.type, "state": self.state}
        return {name: value for name, value in given.items() if value}

    def address(self, path: str = "/events", **changes: str) -> str:
        changed = replace(self, **changes)
        given = [(name, getattr(changed, name)) for name in ("source", "type", "state", "cursor")]
        text = urlencode([(name, value) for name, value in given if value])
        return f"{path}?{text}" if text else path


def filters(visit: Visit) -> Filters:
    found = Filters(
        source=text_filter(visit, "source"),
        type=text_filter(visit, "type"),
        state=text_filter(visit, "state"),
        cursor=cursor(visit, EVENT_ID),
    )
    if found.state and found.state not in STATES:
        raise InvalidRequest.at("state", f"must be one of {', '.join(STATES)}")
    return found


@dataclass(frozen=True, slots=True)
class Item:
    event: TriggerEvent
    firings: Sequence[Firing]

    @property
    def runs(self) -> list[Firing]:
        return [each for each in self.firings if each.run_id]

    @property
    def others(self) -> list[tuple[FiringState, int]]:
        """The number of firings that did not start a run, by state."""
        left = [each.state for each in self.firings if not each.run_id]
        return [(state, left.count(state)) for state in FiringState if state in left]

    @property
    def mark(self) -> list[Any]:
        firings = [[each.id, each.state.value, each.run_id, each.updated_at] for each in self.firings]
        return [self.event.id, self.event.state.value, self.event.duplicates, firings]


@dataclass(frozen=True, slots=True)
class Listed:
    """A consistent snapshot of one page of the list."""

    items: Sequence[Item]
    more: bool
    sources: Sequence[StoredSource]
    names: Mapping[str, str]

    @property
    def mark(self) -> str:
        """A hash of everything that the list shows."""
        return sha256(canonical([each.mark for each in self.items]))[:16]


def look(tx: Transaction, *, visit: Visit, asked: Filters) -> Listed:
    # The filter can be the ID or the name of a source.
    sources = tx[Sources].in_project(visit.who.project)
    ids = {each.name: each.id for each in sources}
    wanted = asked.wanted
    if "source_id" in wanted:
        wanted["source_id"] = ids.get(wanted["source_id"], wanted["source_id"])
    # An extra row shows whether there is another page.
    found = visit.site[TriggeringService].events(tx, wanted, by=visit.who, before=asked.cursor or None, limit=PAGE + 1)
    firings = tx[Firings].of_events([each.id for each in found[:PAGE]])
    items = [Item(each, firings[each.id]) for each in found[:PAGE]]
    return Listed(items, len(found) > PAGE, sources, {each.id: each.name for each in sources})


async def _values(visit: Visit) -> dict[str, Any]:
    asked = filters(visit)
    found = await visit.site.database.read(lambda tx: look(tx, visit=visit, asked=asked))
    older = asked.address(cursor=found.items[-1].event.id) if found.more else None
    return {
        "asked": asked,
        "items": found.items,
        "states": STATES,
        "sources": found.sources,
        "next_page": older,
        "mark": found.mark,
        "live": asked.address("/events/live"),
        "plural": plural,
    }


async def listing(visit: Visit) -> Response:
    return await trigger_page("trigger_events.html", "events", visit=visit, **await _values(visit))


async def live(visit: Visit) -> Response:
    """Return only the list, or 204 if it has not changed."""
    values = await _values(visit)
    if visit.request.query_params.get("seen") == values["mark"]:
        return Response(status_code=204, headers={"Cache-Control": "no-store"})
    return page("trigger_events_live.html", visit=visit, now=visit.site.clock.now(), **values)
