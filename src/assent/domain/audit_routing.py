"""Who may answer beside the experts: what is stored of it must follow from events and from the routes in the log."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from assent.domain.admin_log import BASELINE, AdminEvent
from assent.domain.audit import UNREADABLE, Finding, Part, Stored
from assent.domain.breakpoint import Event
from assent.domain.canonical import Json, is_object
from assent.domain.errors import AssentError
from assent.domain.instants import SECOND
from assent.domain.routes import Route
from assent.domain.routes_file import read
from assent.domain.routing import Deputy

CLOCK_SKEW = 300 * SECOND
"""How far the clocks of two nodes may be apart: one records a change of a route, the other creates a breakpoint."""


@dataclass(frozen=True, slots=True)
class RouteLog:
    """Every recorded version of every route, by project and subject, oldest first."""

    versions: Mapping[tuple[str, str], Sequence[AdminEvent]]
    began_at: int | None
    """When the log of administrative acts began; None if it has no baseline yet."""

    @classmethod
    def of(cls, events: Sequence[AdminEvent], *, began_at: int | None) -> "RouteLog":
        found: dict[tuple[str, str], list[AdminEvent]] = {}
        for event in events:
            found.setdefault((event.project, event.subject), []).append(event)
        return cls(found, began_at)


def routing_findings(stored: Stored, log: RouteLog) -> list[Finding]:
    """Return what of a routing gives the right to answer, but follows from no event and no recorded route."""
    try:
        return list(_findings(stored, log))
    except (*UNREADABLE, AssentError) as error:
        what = f"its routing cannot be read: {type(error).__name__}: {error}"
        return [Finding(Part.ROWS, stored.breakpoint.id, None, what)]


def _findings(stored: Stored, log: RouteLog) -> Iterator[Finding]:
    current, routing = stored.breakpoint, stored.routing
    kept = set(routing.deputies) if routing else set[Deputy]()
    admitted = deputies(stored.events)
    for each in sorted(kept - admitted, key=_shown):
        what = f"{_shown(each)} may answer it, but no event admitted them"
        yield Finding(Part.PEOPLE, current.id, None, what)
    for each in sorted(admitted - kept, key=_shown):
        what = f"an event admitted {_shown(each)}, who may not answer it any more"
        yield Finding(Part.PEOPLE, current.id, None, what)
    if routing is not None and routing.route is not None and not _is_recorded(stored, log):
        what = "it follows a route that the log of administrative acts does not have"
        yield Finding(Part.PEOPLE, current.id, None, what)


def deputies(events: Sequence[Event]) -> set[Deputy]:
    """Return who was admitted by delegations and escalations."""
    found: set[Deputy] = set()
    for event in events:
        said = event.metadata
        if event.type == "delegated":
            found.add(Deputy(said["to"], said["from"]))
        elif event.type == "escalated":
            found.update(Deputy(name) for name in said["to"])
            # Deputies of the people it was escalated to: their events are part of the same step.
            found.update(
                Deputy(each.metadata["to"])
                for each in events
                if each.type == "delegated" and each.at == event.at and each.metadata["from"] in said["to"]
            )
    return found


def _shown(deputy: Deputy) -> str:
    return deputy.name if deputy.stands_in_for is None else f"{deputy.name} in place of {deputy.stands_in_for}"


def _is_recorded(stored: Stored, log: RouteLog) -> bool:
    current, routing = stored.breakpoint, stored.routing
    assert routing is not None, "the caller checked it"
    kept = _comparable(routing.route or {})
    if routing.route_id is None:
        # Without a route of its own, a breakpoint only gets the ticket that its project demands.
        return replace(kept, channels=()) == Route(id="", pattern="*", channels=())
    versions = log.versions.get((current.project, f"route:{routing.route_id}"), ())
    began_at = versions[0].at if versions and versions[0].type == BASELINE else log.began_at
    if began_at is None or current.created_at < began_at:
        return True  # the route was taken before routes were recorded
    return any(
        _follows(kept, _comparable(content))
        for version, following in zip_longest(versions, versions[1:])
        if (following is None or following.at + CLOCK_SKEW >= current.created_at)
        and is_object(content := version.states[1].get("content"))
    )


def _comparable(content: Mapping[str, Json]) -> Route:
    """Read a route without its timeout, which became the deadline of the breakpoint."""
    return replace(read(content, route_id=""), timeout=None)


def _follows(kept: Route, recorded: Route) -> bool:
    """Compare two routes; a demanded ticket adds its channels to the recorded ones."""
    same = replace(kept, channels=()) == replace(recorded, channels=())
    return same and kept.channels[: len(recorded.channels)] == recorded.channels
