"""The undo window: answers given on a page wait here, can be taken back, and are given when they are due."""

from collections.abc import Mapping, Sequence

import structlog

from assent.domain.access import UNDO, Kind, Principal
from assent.domain.breakpoint import Action, Status, advance, ended, timed_out
from assent.domain.errors import AnswerStands, AssentError, Conflict, DigestMismatch, Forbidden, InvalidRequest
from assent.domain.holding import HeldAnswer, window_end
from assent.domain.terms import Answer
from assent.services.breakpoints import Asked, BreakpointService
from assent.store.breakpoints import Deadline
from assent.store.held_answers import Held, Key
from assent.store.transaction import Transaction

REFUSALS = (Forbidden, Conflict, InvalidRequest, DigestMismatch)
"""What keeps an answer from being given for good; anything else is tried again."""
GIVE_BATCH = 1
"""Each is given in a transaction of its own: one that cannot be written holds up none of the others."""
_FIRST = Key()
_log = structlog.get_logger()


class HoldingService:
    def __init__(self, breakpoints: BreakpointService, seconds: int) -> None:
        self._breakpoints = breakpoints
        self.seconds = seconds
        self._last = _FIRST

    def hold(  # what a response is made of
        self,
        tx: Transaction,
        breakpoint_id: str,
        answer: Answer,
        *,
        by: Principal,
        via: str,
        batch: str | None = None,
    ) -> Held | None:
        """Check an answer and keep it until its window ends; None if there is no window and it was given at once."""
        asked = self._breakpoints.check(tx, breakpoint_id, answer, by=by)
        due_at = window_end(asked.at, seconds=self.seconds, deadline=asked.breakpoint.due_at)
        if due_at is None:
            tx.held_answers.remove(breakpoint_id, person_id=by.id)
            self._breakpoints.give(tx, asked, answer, via=via)
            return None
        held = HeldAnswer(
            breakpoint_id=breakpoint_id,
            person_id=by.id,
            project=by.project,
            answer=answer,
            override=asked.standing.override,
            via=via,
            batch=batch,
            due_at=due_at,
            created_at=asked.at,
        )
        tx.held_answers.put(held)
        tx.changed(asked.breakpoint, quietly=True)
        return Held(breakpoint_id, answer.approved, batch, due_at)

    def take_back(self, tx: Transaction, breakpoint_id: str, *, by: Principal) -> Answer | None:
        """Return the answer that was taken back, or None if there was none; raise if it was given already."""
        current = tx.breakpoints.get(breakpoint_id, project=by.project)
        taken = tx.held_answers.remove(breakpoint_id, person_id=by.id)
        if taken is not None:
            tx.changed(current, quietly=True)
            return taken.answer
        standing = timed_out(current, tx.now())
        if standing.status is not Status.WAITING:
            raise ended(standing)
        if any(each.person == by.name for each in tx.breakpoints.responses(breakpoint_id)):
            msg = "Your answer was given; as long as it waits, you can change it."
            raise AnswerStands(msg)
        return None

    def take_back_batch(self, tx: Transaction, batch: str, *, by: Principal) -> list[str]:
        """Return the breakpoints whose answers were taken back; raise if all of them were given already."""
        taken = tx.held_answers.remove_batch(batch, person_id=by.id, project=by.project)
        if not taken:
            msg = "These answers were given, or taken back; there is nothing left to take back."
            raise AnswerStands(msg)
        for each in taken:
            tx.changed(tx.breakpoints.look(each.breakpoint_id, project=by.project), quietly=True)
        return sorted(each.breakpoint_id for each in taken)

    def held_for(self, tx: Transaction, breakpoint_ids: Sequence[str], *, person_id: str) -> Mapping[str, Held]:
        """Return what this person can still take back; nobody else is shown it."""
        return tx.held_answers.held(breakpoint_ids, person_id=person_id)

    def held_together(self, tx: Transaction, batch: str, *, by: Principal) -> list[Held]:
        """Return what of a batch its person can still take back."""
        return tx.held_answers.of_batch(batch, person_id=by.id, project=by.project)

    def commit_due(self, tx: Transaction) -> int:
        """Give the next answer whose window has ended, as its person stands now; return how many there were."""
        now = tx.now()
        # On from the last one, whatever became of it: one that fails comes back when the others had their turn.
        key = tx.held_answers.find_due(now, after=self._last) or tx.held_answers.find_due(now, after=_FIRST)
        self._last = key or _FIRST
        held = tx.held_answers.take_due(key, now=now) if key is not None else None
        if held is None:
            return int(key is not None)
        by = _person(tx, held, now)
        try:
            asked = self._still(tx, held, by)
        except REFUSALS as error:
            _drop(tx, held, by, error)
        else:
            self._breakpoints.give(tx, asked, held.answer, via=held.via)
        return 1

    def _still(self, tx: Transaction, held: HeldAnswer, by: Principal) -> Asked:
        """Check all that was checked before once more; nothing has been written yet."""
        asked = self._breakpoints.check(tx, held.breakpoint_id, held.answer, by=by)
        if asked.standing.override is not held.override:
            msg = f"{by.name} answers in another capacity than they did."
            raise Forbidden(msg)
        if any(each.person == by.name and each.at >= held.created_at for each in asked.others):
            msg = f"{by.name} has answered elsewhere since."
            raise AnswerStands(msg)
        return asked


def _person(tx: Transaction, held: HeldAnswer, now: int) -> Principal:
    """Who answers, with the roles they have now; closed accounts have none."""
    person = tx.people.find(held.person_id)
    assert person is not None, "people are never removed"
    roles = tx.people.live_roles(person.id, project=held.project, token_id=None, now=now)
    return Principal(kind=Kind.PERSON, id=person.id, name=person.name, project=held.project, roles=roles)


def _drop(tx: Transaction, held: HeldAnswer, by: Principal, error: AssentError) -> None:
    """Let an answer go that may not be given, and say so; what it was stays between its person and us."""
    _log.warning("held_answer_dropped", breakpoint=held.breakpoint_id, person=by.name, code=error.code)
    now = tx.now()
    current = tx.breakpoints.get(held.breakpoint_id, project=held.project)
    if timed_out(current, now).status is not Status.WAITING:
        return
    metadata = {"person": by.name, "code": error.code, "why": error.message}
    changed, event = advance(current, Action.DROP_ANSWER, actor=UNDO, at=now, metadata=metadata)
    tx.breakpoints.move(changed, [event], deadline=Deadline.AHEAD, now=now)
    tx.changed(changed, quietly=True)
