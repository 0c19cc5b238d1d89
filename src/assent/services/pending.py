"""Pending answers that did not take effect: the history names them, their comments stay, and authors get a notice."""

from assent.domain.access import UNDO, Actor, Kind, Principal
from assent.domain.breakpoint import Action, Breakpoint, Event, advance
from assent.domain.holding import HeldAnswer, UnsentAnswer
from assent.store.transaction import Transaction

ENDED = "already_ended"


def lapse_all(tx: Transaction, current: Breakpoint, why: str, *, at: int) -> tuple[Breakpoint, list[Event]]:
    """Lapse every pending answer to a breakpoint that is about to end."""
    events: list[Event] = []
    for held in tx.held_answers.on(current.id):
        # Undoing a batch takes no lock on the breakpoint, so the reviewer may have removed it already.
        if tx.held_answers.remove(current.id, person_id=held.person_id) is not None:
            current, more = lapse(tx, current, held, code=ENDED, why=why, at=at)
            events += more
    return current, events


def lapse(
    tx: Transaction, current: Breakpoint, held: HeldAnswer, *, code: str, why: str, at: int
) -> tuple[Breakpoint, list[Event]]:
    """Record that a pending answer did not take effect, keep its comment, and leave its person a notice."""
    name, answer = author(tx, held).name, held.answer
    metadata = {"person": name, "approved": answer.approved, "code": code, "why": why}
    changed, dropped = advance(current, Action.DROP_ANSWER, actor=UNDO, at=at, metadata=metadata)
    events = [dropped]
    if answer.comment:
        actor = Actor(Kind.PERSON, name)
        changed, said = advance(changed, Action.COMMENT, actor=actor, at=at, metadata={"comment": answer.comment})
        changed = changed.but(comments=changed.comments + 1)
        tx.breakpoints.add_comment(tx.new_id("fb"), current.id, author=actor, comment=answer.comment, at=at)
        events.append(said)
    notify(tx, held, why=why, at=at)
    return changed, events


def notify(tx: Transaction, held: HeldAnswer, *, why: str, at: int) -> None:
    """Leave a person a notice that their answer did not take effect."""
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
    tx.unsent_answers.add(unsent)


def author(tx: Transaction, held: HeldAnswer) -> Principal:
    """Return the person who submitted the answer, with their current roles; a closed account has none."""
    person = tx.people.find(held.person_id)
    assert person is not None, "people are never removed"
    roles = tx.people.live_roles(person.id, project=held.project, token_id=None, now=tx.now())
    return Principal(kind=Kind.PERSON, id=person.id, name=person.name, project=held.project, roles=roles)
