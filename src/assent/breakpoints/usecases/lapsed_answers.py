"""Drops pending answers that cannot take effect: records them, keeps their comments and notifies their authors."""

from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.store.undo_window import HeldAnswers
from assent.breakpoints.store.unsent_answers import UnsentAnswers
from assent.breakpoints.undo_window import HeldAnswer, UnsentAnswer
from assent.core.access import UNDO, Actor, Kind, Principal
from assent.core.breakpoint import Action, Breakpoint, Event, advance
from assent.db.transaction import Transaction
from assent.people.store.people import People

ENDED = "already_ended"


def lapse_all(tx: Transaction, current: Breakpoint, why: str, *, at: int) -> tuple[Breakpoint, list[Event]]:
    """Drop every pending answer to a breakpoint that is about to end."""
    events: list[Event] = []
    for held in tx[HeldAnswers].on(current.id):
        # Undoing a batch does not lock the breakpoint, so the reviewer may already have undone this answer.
        if tx[HeldAnswers].remove(current.id, person_id=held.person_id) is not None:
            current, more = lapse(tx, current, held, code=ENDED, why=why, at=at)
            events += more
    return current, events


def lapse(
    tx: Transaction, current: Breakpoint, held: HeldAnswer, *, code: str, why: str, at: int
) -> tuple[Breakpoint, list[Event]]:
    """Record that a pending answer did not take effect, keep its comment, and leave a notice for its author."""
    name, answer = author(tx, held).name, held.answer
    metadata = {"person": name, "approved": answer.approved, "code": code, "why": why}
    changed, dropped = advance(current, Action.DROP_ANSWER, actor=UNDO, at=at, metadata=metadata)
    events = [dropped]
    # The answer does not count, but the agent and the other reviewers can still read its comment.
    if answer.comment:
        actor = Actor(Kind.PERSON, name)
        changed, said = advance(changed, Action.COMMENT, actor=actor, at=at, metadata={"comment": answer.comment})
        changed = changed.but(comments=changed.comments + 1)
        tx[Breakpoints].add_comment(tx.new_id("fb"), current.id, author=actor, comment=answer.comment, at=at)
        events.append(said)
    notify(tx, held, why=why, at=at)
    return changed, events


def notify(tx: Transaction, held: HeldAnswer, *, why: str, at: int) -> None:
    """Leave a notice for the author of an answer that did not take effect."""
    unsent = UnsentAnswer(
        id=tx.new_id("ua"),
        breakpoint_id=held.breakpoint_id,
        person_id=held.person_id,
        project=held.project,
        approved=held.answer.approved,
        comment=held.answer.comment,
        why=why,
        at=at,
    )
    tx[UnsentAnswers].add(unsent)


def author(tx: Transaction, held: HeldAnswer) -> Principal:
    """Return the person who submitted the answer, with their current roles. Closed accounts do not have roles."""
    person = tx[People].find(held.person_id)
    assert person is not None, "people are never removed"
    roles = tx[People].live_roles(person.id, project=held.project, token_id=None, now=tx.now())
    return Principal(kind=Kind.PERSON, id=person.id, name=person.name, project=held.project, roles=roles)
