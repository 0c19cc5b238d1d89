"""The lifecycle of a breakpoint: create, comment, respond, cancel, expire."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assent.breakpoints.store.breakpoints import Breakpoints, Deadline, row_of
from assent.breakpoints.store.files import Files
from assent.breakpoints.store.idempotency import Idempotency
from assent.breakpoints.store.reading import Whole, whole_of
from assent.breakpoints.store.undo_window import HeldAnswers
from assent.breakpoints.undo_window import HeldAnswer
from assent.breakpoints.usecases.create import Raised, Ready, experts_of, files_of
from assent.breakpoints.usecases.lapsed_answers import ENDED, author, lapse, lapse_all
from assent.core.access import PROJECT_REMOVED, Permission, Principal, Role
from assent.core.breakpoint import (
    Action,
    Breakpoint,
    Event,
    Response,
    Status,
    advance,
    answered,
    cancel,
    ended,
    expire,
    release,
    time_out,
    timed_out,
)
from assent.core.draft import Draft
from assent.core.errors import (
    AssentError,
    DigestMismatch,
    Forbidden,
    NotEligible,
    NotFound,
    OwnBreakpoint,
    PreconditionFailed,
    RejectionPending,
    SeatTaken,
    TicketRequired,
)
from assent.core.patterns.folding import is_spelled_like, readings
from assent.core.seats import Seat, eligible, in_place_of, seating
from assent.core.strategies import NEEDS_EXPERTS, Decision, Vote, verdict
from assent.core.terms import Answer, Terms
from assent.core.timestamps import SECOND, iso
from assent.db.transaction import Transaction
from assent.delivery.store.deliveries import Deliveries
from assent.delivery.store.notification_state import Routings
from assent.people.store.people import People
from assent.people.store.projects import Projects
from assent.platform.epochs import Epochs
from assent.policy.store.rules import Rules
from assent.policy.usecases.rules import Question, RuleService

SWEEP = 500
"""Maximum number of breakpoints that a batch ends. On SQLite, this blocks other writers for tens of milliseconds."""


@dataclass(frozen=True, slots=True)
class Once:
    """An Idempotency-Key with the fingerprint of its request."""

    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """An answered breakpoint without comments, as a GET request would return it, but without another query."""

    row: Whole
    responses: Sequence[Response]


@dataclass(frozen=True, slots=True)
class Standing:
    """The capacity in which a person answers."""

    seat: Seat | None = None
    in_place_of: tuple[str, ...] = ()
    override: bool = False
    after_reset_by: str | None = None
    """The admin who reset this person's access, until the reset is confirmed."""
    moved: tuple[Response, ...] = ()
    """Earlier answers that are moved to other seats open to their authors, so that this answer gets a seat."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A breakpoint, locked at a given time, with a person who may answer it."""

    breakpoint: Breakpoint
    by: Principal
    standing: Standing
    others: list[Response]
    at: int


@dataclass(slots=True)
class Tally:
    """A breakpoint to which a transaction is recording answers, with its responses and new events so far."""

    breakpoint: Breakpoint
    responses: list[Response]
    events: list[Event] = field(default_factory=list[Event])


class BreakpointService:
    def __init__(self, rules: RuleService) -> None:
        self._rules = rules

    def prepare(self, draft: Draft, *, by: Principal, digest: str, new_id: str, now: int) -> Ready | None:
        """Do everything that is possible outside the transaction, so that the writer only has to write."""
        by.require_speaks_for(draft.agent_id, draft.gate)
        # Experts are looked up inside the transaction, because people and groups can change until then.
        if draft.experts:
            return None
        guess = self._rules.guess(by.project, Question.of(draft, by=by), now=now)
        if guess is None:
            return None
        raised = Raised(draft, by, digest, new_id, now, guess.route_timeout)
        return Ready.of(raised, guess.recommendation, guess=guess)

    def create(
        self,
        tx: Transaction,
        draft: Draft,
        *,
        by: Principal,
        digest: str,
        once: Once | None,
        ready: Ready | None = None,
    ) -> Whole | str:
        """Create a breakpoint and return it, or return the ID of the breakpoint created earlier with the same key."""
        by.require(Permission.CREATE)
        by.require_speaks_for(draft.agent_id, draft.gate)
        # Check the key first: a retry gets the original result, even if the experts have changed since then.
        if once is not None and (done := tx[Idempotency].find(by.id, once.key, fingerprint=once.fingerprint)):
            return done
        if ready is None or not ready.holds(tx):
            question = Question.of(draft, by=by)
            timeout = self._rules.route_timeout(tx, by.project, question) if draft.ttl_seconds is None else None
            raised = Raised(draft, by, digest, tx.new_id("bp"), tx.now(), timeout)
            recommendation = self._rules.recommend(tx, by.project, question, now=raised.at)
            ready = Ready.of(raised, recommendation, experts_of(tx, draft, by))
        files = files_of(tx, draft, by.project) if draft.files else []
        new, now = ready.new, ready.new.created_at
        if once is not None:
            existing = tx[Idempotency].claim(
                by.id, once.key, fingerprint=once.fingerprint, breakpoint_id=new.id, now=now
            )
            # A concurrent request with the same key created the breakpoint after the call to `find`.
            if existing is not None:
                return existing
        for file in draft.files:
            if file.content is not None and file.sha256 is not None:
                tx[Files].put(by.project, file.sha256, file.content, at=now)
        tx[Breakpoints].add(new, ready.events, ready.rows)
        tx[Rules].add_shadows(new.id, ready.shadows, at=now)
        if files:
            tx[Files].attach(new.id, files)
        tx.changed(new)
        return whole_of(ready.rows.row)

    def comment(self, tx: Transaction, breakpoint_id: str, comment: str, *, by: Principal, once: Once | None) -> None:
        by.require(Permission.COMMENT)
        current = self._visible(tx, breakpoint_id, by)
        now = tx.now()
        # Check the key before the status: a retry succeeds even if the breakpoint has ended since then.
        if self._done_before(tx, once, by, current, now):
            return
        _check_open(current, now)
        metadata = {"comment": comment}
        changed, event = advance(current, Action.COMMENT, actor=by.actor, at=now, metadata=metadata)
        changed = changed.but(comments=current.comments + 1)
        tx[Breakpoints].move(changed, [event], deadline=Deadline.AHEAD, now=now)
        tx[Breakpoints].add_comment(tx.new_id("fb"), current.id, author=by.actor, comment=comment, at=now)
        tx.changed(changed)

    def respond(  # noqa: PLR0913  # the fields of a response
        self,
        tx: Transaction,
        breakpoint_id: str,
        answer: Answer,
        *,
        by: Principal,
        via: str,
        once: Once | None = None,
        if_match: int | None = None,
    ) -> Outcome | None:
        """Record one person's answer; release the breakpoint if the strategy reaches a decision."""
        asked = self._asked(tx, breakpoint_id, by)
        # Check the key before the status: the first attempt may have ended the breakpoint.
        if self._done_before(tx, once, by, asked.breakpoint, asked.at):
            return None
        _check_answer(asked, answer, if_match)
        _check_ticket(tx, asked, answer)
        _check_rejection_pending(tx, asked, answer)
        return self.give(tx, asked, answer, via=via)

    def check(self, tx: Transaction, breakpoint_id: str, answer: Answer, *, by: Principal) -> Asked:
        """Run all checks on an answer without recording it; raise an error if the answer is not allowed."""
        asked = self._asked(tx, breakpoint_id, by)
        _check_answer(asked, answer, None)
        _check_ticket(tx, asked, answer)
        _check_rejection_pending(tx, asked, answer)
        return asked

    def give(self, tx: Transaction, asked: Asked, answer: Answer, *, via: str) -> Outcome | None:
        """Record an answer that was checked in this transaction. If it leads to a decision, settle pending answers."""
        by, now = asked.by, asked.at
        tally = Tally(asked.breakpoint, asked.others)
        last, decider = _record(tx, tally, asked, answer, via=via), by
        pending = tx[HeldAnswers].on(asked.breakpoint.id)
        if any(each.person_id == by.id for each in pending):
            held = tx[HeldAnswers].remove(asked.breakpoint.id, person_id=by.id)
            if held is not None:
                _lapse(
                    tx, tally, held, code="answer_stands", why=f"{by.name} submitted another answer ({via}).", at=now
                )
        others = [each for each in pending if each.person_id != by.id]
        decision = _settled(tally, last)
        if decision is Decision.APPROVED and _votes(asked):
            # Count pending rejections before approving the breakpoint.
            for held in [each for each in others if not each.answer.approved]:
                joined = self._join(tx, tally, held, now)
                others.remove(held)
                if joined is not None and _settled(tally, joined[0]) is not Decision.APPROVED:
                    last, decider = joined
            decision = _settled(tally, last)
        if decision is not None:
            self._settle_pending(tx, tally, asked, others, decision, by=decider)
            result = answered(decision, tally.responses, last=last)
            tally.breakpoint, event = release(tally.breakpoint, decision, actor=decider.actor, at=now, result=result)
            tally.events.append(event)
        changed = tally.breakpoint
        tx[Breakpoints].move(changed, tally.events, deadline=Deadline.AHEAD, now=now)
        tx.changed(changed)
        # Comments are in another table, so the caller has to read them.
        return None if changed.comments else Outcome(whole_of(row_of(changed)), tally.responses)

    def _settle_pending(
        self,
        tx: Transaction,
        tally: Tally,
        asked: Asked,
        pending: Sequence[HeldAnswer],
        decision: Decision,
        *,
        by: Principal,
    ) -> None:
        """Record pending answers as responses if they are consistent with the decision, and drop the rest."""
        for held in pending:
            agrees = held.answer.approved is (decision is Decision.APPROVED)
            # A dissenting vote is also recorded if it does not change the decision.
            fits = agrees or (_votes(asked) and _still_settled(tally, held, author(tx, held).name, decision))
            if fits:
                self._join(tx, tally, held, asked.at)
            elif tx[HeldAnswers].remove(held.breakpoint_id, person_id=held.person_id) is not None:
                _lapse(tx, tally, held, code=ENDED, why=f"{by.name} {decision} the breakpoint.", at=asked.at)

    def _join(self, tx: Transaction, tally: Tally, held: HeldAnswer, now: int) -> tuple[Response, Principal] | None:
        """Record a pending answer as a response, or drop it if its author is no longer allowed to answer."""
        # Undoing a batch does not lock the breakpoint, so the reviewer may already have undone this answer.
        if tx[HeldAnswers].remove(held.breakpoint_id, person_id=held.person_id) is None:
            return None
        by = author(tx, held)
        try:
            refuse_from_before_restore(tx, held)
            standing, others = self._standing(tx, tally.breakpoint, by, now)
            if standing.override is not held.override:
                raise other_capacity(by)
        except AssentError as error:
            _lapse(tx, tally, held, code=error.code, why=error.message, at=now)
            return None
        asked = Asked(tally.breakpoint, by, standing, others, now)
        return _record(tx, tally, asked, held.answer, via=held.via), by

    def standing(self, tx: Transaction, breakpoint_id: str, *, by: Principal) -> Standing:
        """Return the capacity in which a person may answer, or raise an error that explains why they may not."""
        return self._asked(tx, breakpoint_id, by).standing

    def _asked(self, tx: Transaction, breakpoint_id: str, by: Principal) -> Asked:
        if not by.may(Permission.OVERRIDE):
            by.require(Permission.DECIDE)
        current = tx[Breakpoints].get(breakpoint_id, project=by.project)
        # Read the clock after locking the row, so that waiting for the lock can make an answer late (ADR 0008).
        now = tx.now()
        standing, others = self._standing(tx, current, by, now)
        return Asked(current, by, standing, others, now)

    def _standing(
        self, tx: Transaction, current: Breakpoint, by: Principal, now: int
    ) -> tuple[Standing, list[Response]]:
        """Determine whether, and in what capacity, the person may answer at the time of this transaction."""
        live, reset_by = tx[People].live_standing(by.id, project=by.project, token_id=by.token_id, now=now)
        # A token can have fewer roles than the person, who may have lost roles since the request was authenticated.
        roles = by.roles & live
        if not roles & {Role.REVIEWER, Role.ADMIN}:
            msg = f"{by.name} no longer has permission to respond in project {by.project}."
            raise Forbidden(msg)
        if current.created_by_id == by.id:
            raise OwnBreakpoint
        others = tx[Breakpoints].responses(current.id) if current.votes else []
        if Role.REVIEWER in roles:
            if not current.seats:
                return Standing(after_reset_by=reset_by), others
            standing = self._seat(tx, current, by.name, others, now)
            if standing is not None:
                return replace(standing, after_reset_by=reset_by), others
        if Role.ADMIN in roles:
            return Standing(override=True, after_reset_by=reset_by), others
        asked = ", ".join(name for seat in current.seats for name in seat.names)
        msg = f"Only {asked} can respond to this breakpoint."
        raise NotEligible(msg)

    def _seat(
        self, tx: Transaction, current: Breakpoint, person: str, others: list[Response], now: int
    ) -> Standing | None:
        names = [name for seat in current.seats for name in seat.names]
        deputies = tx[Routings].deputies(current.id)
        directory = tx[People].directory(current.project, [*names, *(each.name for each in deputies)])
        options = [eligible(seat, directory, deputies) for seat in current.seats]
        if not any(person in allowed for allowed in options):
            return None
        # The new answer replaces an earlier one by the same person, and an override does not need a seat.
        seated = [each.person for each in others if not each.override and each.person != person]
        # People who have since left their group keep their vote.
        kept = [
            allowed | {each.person for each in others if each.seat == seat.name}
            for seat, allowed in zip(current.seats, options, strict=True)
        ]
        places = seating([*seated, person], kept)
        if places is None:
            _check_open(current, now)  # if it is too late, report the decision instead of the seats
            taken = ", ".join(
                seat.name for seat, allowed in zip(current.seats, options, strict=True) if person in allowed
            )
            msg = f"Someone has already answered for {taken}."
            raise SeatTaken(msg)
        seat = current.seats[places[person]]
        sits = {name: current.seats[index] for name, index in places.items()}
        moved = tuple(
            replace(each, seat=new.name, in_place_of=in_place_of(new, each.person, directory, deputies))
            for each in others
            if (new := sits.get(each.person)) and each.person != person and each.seat != new.name
        )
        return Standing(seat, in_place_of(seat, person, directory, deputies), moved=moved)

    def cancel(self, tx: Transaction, breakpoint_id: str, *, by: Principal) -> None:
        """Cancel a breakpoint, as the agent that created it or as an admin."""
        by.require(Permission.CANCEL)
        current = self._visible(tx, breakpoint_id, by)
        if current.created_by_id != by.id and Role.ADMIN not in by.roles:
            msg = "Only the agent that created this breakpoint, or an admin, can cancel it."
            raise Forbidden(msg)
        now = tx.now()
        lapsed, events = lapse_all(tx, current, f"{by.name} cancelled the breakpoint.", at=now)
        changed, event = cancel(lapsed, actor=by.actor, at=now)
        tx[Breakpoints].move(changed, [*events, event], deadline=Deadline.AHEAD, now=now)
        tx.changed(changed)

    def cancel_left(self, tx: Transaction, *, limit: int) -> int:
        """Cancel a batch of pending breakpoints in removed projects; return how many were processed."""
        now = tx.now()
        left = tx[Breakpoints].left_waiting(now, limit=limit)
        for breakpoint_id, project in left:
            current = tx[Breakpoints].get(breakpoint_id, project=project)
            lapsed, events = lapse_all(tx, current, "The project was removed.", at=now)
            changed, event = cancel(lapsed, actor=PROJECT_REMOVED, at=now)
            tx[Breakpoints].move(changed, [*events, event], deadline=Deadline.AHEAD, now=now)
            tx.changed(changed)
        return len(left)

    def expire(self, tx: Transaction, breakpoint_id: str, *, by: Principal) -> None:
        by.require(Permission.EXPIRE)
        current = tx[Breakpoints].get(breakpoint_id, project=by.project)
        now = tx.now()
        lapsed, events = lapse_all(tx, current, f"{by.name} expired the breakpoint.", at=now)
        changed, event = expire(lapsed, actor=by.actor, at=now)
        tx[Breakpoints].move(changed, [*events, event], deadline=Deadline.ANY, now=now)
        tx.changed(changed)

    def time_out(self, tx: Transaction, breakpoint_id: str, *, project: str) -> None:
        """End a breakpoint if its deadline has passed and it is still pending."""
        current = tx[Breakpoints].get(breakpoint_id, project=project)
        now = tx.now()
        if not current.overdue(now):
            return
        lapsed, events = lapse_all(tx, current, "The deadline passed.", at=now)
        changed, event = time_out(lapsed, at=now)
        tx[Breakpoints].move(changed, [*events, event], deadline=Deadline.PASSED, now=now)
        tx.changed(changed)

    def time_out_due(self, tx: Transaction) -> int:
        """End a batch of overdue breakpoints; return how many were ended."""
        due = tx[Breakpoints].due(tx.now(), limit=SWEEP)
        if not due:
            return 0
        now = tx.now()
        # Breakpoints with pending answers are ended individually, because these answers must be dropped.
        pending = tx[HeldAnswers].among([each.id for each in due])
        for each in due:
            if each.id in pending:
                self.time_out(tx, each.id, project=each.project)
        moved = tx[Breakpoints].end_due([time_out(each, at=now) for each in due if each.id not in pending], now=now)
        for changed in moved:
            tx.changed(changed)
        return len(moved) + len(pending)

    def _visible(self, tx: Transaction, breakpoint_id: str, by: Principal) -> Breakpoint:
        """Return a breakpoint; agents can see only their own."""
        current = tx[Breakpoints].get(breakpoint_id, project=by.project)
        if not sees(by, current.created_by_id):
            msg = f"Breakpoint {breakpoint_id} not found in this project."
            raise NotFound(msg)
        return current

    def _done_before(self, tx: Transaction, once: Once | None, by: Principal, current: Breakpoint, now: int) -> bool:
        if once is None:
            return False
        claimed = tx[Idempotency].claim(
            by.id, once.key, fingerprint=once.fingerprint, breakpoint_id=current.id, now=now
        )
        return claimed is not None


def sees(by: Principal, created_by_id: str) -> bool:
    return by.may(Permission.READ) and (by.kind != "agent" or created_by_id == by.id)


def _check_answer(asked: Asked, answer: Answer, if_match: int | None) -> None:
    current = asked.breakpoint
    # First check whether the breakpoint has ended, because ending it also changes the version.
    _check_open(current, asked.at)
    if answer.digest is not None and answer.digest != current.digest:
        raise DigestMismatch(shown=answer.digest, stored=current.digest)
    if if_match is not None and if_match != current.version:
        raise PreconditionFailed(version=current.version)
    Terms.of(current.gate, current.payload).check(answer)


def _check_rejection_pending(tx: Transaction, asked: Asked, answer: Answer) -> None:
    """Refuse an approval that would decide the breakpoint on its own while another reviewer's rejection is pending."""
    if not answer.approved or _votes(asked):
        return
    for held in tx[HeldAnswers].on(asked.breakpoint.id):
        # A backup was restored after this rejection was submitted, so the rejection will not take effect.
        if held.created_at <= tx[Epochs].last():
            continue
        if held.person_id != asked.by.id and not held.answer.approved:
            name, seconds = author(tx, held).name, max(1, -(-(held.due_at - asked.at) // SECOND))
            msg = f"{name} is rejecting this. The rejection takes effect in {seconds} s unless {name} undoes it."
            raise RejectionPending(msg, by=name, dueAt=iso(held.due_at))


def refuse_from_before_restore(tx: Transaction, held: HeldAnswer) -> None:
    """Raise if a backup was restored after the answer was submitted, because the answer is then void."""
    if held.created_at <= tx[Epochs].last():
        msg = "A backup has been restored since this answer was submitted. Submit your answer again."
        raise Forbidden(msg)


def _votes(asked: Asked) -> bool:
    """Return whether the answer is one of several votes, and not a decision on its own."""
    return asked.breakpoint.strategy in NEEDS_EXPERTS and not asked.standing.override


def _check_ticket(tx: Transaction, asked: Asked, answer: Answer) -> None:
    """Refuse an approval if one of the breakpoint's tags requires a ticket and the ticket does not exist yet."""
    current = asked.breakpoint
    if not answer.approved or not needs_ticket(tx, current) or tx[Deliveries].has_ticket(current.id):
        return
    msg = "A tag on this breakpoint requires a Jira ticket for approval. Wait until the ticket exists, or reject."
    raise TicketRequired(msg)


def needs_ticket(tx: Transaction, asked: Breakpoint) -> bool:
    """Return whether the project requires a ticket for one of the breakpoint's tags."""
    if not asked.tags:
        return False
    tags = tx[Projects].get(asked.project).policy.get("ticketTags") or ()
    # Tags that merely look the same also match; otherwise, an agent could evade the requirement.
    wanted = frozenset(reading for tag in tags for reading in readings(tag))
    return any(is_spelled_like(tag, wanted) for tag in asked.tags)


def _check_open(current: Breakpoint, now: int) -> None:
    standing = timed_out(current, now)
    if standing.status is not Status.WAITING:
        raise ended(standing)


def _response(answer: Answer, standing: Standing, by: Principal, via: str, now: int) -> Response:
    return Response(
        person=by.name,
        approved=answer.approved,
        at=now,
        via=via,
        comment=answer.comment or None,
        option=answer.option,
        answers=answer.answers,
        edits=answer.edits,
        seat=standing.seat.name if standing.seat else None,
        in_place_of=standing.in_place_of,
        override=standing.override,
        digest=answer.digest,
        after_reset_by=standing.after_reset_by,
    )


def _responded(response: Response, standing: Standing, digest: str) -> dict[str, Any]:
    metadata = {
        "approved": response.approved,
        "via": response.via,
        "digest": digest,
        "shownDigest": response.digest,
        "comment": response.comment,
        "option": response.option,
        "answers": response.answers,
        "edits": response.edits,
        "expert": response.seat,
        "inPlaceOf": list(response.in_place_of) or None,
        "override": response.override or None,
        "afterResetBy": response.after_reset_by,
        "moved": [
            {"person": each.person, "expert": each.seat, "inPlaceOf": list(each.in_place_of)} for each in standing.moved
        ]
        or None,
    }
    return {name: value for name, value in metadata.items() if value is not None}


def _with(others: list[Response], response: Response) -> list[Response]:
    """Return the current responses, one per person, in the order of each person's first answer."""
    replaced = [response if each.person == response.person else each for each in others]
    return replaced if any(each is response for each in replaced) else [*others, response]


def _settled(tally: Tally, response: Response) -> Decision | None:
    if response.override:
        return Decision.APPROVED if response.approved else Decision.REJECTED
    return _verdict(tally.breakpoint, tally.responses)


def _still_settled(tally: Tally, held: HeldAnswer, name: str, decision: Decision) -> bool:
    """Return whether the decision stays the same if a pending vote is added."""
    vote = Response(person=name, approved=held.answer.approved, at=held.created_at, via=held.via)
    return _verdict(tally.breakpoint, _with(tally.responses, vote)) is decision


def _verdict(current: Breakpoint, responses: list[Response]) -> Decision | None:
    votes = [Vote(each.person, each.approved, each.after_reset_by) for each in responses if not each.override]
    return verdict(current.strategy, votes, len(current.seats))


def _record(tx: Transaction, tally: Tally, asked: Asked, answer: Answer, *, via: str) -> Response:
    """Write a response, its event and its comment. The database refuses responses once the breakpoint has ended."""
    current, by, standing, now = tally.breakpoint, asked.by, asked.standing, asked.at
    response = _response(answer, standing, by, via, now)
    metadata = _responded(response, standing, current.digest)
    changed, event = advance(current, Action.RESPOND, actor=by.actor, at=now, metadata=metadata)
    is_new = all(each.person != by.name for each in tally.responses)
    said = response.comment is not None
    tally.breakpoint = changed.but(votes=current.votes + is_new, comments=current.comments + said)
    tally.events.append(event)
    for moved in standing.moved:
        tally.responses = _with(tally.responses, moved)
    tally.responses = _with(tally.responses, response)
    tx[Breakpoints].put_response(current.id, response, person_id=by.id)
    for moved in standing.moved:
        tx[Breakpoints].reseat(current.id, moved)
    if response.comment is not None:
        tx[Breakpoints].add_comment(tx.new_id("fb"), current.id, author=by.actor, comment=response.comment, at=now)
    return response


def _lapse(tx: Transaction, tally: Tally, held: HeldAnswer, *, code: str, why: str, at: int) -> None:
    tally.breakpoint, events = lapse(tx, tally.breakpoint, held, code=code, why=why, at=at)
    tally.events += events


def other_capacity(by: Principal) -> Forbidden:
    return Forbidden(
        f"{by.name}'s permissions have changed since this answer was submitted. Review the breakpoint and answer again."
    )
