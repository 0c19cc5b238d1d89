"""The undo window: answers submitted on a page are held, can be undone, and take effect when they are due."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from assent.breakpoints.store.breakpoints import Breakpoints, Deadline
from assent.breakpoints.store.undo_window import Held, HeldAnswers, Key
from assent.breakpoints.store.unsent_answers import UnsentAnswers
from assent.breakpoints.undo_window import HeldAnswer, UnsentAnswer, window_end
from assent.breakpoints.usecases.lapsed_answers import author, lapse, notify
from assent.breakpoints.usecases.lifecycle import Asked, BreakpointService, other_capacity, refuse_from_before_restore
from assent.core.access import Principal
from assent.core.breakpoint import Status, ended, timed_out
from assent.core.errors import AnswerStands, AssentError, Conflict, DigestMismatch, Forbidden, InvalidRequest
from assent.core.terms import Answer
from assent.db.transaction import Transaction

REFUSALS = (Forbidden, Conflict, InvalidRequest, DigestMismatch)
"""Errors after which an answer is dropped; after any other error, the answer is retried."""
GIVE_BATCH = 1
"""Each answer gets its own transaction, so that a failure does not delay other answers."""
MAX_UNSENT = 20
"""Maximum number of notices on a page; more are shown once some are dismissed."""
_FIRST = Key()
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Undone:
    """The result of undoing a batch. All answers in a batch have the same comment."""

    breakpoint_ids: list[str]
    comment: str | None


class HoldingService:
    def __init__(self, breakpoints: BreakpointService, seconds: int) -> None:
        self._breakpoints = breakpoints
        self.seconds = seconds
        self._last = _FIRST

    def hold(
        self,
        tx: Transaction,
        breakpoint_id: str,
        answer: Answer,
        *,
        by: Principal,
        via: str,
        batch: str | None = None,
    ) -> Held | None:
        """Check an answer and keep it until its window ends; return None if it took effect immediately."""
        asked = self._breakpoints.check(tx, breakpoint_id, answer, by=by)
        due_at = window_end(asked.at, seconds=self.seconds, deadline=asked.breakpoint.due_at)
        # If there is no time for a window, or a rejection must stop a pending approval, the answer takes effect
        # immediately.
        if due_at is None or (not answer.approved and _approval_pending(tx, asked)):
            # The new answer silently replaces the person's pending answer; `give` would leave them a notice.
            tx[HeldAnswers].remove(breakpoint_id, person_id=by.id)
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
        tx[HeldAnswers].put(held)
        # Refresh open inboxes without waking the agent, which must not notice a pending answer.
        tx.changed(asked.breakpoint, quietly=True)
        return Held(breakpoint_id, answer.approved, batch, due_at)

    def take_back(self, tx: Transaction, breakpoint_id: str, *, by: Principal) -> Answer | None:
        """Undo and return a pending answer, or None if nothing is pending; raise if it has already taken effect."""
        # Lock the breakpoint, so that the answer cannot take effect at the same time.
        current = tx[Breakpoints].get(breakpoint_id, project=by.project)
        taken = tx[HeldAnswers].remove(breakpoint_id, person_id=by.id)
        if taken is not None:
            tx.changed(current, quietly=True)
            return taken.answer
        standing = timed_out(current, tx.now())
        if standing.status is not Status.WAITING:
            raise ended(standing)
        if any(each.person == by.name for each in tx[Breakpoints].responses(breakpoint_id)):
            msg = "Your answer has taken effect. You can still change it until a decision is reached."
            raise AnswerStands(msg)
        return None

    def take_back_batch(self, tx: Transaction, batch: str, *, by: Principal) -> Undone:
        """Undo the pending answers in a batch; raise if none are pending."""
        taken = tx[HeldAnswers].remove_batch(batch, person_id=by.id, project=by.project)
        if not taken:
            msg = "Nothing to undo: these answers have already taken effect or been undone."
            raise AnswerStands(msg)
        for each in taken:
            tx.changed(tx[Breakpoints].look(each.breakpoint_id, project=by.project), quietly=True)
        return Undone(sorted(each.breakpoint_id for each in taken), taken[0].answer.comment)

    def held_for(self, tx: Transaction, breakpoint_ids: Sequence[str], *, person_id: str) -> Mapping[str, Held]:
        """Return the answers that this person can still undo."""
        return tx[HeldAnswers].held(breakpoint_ids, person_id=person_id)

    def held_together(self, tx: Transaction, batch: str, *, by: Principal) -> list[Held]:
        """Return the answers in a batch that the caller can still undo."""
        return tx[HeldAnswers].of_batch(batch, person_id=by.id, project=by.project)

    def refuse(self, tx: Transaction, breakpoint_id: str, answer: Answer, *, by: Principal, why: str) -> None:
        """Leave a notice that one of the caller's answers in a batch was refused."""
        now = tx.now()
        unsent = UnsentAnswer(
            id=tx.new_id("ua"),
            breakpoint_id=breakpoint_id,
            person_id=by.id,
            project=by.project,
            approved=answer.approved,
            comment=answer.comment,
            why=why,
            at=now,
        )
        tx[UnsentAnswers].add(unsent)

    def unsent(self, tx: Transaction, *, by: Principal) -> list[UnsentAnswer]:
        """Return the notices about the caller's unsent answers that have not been dismissed.

        Notices from other projects are included, because a person who lost a role, or whose project was removed, cannot
        see them anywhere else.
        """
        return tx[UnsentAnswers].of(by.id, limit=MAX_UNSENT)

    def dismiss(self, tx: Transaction, unsent_id: str, *, by: Principal) -> None:
        """Remove a notice from the caller's pages; do nothing if it does not exist."""
        tx[UnsentAnswers].dismiss(unsent_id, person_id=by.id)

    def commit_due(self, tx: Transaction) -> int:
        """Apply the next answer whose window has ended; return how many answers were due."""
        now = tx.now()
        # Continue after the last answer, even if it failed, so that it is retried only after all other answers.
        key = tx[HeldAnswers].find_due(now, after=self._last) or tx[HeldAnswers].find_due(now, after=_FIRST)
        self._last = key or _FIRST
        held = tx[HeldAnswers].take_due(key, now=now) if key is not None else None
        if held is None:
            return int(key is not None)
        by = author(tx, held)
        try:
            asked = self._still(tx, held, by)
        except REFUSALS as error:
            self._drop(tx, held, by, error)
        else:
            self._breakpoints.give(tx, asked, held.answer, via=held.via)
        return 1

    def _still(self, tx: Transaction, held: HeldAnswer, by: Principal) -> Asked:
        """Repeat every check, because the breakpoint and the person's roles may have changed."""
        refuse_from_before_restore(tx, held)
        asked = self._breakpoints.check(tx, held.breakpoint_id, held.answer, by=by)
        if asked.standing.override is not held.override:
            raise other_capacity(by)
        # A later answer, for example through the API, takes precedence.
        if any(each.person == by.name and each.at >= held.created_at for each in asked.others):
            msg = f"{by.name} submitted another answer."
            raise AnswerStands(msg)
        return asked

    def _drop(self, tx: Transaction, held: HeldAnswer, by: Principal, error: AssentError) -> None:
        """Drop an answer that may no longer take effect."""
        _log.warning("held_answer_dropped", breakpoint=held.breakpoint_id, person=by.name, code=error.code)
        now = tx.now()
        current = tx[Breakpoints].get(held.breakpoint_id, project=held.project)
        if current.overdue(now):
            # Put the answer back, so that `time_out` ends the breakpoint and drops all pending answers together.
            tx[HeldAnswers].put(held)
            self._breakpoints.time_out(tx, held.breakpoint_id, project=held.project)
        elif current.status is not Status.WAITING:
            notify(tx, held, why=error.message, at=now)
            tx.changed(current, quietly=True)
        else:
            changed, events = lapse(tx, current, held, code=error.code, why=error.message, at=now)
            tx[Breakpoints].move(changed, events, deadline=Deadline.AHEAD, now=now)
            # The answer's comment wakes the agent, like any other comment.
            tx.changed(changed, quietly=not held.answer.comment)


def _approval_pending(tx: Transaction, asked: Asked) -> bool:
    """Return whether another reviewer's approval is pending, so that a rejection takes effect immediately."""
    pending = tx[HeldAnswers].on(asked.breakpoint.id)
    return any(each.answer.approved and each.person_id != asked.by.id for each in pending)
