"""Claim, assign and snooze: how people share an inbox. These actions neither make decisions nor prevent them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assent.breakpoints.store.absent_agents import AbsentAgents
from assent.breakpoints.store.breakpoints import Breakpoints, Deadline
from assent.breakpoints.store.triage import Claim, Triage
from assent.breakpoints.store.undo_window import Held, HeldAnswers
from assent.breakpoints.undo_window import PendingAnswer
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import Kind, Permission, Principal, Role
from assent.core.breakpoint import Action, Breakpoint, Status, advance, ended, timed_out
from assent.core.canonical import Json
from assent.core.errors import AlreadyClaimed, Forbidden, InvalidRequest, SeatTaken
from assent.core.timestamps import SECOND, iso
from assent.db.transaction import Transaction
from assent.people.store.people import People
from assent.people.usecases.people import find_in_project

LONGEST_SNOOZE = 366 * 24 * 3600 * SECOND


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks that a person's list shows next to a breakpoint."""

    claimed_by: str | None = None
    snoozed_until: int | None = None
    held: Held | None = None
    pending: tuple[PendingAnswer, ...] = ()
    """Other people's pending answers."""
    agent_gone_since: int | None = None
    """When the agent stopped waiting for the answer; the agent may come back."""


class TriageService:
    def __init__(self, breakpoints: BreakpointService) -> None:
        self._breakpoints = breakpoints

    def claim(self, tx: Transaction, breakpoint_id: str, *, by: Principal) -> None:
        """Claim a breakpoint for the caller, so that others leave it alone; raise if someone else has claimed it."""
        # Raises unless the caller may answer the breakpoint.
        self._breakpoints.standing(tx, breakpoint_id, by=by)
        current = _open(tx, breakpoint_id, by)
        now = tx.now()
        if tx[Triage].claim(Claim(current.id, current.project, by.id, str(by.actor), now)):
            _record(tx, current, Action.CLAIM, by, {})
        else:
            _check_mine(tx, breakpoint_id, by)

    def unclaim(self, tx: Transaction, breakpoint_id: str, *, by: Principal) -> None:
        """Remove the caller's claim; do nothing if the breakpoint is not claimed."""
        _require_reviewer(tx, by)
        current = _open(tx, breakpoint_id, by)
        if tx[Triage].unclaim(breakpoint_id, person_id=by.id):
            _record(tx, current, Action.UNCLAIM, by, {})
        else:
            _check_mine(tx, breakpoint_id, by)

    def assign(self, tx: Transaction, breakpoint_id: str, person: str, *, by: Principal) -> None:
        """Assign a breakpoint to a person who can answer it, replacing any earlier claim."""
        _require_reviewer(tx, by)
        current = _open(tx, breakpoint_id, by)
        person_id = self._able(tx, current, person)
        before = tx[Triage].claimer(breakpoint_id)
        if tx[Triage].assign(Claim(current.id, current.project, person_id, str(by.actor), tx.now())):
            metadata = {"to": person} if before is None else {"to": person, "from": before}
            _record(tx, current, Action.ASSIGN, by, metadata)

    def _able(self, tx: Transaction, current: Breakpoint, name: str) -> str:
        """Return the ID of a person who can answer the breakpoint, or raise an error that explains why they cannot."""
        found = find_in_project(tx, name, current.project)
        if found is None:
            raise InvalidRequest.at("/person", f"person {name} not found")
        roles = tx[People].live_roles(found.id, project=current.project, token_id=None, now=tx.now())
        them = Principal(kind=Kind.PERSON, id=found.id, name=name, project=current.project, roles=roles)
        try:
            standing = self._breakpoints.standing(tx, current.id, by=them)
        except (Forbidden, SeatTaken) as error:
            raise InvalidRequest.at("/person", f"{name} cannot respond to this breakpoint: {error.message}") from error
        if standing.override:
            raise InvalidRequest.at(
                "/person", f"{name} can respond only with an admin override; choose an eligible reviewer"
            )
        return found.id

    def snooze(self, tx: Transaction, breakpoint_id: str, until: int, *, by: Principal) -> None:
        """Hide a breakpoint from the caller's inbox until later; other people still see it."""
        _require_reviewer(tx, by)
        now = tx.now()
        # No lock is necessary, because a snooze does not change the breakpoint.
        current = _check_open(tx[Breakpoints].look(breakpoint_id, project=by.project), now)
        if not now < until <= now + LONGEST_SNOOZE:
            raise InvalidRequest.at("/until", "must be in the future and within a year")
        if until >= current.due_at:
            raise InvalidRequest.at("/until", f"must be before the deadline, {iso(current.due_at)}")
        tx[Triage].snooze(breakpoint_id, person_id=by.id, until=until, now=now)
        tx.changed(current, quietly=True)

    def wake(self, tx: Transaction, breakpoint_id: str, *, by: Principal) -> None:
        """Show a breakpoint again; do nothing if it is not snoozed."""
        current = tx[Breakpoints].look(breakpoint_id, project=by.project)
        if tx[Triage].wake(breakpoint_id, person_id=by.id):
            tx.changed(current, quietly=True)

    def marks(self, tx: Transaction, breakpoint_ids: Sequence[str], *, person_id: str) -> Mapping[str, Marks]:
        """Return the marks of these breakpoints, omitting breakpoints without marks."""
        claimed = tx[Triage].claimers(breakpoint_ids)
        snoozed = tx[Triage].snoozed(breakpoint_ids, person_id=person_id, now=tx.now())
        held = tx[HeldAnswers].held(breakpoint_ids, person_id=person_id)
        pending = tx[HeldAnswers].pending(breakpoint_ids, without=person_id)
        gone = tx[AbsentAgents].since(breakpoint_ids)
        return {
            each: Marks(claimed.get(each), snoozed.get(each), held.get(each), pending.get(each, ()), gone.get(each))
            for each in claimed.keys() | snoozed.keys() | held.keys() | pending.keys() | gone.keys()
        }


def _require_reviewer(tx: Transaction, by: Principal) -> None:
    """Require that the caller is currently allowed to decide in this project; agents and viewers are not."""
    if not by.may(Permission.OVERRIDE):
        by.require(Permission.DECIDE)
    roles = by.roles & tx[People].live_roles(by.id, project=by.project, token_id=by.token_id, now=tx.now())
    if not roles & {Role.REVIEWER, Role.ADMIN}:
        msg = f"{by.name} no longer has permission to respond in project {by.project}."
        raise Forbidden(msg)


def _open(tx: Transaction, breakpoint_id: str, by: Principal) -> Breakpoint:
    return _check_open(tx[Breakpoints].get(breakpoint_id, project=by.project), tx.now())


def _check_open(current: Breakpoint, now: int) -> Breakpoint:
    standing = timed_out(current, now)
    if standing.status is not Status.WAITING:
        raise ended(standing)
    return current


def _check_mine(tx: Transaction, breakpoint_id: str, by: Principal) -> None:
    claimer = tx[Triage].claimer(breakpoint_id)
    if claimer is not None and claimer != by.name:
        msg = f"{claimer} has claimed this breakpoint. Assign it to yourself to take it over."
        raise AlreadyClaimed(msg, claimedBy=claimer)


def _record(tx: Transaction, current: Breakpoint, action: Action, by: Principal, metadata: Mapping[str, Json]) -> None:
    now = tx.now()
    changed, event = advance(current, action, actor=by.actor, at=now, metadata=metadata)
    tx[Breakpoints].move(changed, [event], deadline=Deadline.AHEAD, now=now)
    # Refresh open inboxes without waking the agent.
    tx.changed(changed, quietly=True)
