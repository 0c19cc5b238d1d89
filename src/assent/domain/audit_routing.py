"""Who may answer beside the experts: what is stored of it must follow from events and from the routes in the log."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from assent.domain.admin_log import BASELINE, AdminEvent
from assent.domain.audit import UNREADABLE, Finding, Part, Stored
from assent.domain.breakpoint import Event
from assent.domain.canonical import Json, is_object
from assent.domain.errors import AssentError, InvalidRequest
from assent.domain.instants import SECOND
from assent.domain.preferences import LONGEST_CHAIN, deputy
from assent.domain.preferences import read as read_preferences
from assent.domain.routes import Route, chosen
from assent.domain.routes_file import read
from assent.domain.routing import Deputy

CLOCK_SKEW = 300 * SECOND
"""How far the clocks of two nodes may be apart: one records a change of a route, the other creates a breakpoint."""
PREFERENCES = "notification-preferences:"
Versions = Sequence[AdminEvent]
"""The recorded versions of one subject, oldest first."""


@dataclass(frozen=True, slots=True)
class RouteLog:
    """Every recorded version of every route by project and subject, and of every person's preferences by name."""

    versions: Mapping[tuple[str, str], Versions]
    began_at: int | None
    """When the log of administrative acts began; None if it has no baseline yet."""
    preferences: Mapping[str, Versions] = field(default_factory=dict[str, Versions])
    preferences_began_at: int | None = None
    """When preferences were first recorded; None if that has not happened yet."""

    @classmethod
    def of(
        cls, events: Sequence[AdminEvent], *, began_at: int | None, preferences_began_at: int | None = None
    ) -> "RouteLog":
        routes: dict[tuple[str, str], list[AdminEvent]] = {}
        preferences: dict[str, list[AdminEvent]] = {}
        for event in events:
            if event.subject.startswith(PREFERENCES):
                preferences.setdefault(event.subject.removeprefix(PREFERENCES), []).append(event)
            else:
                routes.setdefault((event.project, event.subject), []).append(event)
        return cls(routes, began_at, preferences, preferences_began_at)


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
        what = f"{_shown(each)} can answer this breakpoint, but no event gave them permission"
        yield Finding(Part.PEOPLE, current.id, None, what)
    for each in sorted(admitted - kept, key=_shown):
        what = f"an event allowed {_shown(each)} to answer this breakpoint, but they are no longer allowed to"
        yield Finding(Part.PEOPLE, current.id, None, what)
    for event in stored.events:
        if event.type == "delegated" and not _was_away(event, log):
            what = "{from}'s recorded preferences do not include an absence with {to} as deputy".format(
                **event.metadata
            )
            yield Finding(Part.PEOPLE, current.id, event.seq, what)
    if routing is not None and routing.route is not None and not _is_recorded(stored, log):
        what = "no admin event records its route"
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
    return deputy.name if deputy.stands_in_for is None else f"{deputy.name} as deputy of {deputy.stands_in_for}"


def _was_away(event: Event, log: RouteLog) -> bool:
    """Whether recorded preferences lead from the person who was away to their deputy, perhaps over others."""
    began_at = log.preferences_began_at
    if began_at is None or event.at < began_at:
        return True
    reached: set[str] = {event.metadata["from"]}
    for _ in range(LONGEST_CHAIN):
        reached |= {each for name in reached for each in _deputies_of(log.preferences.get(name, ()), event.at)}
    return event.metadata["to"] in reached - {event.metadata["from"]}


def _deputies_of(versions: Versions, at: int) -> Iterator[str]:
    """Return the deputies that a person had about this moment."""
    for version, following in zip_longest(versions, versions[1:]):
        if version.at - CLOCK_SKEW > at or (following is not None and following.at + CLOCK_SKEW < at):
            continue
        content = version.states[1].get("content")
        # What cannot be read names no deputy; of the rest, this machine may not know the time zone any more.
        with contextlib.suppress(InvalidRequest):
            wishes = read_preferences({"away": content.get("away") if is_object(content) else None})
            if (found := deputy(wishes, at)) is not None:
                yield found


def _is_recorded(stored: Stored, log: RouteLog) -> bool:
    current, routing = stored.breakpoint, stored.routing
    assert routing is not None, "checked by the caller"
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
        and _could_be_chosen(stored, version)
    )


def _could_be_chosen(stored: Stored, version: AdminEvent) -> bool:
    """Whether this version of a route was enabled and its pattern matches; purging takes what patterns look at."""
    after = version.states[1]
    if not after.get("enabled", True):
        return False
    return stored.purged_at is not None or chosen([_comparable(after["content"])], stored.breakpoint) is not None


def _comparable(content: Mapping[str, Json]) -> Route:
    """Read a route without its timeout, which became the deadline of the breakpoint."""
    return replace(read(content, route_id=""), timeout=None)


def _follows(kept: Route, recorded: Route) -> bool:
    """Compare two routes; a demanded ticket adds its channels to the recorded ones."""
    same = replace(kept, channels=()) == replace(recorded, channels=())
    return same and kept.channels[: len(recorded.channels)] == recorded.channels
