"""Checks that stored deputies and routes follow from events and from the recorded routes."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from assent.audit.chain_checks import Stored
from assent.core.breakpoint import Event
from assent.core.canonical import Json, is_object
from assent.core.chain import UNREADABLE, Finding, Part
from assent.core.errors import AssentError, InvalidRequest
from assent.core.seats import Deputy
from assent.core.timestamps import SECOND
from assent.delivery.routes import Route, chosen
from assent.delivery.routes_file import read
from assent.people.preferences import LONGEST_CHAIN, deputy
from assent.people.preferences import read as read_preferences
from assent.platform.admin_events import BASELINE, AdminEvent

CLOCK_SKEW = 300 * SECOND
"""Tolerated clock difference between a node that records a route change and a node that creates a breakpoint."""
PREFERENCES = "notification-preferences:"
Versions = Sequence[AdminEvent]
"""The recorded versions of one subject, oldest first."""


@dataclass(frozen=True, slots=True)
class RouteLog:
    """All recorded versions of routes, by project and subject, and of people's preferences, by name."""

    versions: Mapping[tuple[str, str], Versions]
    began_at: int | None
    """When the admin log began; None if it does not have a baseline yet."""
    preferences: Mapping[str, Versions] = field(default_factory=dict[str, Versions])
    preferences_began_at: int | None = None
    """When preferences were first recorded; None if they have not been recorded yet."""

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
    """Return the stored deputies and routes that do not follow from an event or a recorded route."""
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
    """Return the deputies that delegations and escalations made eligible."""
    found: set[Deputy] = set()
    for event in events:
        said = event.metadata
        if event.type == "delegated":
            found.add(Deputy(said["to"], said["from"]))
        elif event.type == "escalated":
            found.update(Deputy(name) for name in said["to"])
            # Include the deputies of these people, whose events are part of the same escalation step.
            found.update(
                Deputy(each.metadata["to"])
                for each in events
                if each.type == "delegated" and each.at == event.at and each.metadata["from"] in said["to"]
            )
    return found


def _shown(deputy: Deputy) -> str:
    return deputy.name if deputy.stands_in_for is None else f"{deputy.name} as deputy of {deputy.stands_in_for}"


def _was_away(event: Event, log: RouteLog) -> bool:
    """Return whether recorded preferences lead from the absent person to this deputy, directly or via others."""
    began_at = log.preferences_began_at
    if began_at is None or event.at < began_at:
        return True
    reached: set[str] = {event.metadata["from"]}
    # A deputy can also be absent and have a deputy.
    for _ in range(LONGEST_CHAIN):
        reached |= {each for name in reached for each in _deputies_of(log.preferences.get(name, ()), event.at)}
    return event.metadata["to"] in reached - {event.metadata["from"]}


def _deputies_of(versions: Versions, at: int) -> Iterator[str]:
    """Yield the deputies that a person had at approximately this time."""
    for version, following in zip_longest(versions, versions[1:]):
        if version.at - CLOCK_SKEW > at or (following is not None and following.at + CLOCK_SKEW < at):
            continue
        content = version.states[1].get("content")
        # Invalid preferences do not name a deputy. Only `away` is parsed, because the time zone may be unknown here.
        with contextlib.suppress(InvalidRequest):
            wishes = read_preferences({"away": content.get("away") if is_object(content) else None})
            if (found := deputy(wishes, at)) is not None:
                yield found


def _is_recorded(stored: Stored, log: RouteLog) -> bool:
    current, routing = stored.breakpoint, stored.routing
    assert routing is not None, "checked by the caller"
    kept = _comparable(routing.route or {})
    if routing.route_id is None:
        # If no route matched, the stored route contains only the channel for a ticket that the project requires.
        return replace(kept, channels=()) == Route(id="", pattern="*", channels=())
    versions = log.versions.get((current.project, f"route:{routing.route_id}"), ())
    began_at = versions[0].at if versions and versions[0].type == BASELINE else log.began_at
    if began_at is None or current.created_at < began_at:
        return True  # created before routes were recorded
    return any(
        _follows(kept, _comparable(content))
        for version, following in zip_longest(versions, versions[1:])
        if (following is None or following.at + CLOCK_SKEW >= current.created_at)
        and is_object(content := version.states[1].get("content"))
        and _could_be_chosen(stored, version)
    )


def _could_be_chosen(stored: Stored, version: AdminEvent) -> bool:
    """Return whether this version of a route was enabled and matches; after a purge, matching cannot be checked."""
    after = version.states[1]
    if not after.get("enabled", True):
        return False
    return stored.purged_at is not None or chosen([_comparable(after["content"])], stored.breakpoint) is not None


def _comparable(content: Mapping[str, Json]) -> Route:
    """Parse a route without its timeout, which became the breakpoint's deadline."""
    return replace(read(content, route_id=""), timeout=None)


def _follows(kept: Route, recorded: Route) -> bool:
    """Return whether two routes are equal, apart from channels that were added for a required ticket."""
    same = replace(kept, channels=()) == replace(recorded, channels=())
    return same and kept.channels[: len(recorded.channels)] == recorded.channels
