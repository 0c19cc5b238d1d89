"""Delegation: notifies recipients of pending breakpoints, sends reminders, escalates, and closes messages."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec
import structlog

from assent.breakpoints.store.breakpoints import Breakpoints, Deadline
from assent.breakpoints.usecases.lapsed_answers import lapse_all
from assent.breakpoints.usecases.lifecycle import needs_ticket
from assent.core.access import ROUTE, TIMEOUT
from assent.core.breakpoint import Action, Breakpoint, Event, Status, advance, time_out
from assent.core.canonical import Json
from assent.core.errors import AssentError
from assent.core.seats import Deputy, eligible
from assent.core.strategies import NEEDS_EXPERTS
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.delivery.message import Purpose
from assent.delivery.routes import PERSON, Route, Step, StepKind, chosen, named, people, steps
from assent.delivery.routes_file import written
from assent.delivery.store.channels import Channels
from assent.delivery.store.deliveries import Deliveries
from assent.delivery.store.notification_state import Routing, Routings
from assent.delivery.store.routes import Routes
from assent.delivery.usecases.channel_pool import Switchboard
from assent.delivery.usecases.recipients import PLACE, Plan, Reach, kept_route, may_be_told, not_before, queue, reaches
from assent.people.preferences import LONGEST_CHAIN, deputy
from assent.people.store.people import People
from assent.people.store.preferences import PreferenceStore

BATCH = 50
"""Maximum number of breakpoints per transaction; on SQLite, other writers wait until the transaction ends."""
AGAIN = 60 * SECOND
"""Delay before retrying a breakpoint that could not be advanced."""
ENDS = frozenset({"released", "expired", "cancelled"})
UNTELLABLE = (AssentError, msgspec.MsgspecError, ValueError, LookupError, TypeError, AttributeError)
"""Errors raised for stored routes, preferences and settings that cannot be read; database errors are not included."""
_log = structlog.get_logger()


class Untold(Exception):
    """Notifications about this breakpoint could not be queued; this is retried after a minute."""


@dataclass(slots=True)
class Going:
    """A breakpoint and its notification state, as changed so far in this transaction."""

    routing: Routing
    current: Breakpoint
    now: int
    created: Event
    told: list[Event] = field(default_factory=list[Event])
    """Events since this breakpoint was last processed."""


class DelegationService:
    def __init__(self) -> None:
        self.has_channels = False
        """Whether any project had a channel when last checked; without channels, nothing is urgent."""
        # Kept in memory, because a failed transaction is rolled back and cannot store the delay.
        self._put_off: dict[str, int] = {}

    def advance_due(self, tx: Transaction) -> int:
        """Advance a batch of due breakpoints, on only one node at a time; return how many were processed."""
        self.has_channels = tx[Channels].any()
        due = tx[Routings].take_due(tx.now(), limit=BATCH)
        for routing in due:
            until = self._put_off.pop(routing.breakpoint_id, None)
            if until is None:
                self._try(tx, routing)
            else:
                tx[Routings].save(replace(routing, next_at=until))
        return len(due)

    def _try(self, tx: Transaction, routing: Routing) -> None:
        """Advance one breakpoint, or leave everything unchanged; a failure must not block other breakpoints."""
        try:
            self._advance(tx, routing)
        except UNTELLABLE as error:
            # Raising an error rolls back the batch; the next batch postpones this breakpoint.
            self._put_off[routing.breakpoint_id] = tx.now() + AGAIN
            _log.warning("delegation_failed", breakpoint=routing.breakpoint_id, error=str(error))
            raise Untold(routing.breakpoint_id) from error

    def _advance(self, tx: Transaction, routing: Routing) -> None:
        now = tx.now()
        current = tx[Breakpoints].get(routing.breakpoint_id, project=routing.project)
        [created] = tx[Breakpoints].events(current.id, limit=1)
        # Read all new events: with a fixed limit, many comments could hide the event that ended the breakpoint.
        told = tx[Breakpoints].events(current.id, after=routing.seen, limit=max(1, current.version - routing.seen))
        going = Going(routing, current, now, created, told)
        if current.status is not Status.WAITING:
            self._close(tx, going)
        elif current.overdue(now):
            # The breakpoint is about to end, and will be processed again when it does.
            tx[Routings].save(replace(routing, next_at=None))
        else:
            self._go_on(tx, going)

    def _go_on(self, tx: Transaction, going: Going) -> None:
        if going.routing.done == 0:
            going.routing = self._chosen(tx, going)
        if going.routing.route is None:
            tx[Routings].save(going.routing)
            return
        route = kept_route(going.routing)
        plan = steps(route, going.current.created_at)
        for step in _due(plan[going.routing.done :], going.now):
            self._take(tx, going, route, step)
            if going.current.status is not Status.WAITING:
                self._close(tx, going)
                return
        self._follow(tx, going)
        # Missed reminders count as done, because they are never sent later.
        done = sum(each.at <= going.now for each in plan)
        left = plan[done].at if done < len(plan) else None
        tx[Routings].save(replace(going.routing, done=done, seen=going.current.version, next_at=left))

    def _chosen(self, tx: Transaction, going: Going) -> Routing:
        """Select the route, and keep a copy of it that includes the channels that create a required ticket."""
        current = going.current
        routes = [each.route for each in tx[Routes].in_project(current.project) if each.enabled]
        route = chosen(routes, current)
        tickets = ticket_channels(tx, current)
        if tickets:
            route = route or Route(id="", pattern="*", channels=())
            route = replace(route, channels=tuple(dict.fromkeys((*route.channels, *tickets))))
        if route is None:
            # The breakpoint cannot be approved without a ticket, so check again later for a new Jira channel.
            missing = needs_ticket(tx, current)
            return replace(going.routing, done=int(not missing), next_at=going.now + AGAIN if missing else None)
        # The timeout became the breakpoint's deadline when the breakpoint was created.
        kept = msgspec.json.encode(written(replace(route, timeout=None))).decode()
        return replace(going.routing, route_id=route.id or None, route=kept)

    def _take(self, tx: Transaction, going: Going, route: Route, step: Step) -> None:
        if step.kind is StepKind.ASK:
            self._ask(tx, going, route)
        elif step.kind is StepKind.REMIND:
            self._remind(tx, going, route, step.index)
        elif step.kind is StepKind.ESCALATE:
            self._escalate(tx, going, route, step.index)
        else:
            self._time_out(tx, going, route)

    def _ask(self, tx: Transaction, going: Going, route: Route) -> None:
        asked = self._asked(tx, going, route.to)
        for reach in reaches(tx, going.current.project, asked, _plan(route, going), now=going.now):
            queue(tx, going.current, going.created, Purpose.ASK, reach)

    def _asked(self, tx: Transaction, going: Going, to: Sequence[str]) -> list[str]:
        """Return the people that these targets refer to, with absent people replaced by their deputies."""
        directory = tx[People].directory(going.current.project, named(to, going.current))
        meant = people(to, going.current, directory)
        return list(dict.fromkeys(self._stands_in(tx, going, each) for each in meant))

    def _stands_in(self, tx: Transaction, going: Going, person: str) -> str:
        """Return the person or, if they are absent, their deputy, who may answer from now on."""
        found = person
        for _ in range(LONGEST_CHAIN):
            known = tx[People].find_by_name(found)
            wishes = tx[PreferenceStore].of([known.id]).get(known.id) if known else None
            instead = deputy(wishes, going.now) if wishes else None
            # Deputies can name each other, so stop before the chain returns to the person.
            if instead is None or instead == person:
                break
            found = instead
        if found == person or not _may_stand_in(tx, going.current, found):
            return person
        self._record(tx, going, Action.DELEGATE, {"from": person, "to": found})
        self._admit(going, Deputy(found, person))
        return found

    def _remind(self, tx: Transaction, going: Going, route: Route, index: int) -> None:
        current, plan = going.current, _plan(route, going)
        answered = {PERSON + each.person for each in tx[Breakpoints].responses(current.id)}
        lines = [each for each in tx[Deliveries].to_remind(current.id, now=going.now) if each[1] not in answered]
        known = {each.id: each for each in tx[Channels].in_project(current.project)}
        there = [
            Reach(known[channel], recipient, plan.fallback, not_before(tx, recipient, plan, now=going.now))
            for channel, recipient in lines
            if channel in known and may_be_told(tx, current.project, recipient)
        ]
        if not there:
            return
        to: list[Json] = sorted({_shown(each.channel.name, each.recipient) for each in there})
        event = self._record(tx, going, Action.REMIND, {"n": index + 1, "to": to})
        for reach in there:
            queue(tx, going.current, event, Purpose.REMIND, reach)

    def _escalate(self, tx: Transaction, going: Going, route: Route, index: int) -> None:
        level = route.escalate[index]
        asked = self._asked(tx, going, level.to)
        directory = tx[People].directory(going.current.project, named(level.to, going.current))
        meant = people(level.to, going.current, directory)
        # The people named in the route can answer too, although only their deputies are notified.
        for person in dict.fromkeys((*meant, *asked)):
            self._admit(going, Deputy(person))
        event = self._record(tx, going, Action.ESCALATE, {"level": index + 1, "to": list(meant)})
        plan = replace(_plan(route, going), channels=level.channels or route.channels, quiet=False)
        for reach in reaches(tx, going.current.project, asked, plan, now=going.now):
            # Escalations ignore quiet hours, so they replace messages that are waiting for quiet hours to end.
            tx[Deliveries].supersede_line(going.current.id, reach.channel.id, reach.recipient, now=going.now)
            queue(tx, going.current, event, Purpose.ESCALATE, reach)

    def _time_out(self, tx: Transaction, going: Going, route: Route) -> None:
        """End a breakpoint created by an earlier release, in which a route's timeout did not become the deadline."""
        assert route.timeout is not None, "only a route with a timeout has this step"
        ending = going.current.but(on_timeout=route.timeout.then)
        lapsed, events = lapse_all(tx, ending, "The route's timeout expired.", at=going.now)
        changed, event = time_out(lapsed, at=going.now, actor=TIMEOUT)
        tx[Breakpoints].move(changed, [*events, event], deadline=Deadline.AHEAD, now=going.now)
        tx.changed(changed)
        going.current = changed
        going.told.append(event)

    def _follow(self, tx: Transaction, going: Going) -> None:
        """Send new answers to the channels that receive every event."""
        answers = [each for each in going.told if each.type == "responded"]
        if not answers:
            return
        for channel, recipient in tx[Deliveries].told(going.current.id):
            stored = tx[Channels].find(channel)
            kind = Switchboard.kind(stored) if stored else None
            if stored is not None and kind is not None and kind.follows:
                for event in answers:
                    queue(tx, going.current, event, Purpose.TELL, Reach(stored, recipient))

    def _close(self, tx: Transaction, going: Going) -> None:
        """Send the outcome to every channel that was notified, so that no message still looks open."""
        current = going.current
        everywhere = tx[Channels].in_project(current.project)
        following = [each.id for each in everywhere if (kind := Switchboard.kind(each)) is not None and kind.follows]
        tx[Deliveries].supersede_unsent(current.id, following=following, now=going.now)
        self._follow(tx, going)
        end = next((each for each in going.told if each.type in ENDS), None)
        if end is not None:
            for channel, recipient in tx[Deliveries].to_close(current.id):
                stored = tx[Channels].find(channel)
                if stored is not None:
                    queue(tx, current, end, Purpose.CLOSE, Reach(stored, recipient))
        tx[Routings].save(replace(going.routing, seen=current.version, next_at=None))

    def _record(self, tx: Transaction, going: Going, action: Action, metadata: dict[str, Json]) -> Event:
        changed, event = advance(going.current, action, actor=ROUTE, at=going.now, metadata=metadata)
        tx[Breakpoints].move(changed, [event], deadline=Deadline.AHEAD, now=going.now)
        # Reminders and escalations do not need to wake clients that are waiting for an answer.
        tx.changed(changed, quietly=True)
        going.current = changed
        return event

    def _admit(self, going: Going, new: Deputy) -> None:
        deputies = tuple(dict.fromkeys((*going.routing.deputies, new)))
        going.routing = replace(going.routing, deputies=deputies)


def ticket_channels(tx: Transaction, asked: Breakpoint) -> tuple[str, ...]:
    """Return the channels that create the ticket required for the breakpoint's tags."""
    if not needs_ticket(tx, asked):
        return ()
    return tuple(each.name for each in tx[Channels].in_project(asked.project) if each.type == "jira")


def _plan(route: Route, going: Going) -> Plan:
    ends = going.current.due_at
    if route.timeout is not None:
        ends = min(ends, going.current.created_at + route.timeout.after * SECOND)
    return Plan(route.channels, route.fallback, route.quiet, ends)


def _may_stand_in(tx: Transaction, asked: Breakpoint, person: str) -> bool:
    """Return whether a deputy may answer for an absent person: only a reviewer who does not also have a vote."""
    names = [name for seat in asked.seats for name in seat.names]
    directory = tx[People].directory(asked.project, [*names, person])
    seated = any(person in eligible(seat, directory) for seat in asked.seats)
    return person in directory.people and not (seated and asked.strategy in NEEDS_EXPERTS)


def _due(left: Sequence[Step], now: int) -> list[Step]:
    """Return the steps that are due. If several reminders were missed, include only the last one."""
    due = [each for each in left if each.at <= now]
    last = max((each.at for each in due if each.kind is StepKind.REMIND), default=0)
    return [each for each in due if each.kind is not StepKind.REMIND or each.at == last]


def _shown(channel: str, recipient: str) -> str:
    return f"channel:{channel}" if recipient == PLACE else recipient
