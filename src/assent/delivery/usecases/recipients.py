"""Determines who is notified, on which channel and when, based on people's preferences and rate limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from assent.core.breakpoint import NEVER, Breakpoint, Event
from assent.core.errors import InvalidRequest
from assent.db.transaction import Transaction
from assent.delivery.channels.pacing import Pacing, pacing_of
from assent.delivery.channels.registry import KINDS
from assent.delivery.message import Addressee, Purpose
from assent.delivery.routes import EXPERTS, PERSON, Route, named, people
from assent.delivery.routes_file import read
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.deliveries import Deliveries, Delivery, about
from assent.delivery.store.links import Links
from assent.delivery.store.notification_state import Routing, Routings
from assent.delivery.store.rate_limit import Paces
from assent.people.preferences import Preferences, quiet_until
from assent.people.store.people import People
from assent.people.store.preferences import PreferenceStore

PLACE = "place"
"""The recipient on a channel with a fixed destination: a room, an endpoint or a Jira project."""
_TEXTS = msgspec.json.Decoder(list[str])


@dataclass(frozen=True, slots=True)
class Reach:
    """A channel and the recipient that it reaches."""

    channel: StoredChannel
    recipient: str
    fallback: tuple[str, ...] = ()
    not_before: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """The channels that a route uses, and whether it respects quiet hours."""

    channels: tuple[str, ...]
    fallback: tuple[str, ...] = ()
    quiet: bool = True
    until: int = NEVER
    """The breakpoint's deadline; quiet hours that end after it do not delay a message."""


def reaches(tx: Transaction, project: str, people: Sequence[str], plan: Plan, *, now: int) -> list[Reach]:
    """Return every way to notify these people: each room once, and each person according to their preferences."""
    known = {each.name: each for each in tx[Channels].in_project(project)}
    wanted = [known[name] for name in plan.channels if name in known]
    found = [Reach(each, PLACE, plan.fallback) for each in wanted if not is_personal(each)]
    usual = [each for each in wanted if is_personal(each)]
    for person, wishes in _wishes(tx, people).items():
        dear = [known[name] for name in wishes.channels if name in known]
        mine = [each for each in dear if each.enabled and is_personal(each)]
        # Only the first preferred channel is used; the others are fallbacks.
        ways = mine[:1] or usual
        later = _deferred(wishes, plan, now)
        for each in ways:
            others = [other.name for other in (*mine[1:], *usual) if other is not each] if mine else []
            fallback = tuple(dict.fromkeys((*others, *plan.fallback)))
            found.append(Reach(each, PERSON + person, fallback, later))
    return list({(each.channel.id, each.recipient): each for each in found}.values())


def not_before(tx: Transaction, recipient: str, plan: Plan, *, now: int) -> int:
    """Return when quiet hours no longer delay a message, or 0 if they do not; rooms do not have quiet hours."""
    [wishes] = _wishes(tx, [recipient.removeprefix(PERSON)]).values() or [Preferences()]
    return _deferred(wishes, plan, now) if recipient.startswith(PERSON) else 0


def _deferred(wishes: Preferences, plan: Plan, now: int) -> int:
    """Return when quiet hours end; 0 if they do not apply or end after the breakpoint's deadline."""
    later = quiet_until(wishes, now) if plan.quiet else None
    return later if later is not None and later < plan.until else 0


def _wishes(tx: Transaction, people: Sequence[str]) -> dict[str, Preferences]:
    ids = {person.id: name for name in people if (person := tx[People].find_by_name(name)) is not None}
    told = tx[PreferenceStore].of(list(ids))
    return {name: told.get(person_id, Preferences()) for person_id, name in ids.items()}


def is_personal(stored: StoredChannel) -> bool:
    kind = KINDS.get(stored.type)
    return kind is not None and kind.personal(stored.settings)


def queue(tx: Transaction, asked: Breakpoint, event: Event, purpose: Purpose, reach: Reach) -> None:
    """Queue a message in this transaction; if it exceeds the rate limit, delay it or add it to a digest."""
    now = tx.now()
    new = replace(
        about(tx.new_id("dlv"), asked, event, channel=reach.channel.id, recipient=reach.recipient),
        purpose=purpose.value,
        next_at=max(now, reach.not_before),
        created_at=now,
        updated_at=now,
        fallback=msgspec.json.encode(reach.fallback).decode() if reach.fallback else None,
    )
    # A message delayed by quiet hours counts toward the rate limit only when they end.
    if new.next_at <= now:
        new = paced(tx, new, reach.channel, now=now) or new
    tx[Deliveries].add(new, now=now)


def paced(tx: Transaction, delivery: Delivery, stored: StoredChannel, *, now: int) -> Delivery | None:
    """Count a message. If it exceeds the recipient's rate limit, return it delayed or digested, otherwise None."""
    kind = KINDS.get(stored.type)
    limits = limits_of(stored)
    # Editing an existing message does not count toward the limit.
    if kind is None or limits is None or (delivery.purpose == Purpose.CLOSE and kind.edits):
        return None
    pace = tx[Paces].take(delivery.channel, delivery.recipient)
    counted = pace.counted(now, window=limits.window, most=limits.messages)
    if counted is not None:
        tx[Paces].save(counted)
        return None
    free_at = max(now + 1, pace.free_at(window=limits.window, most=limits.messages))
    if not limits.digest:
        tx[Paces].save(pace.reserved(free_at))
        # Setting updated_at later than created_at marks the message as already counted in the reserved slot.
        return replace(delivery, next_at=free_at, updated_at=now + 1)
    due = pace.digest_due
    if due is None or due <= now:
        due = free_at
        tx[Paces].save(replace(pace, digest_due=due))
        tx[Deliveries].plan_digest(delivery.channel, delivery.recipient, at=due, now=now)
    return replace(delivery, digested=1, next_at=due)


def limits_of(stored: StoredChannel) -> Pacing | None:
    """Return the rate limit per recipient on this channel; None if there is no limit."""
    kind = KINDS.get(stored.type)
    if kind is None or kind.pacing is None:
        return None
    try:
        return pacing_of(stored.settings, kind.pacing)
    except InvalidRequest:
        # Invalid limits must not prevent notifications.
        return kind.pacing


def fall_back(tx: Transaction, dead: Delivery, asked: Breakpoint, event: Event) -> bool:
    """Queue a dead delivery on the next available fallback channel; return False if none is left."""
    left: list[str] = _TEXTS.decode(dead.fallback) if dead.fallback else []
    while left:
        stored = tx[Channels].by_name(dead.project, left.pop(0))
        if stored is None or not stored.enabled or stored.id == dead.channel:
            continue
        recipients = _recipients(tx, dead, asked, event) if is_personal(stored) else [PLACE]
        for recipient in recipients:
            queue(tx, asked, event, Purpose(dead.purpose), Reach(stored, recipient, tuple(left)))
        return True
    return False


def _recipients(tx: Transaction, dead: Delivery, asked: Breakpoint, event: Event) -> list[str]:
    """Return the person a message was for or, if it went to a room, the people named by the route or escalation."""
    if dead.recipient.startswith(PERSON):
        return [dead.recipient]
    if event.type == "escalated":
        return [PERSON + str(each) for each in event.metadata.get("to") or ()]
    routing = tx[Routings].find(asked.id)
    to = kept_route(routing).to if routing is not None and routing.route is not None else (EXPERTS,)
    directory = tx[People].directory(asked.project, named(to, asked))
    return [PERSON + each for each in people(to, asked, directory)]


def kept_route(routing: Routing) -> Route:
    """Return the route as it was when it was selected for the breakpoint."""
    return read(msgspec.json.decode(routing.route or "{}"), route_id=routing.route_id or "")


def addressee(tx: Transaction, delivery: Delivery) -> Addressee:
    """Return the person a message is for, with their current contact details; for a room, all fields are empty."""
    if not delivery.recipient.startswith(PERSON):
        return Addressee()
    person = tx[People].find_by_name(delivery.recipient.removeprefix(PERSON))
    if person is None:
        return Addressee()
    identity = tx[Links].identity_of(delivery.channel, person.id)
    wishes = tx[PreferenceStore].of([person.id]).get(person.id, Preferences())
    return Addressee(person.name, person.display_name, person.email, identity, person.time_zone or wishes.zone)


def may_be_told(tx: Transaction, project: str, recipient: str) -> bool:
    """Return whether the recipient may still be notified: people only while they are reviewers, rooms always."""
    if not recipient.startswith(PERSON):
        return True
    name = recipient.removeprefix(PERSON)
    return name in tx[People].directory(project, [name]).people


def traced(trace: str | None) -> Mapping[str, str] | None:
    return msgspec.json.decode(trace, type=dict[str, str]) if trace else None
