"""Who gets a message, on which channel, and when: people, their own wishes, and not too much at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from assent.channels.registry import KINDS, ChannelKind
from assent.domain.breakpoint import Breakpoint, Event
from assent.domain.instants import SECOND
from assent.domain.notes import Addressee, Purpose
from assent.domain.preferences import Preferences, quiet_until
from assent.domain.routes import PERSON
from assent.store.channels import StoredChannel
from assent.store.deliveries import Delivery, about
from assent.store.pace import Pace
from assent.store.transaction import Transaction

PLACE = "place"
"""The recipient of a channel that has a place of its own: a room, an endpoint, a project."""
WINDOW = 75 * SECOND
"""A minute, and what a busy worker may be late by: counted is when a message is queued, and felt when it arrives."""
MOST = 4
"""Messages to one person within the window; with the one that tells of all the others, five."""
GATHER = 5 * SECOND
"""How long to wait for more before many are told in one."""
_TEXTS = msgspec.json.Decoder(list[str])


@dataclass(frozen=True, slots=True)
class Reach:
    """One way to one recipient."""

    channel: StoredChannel
    recipient: str
    fallback: tuple[str, ...] = ()
    not_before: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a route wants its messages to go."""

    channels: tuple[str, ...]
    fallback: tuple[str, ...] = ()
    quiet: bool = True


def reaches(tx: Transaction, project: str, people: Sequence[str], plan: Plan, *, now: int) -> list[Reach]:
    """Return every way to tell these people: places once, persons one by one and as they wish."""
    known = {each.name: each for each in tx.channels.in_project(project)}
    wanted = [known[name] for name in plan.channels if name in known]
    found = [Reach(each, PLACE, plan.fallback) for each in wanted if not is_personal(each)]
    for person, wishes in _wishes(tx, people).items():
        mine = [known[name] for name in wishes.channels if name in known and is_personal(known[name])]
        own_order = tuple(each.name for each in mine[1:])
        ways = mine[:1] or [each for each in wanted if is_personal(each)]
        later = (quiet_until(wishes, now) or 0) if plan.quiet else 0
        found += [Reach(each, PERSON + person, (*own_order, *plan.fallback), later) for each in ways]
    return list({(each.channel.id, each.recipient): each for each in found}.values())


def _wishes(tx: Transaction, people: Sequence[str]) -> dict[str, Preferences]:
    ids = {person.id: name for name in people if (person := tx.people.find_by_name(name)) is not None}
    told = tx.preferences.of(list(ids))
    return {name: told.get(person_id, Preferences()) for person_id, name in ids.items()}


def is_personal(stored: StoredChannel) -> bool:
    kind = KINDS.get(stored.type)
    return kind is not None and kind.personal(stored.settings)


def queue(tx: Transaction, asked: Breakpoint, event: Event, purpose: Purpose, reach: Reach) -> None:
    """Queue a message in this transaction; where somebody gets too many, it is told together with the others."""
    now = tx.now()
    new = replace(
        about(tx.new_id("dlv"), asked, event, channel=reach.channel.id, recipient=reach.recipient),
        purpose=purpose.value,
        next_at=max(now, reach.not_before),
        created_at=now,
        updated_at=now,
        fallback=msgspec.json.encode(reach.fallback).decode() if reach.fallback else None,
    )
    kind = KINDS.get(reach.channel.type)
    if kind is not None and _is_message(kind, purpose):
        new = _paced(tx, new, now)
    tx.deliveries.add(new, now=now)


def _is_message(kind: ChannelKind, purpose: Purpose) -> bool:
    return kind.paced and not (purpose is Purpose.CLOSE and kind.edits)


def _paced(tx: Transaction, new: Delivery, now: int) -> Delivery:
    pace = tx.paces.take(new.channel, new.recipient)
    at = max(now, new.next_at)
    counted = pace.counted(at, window=WINDOW, most=MOST)
    if counted is not None:
        tx.paces.save(counted)
        return new
    due = pace.digest_due
    if due is None or due <= now:
        due = planned(pace, at)
        tx.paces.save(replace(pace, digest_due=due))
        tx.deliveries.plan_digest(new.channel, new.recipient, at=due, now=now)
    return replace(new, digested=1, next_at=due)


def planned(pace: Pace, at: int) -> int:
    """When the next message that tells of many may go out."""
    return max(at + GATHER, (pace.digest_at or 0) + WINDOW)


def fall_back(tx: Transaction, dead: Delivery, asked: Breakpoint, event: Event, people: Sequence[str]) -> bool:
    """Send what is dead on one channel by the next that is left; False if there is none."""
    left: list[str] = _TEXTS.decode(dead.fallback) if dead.fallback else []
    while left:
        stored = tx.channels.by_name(dead.project, left.pop(0))
        if stored is None or not stored.enabled or stored.id == dead.channel:
            continue
        person = dead.recipient.removeprefix(PERSON) if dead.recipient.startswith(PERSON) else None
        plan = Plan((stored.name,), tuple(left))
        meant = [person] if person is not None else people
        ways = [Reach(stored, PERSON + each, plan.fallback) for each in meant]
        for reach in ways if is_personal(stored) else [Reach(stored, PLACE, plan.fallback)]:
            queue(tx, asked, event, Purpose(dead.purpose), reach)
        return True
    return False


def addressee(tx: Transaction, delivery: Delivery) -> Addressee:
    """Return whom a message is for, as they are known now."""
    if not delivery.recipient.startswith(PERSON):
        return Addressee()
    person = tx.people.find_by_name(delivery.recipient.removeprefix(PERSON))
    if person is None:
        return Addressee()
    identity = tx.links.identity_of(delivery.channel, person.id)
    return Addressee(person.name, person.display_name, person.email, identity)


def traced(trace: str | None) -> Mapping[str, str] | None:
    return msgspec.json.decode(trace, type=dict[str, str]) if trace else None
