"""Breakpoints: their states, the table of transitions, and the functions that apply them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, Self, TypeVar

from assent.core.access import TIMEOUT, Actor, Kind
from assent.core.canonical import GENESIS, Json, link, terms_digest
from assent.core.errors import AlreadyEnded
from assent.core.seats import Seat
from assent.core.strategies import Decision
from assent.core.timestamps import iso

NEVER = 2**62
"""The due time of a breakpoint without a deadline. It sorts last, is never reached, and fits into 64 bits."""


class Status(StrEnum):
    WAITING = "waiting"
    RELEASED = "released"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Action(StrEnum):
    COMMENT = "comment"
    CLAIM = "claim"
    UNCLAIM = "unclaim"
    ASSIGN = "assign"
    DROP_ANSWER = "drop-answer"
    REMIND = "remind"
    ESCALATE = "escalate"
    DELEGATE = "delegate"
    RESPOND = "respond"
    RELEASE = "release"
    EXPIRE = "expire"
    CANCEL = "cancel"


# All other combinations of a status and an action raise AlreadyEnded.
TRANSITIONS: dict[tuple[Status, Action], Status] = {
    (Status.WAITING, Action.COMMENT): Status.WAITING,
    (Status.WAITING, Action.CLAIM): Status.WAITING,
    (Status.WAITING, Action.UNCLAIM): Status.WAITING,
    (Status.WAITING, Action.ASSIGN): Status.WAITING,
    (Status.WAITING, Action.DROP_ANSWER): Status.WAITING,
    (Status.WAITING, Action.REMIND): Status.WAITING,
    (Status.WAITING, Action.ESCALATE): Status.WAITING,
    (Status.WAITING, Action.DELEGATE): Status.WAITING,
    (Status.WAITING, Action.RESPOND): Status.WAITING,
    (Status.WAITING, Action.RELEASE): Status.RELEASED,
    (Status.WAITING, Action.EXPIRE): Status.EXPIRED,
    (Status.WAITING, Action.CANCEL): Status.CANCELLED,
}
TERMINAL = frozenset(Status) - {Status.WAITING}
EVENT_OF = {
    Action.COMMENT: "commented",
    Action.CLAIM: "claimed",
    Action.UNCLAIM: "unclaimed",
    Action.ASSIGN: "assigned",
    Action.DROP_ANSWER: "answer-dropped",
    Action.REMIND: "reminded",
    Action.ESCALATE: "escalated",
    Action.DELEGATE: "delegated",
    Action.RESPOND: "responded",
    Action.RELEASE: "released",
    Action.EXPIRE: "expired",
    Action.CANCEL: "cancelled",
}


@dataclass(frozen=True, kw_only=True)
class Outline:
    """The fields that a transition reads and changes; a sweep that ends thousands of breakpoints loads only these."""

    id: str
    project: str
    on_timeout: str
    callback_url: str | None
    digest: str
    created_at: int
    due_at: int
    # The following fields change after creation.
    status: Status = Status.WAITING
    decision: Decision | None = None
    updated_at: int = 0
    ended_at: int | None = None
    ended_by: Actor | None = None
    result: Mapping[str, Json] | None = None
    version: int = 0
    head: str = GENESIS

    def but(self, **changes: object) -> Self:
        """Return a copy with some fields changed, like dataclasses.replace, which is far slower for so many fields."""
        # Skips __init__, which would assign every field again.
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, **changes)
        return copy

    def overdue(self, at: int) -> bool:
        return self.status is Status.WAITING and at >= self.due_at


@dataclass(frozen=True, kw_only=True)
class Breakpoint(Outline):
    """A breakpoint. Its digest covers the content that reviewers see."""

    agent_id: str
    run_id: str | None
    title: str | None
    gate: str
    payload: Mapping[str, Json]
    tags: tuple[str, ...]
    seats: tuple[Seat, ...]
    strategy: str
    risk: str | None
    priority: str
    ttl_seconds: int | None
    created_by: Actor
    created_by_id: str
    auto_approval: Mapping[str, Json]
    warnings: tuple[str, ...]
    agent_id_claimed: bool = False
    """True if the agent ID is unverified, because the agent's token is not limited to certain agent IDs."""
    # The following fields change after creation.
    comments: int = 0
    votes: int = 0


Moved = TypeVar("Moved", bound=Outline)


@dataclass(frozen=True, slots=True)
class Event:
    """A recorded event. `seq` starts at 1 for each breakpoint and equals the version that the event produced."""

    breakpoint_id: str
    seq: int
    type: str
    actor: Actor
    at: int
    metadata: Mapping[str, Json]
    previous: str
    hash: str


@dataclass(frozen=True, slots=True)
class Response:
    """A person's answer. Until the decision, a later answer by the same person replaces it."""

    person: str
    approved: bool
    at: int
    via: str
    comment: str | None = None
    option: str | None = None
    answers: Mapping[str, Json] | None = None
    edits: Mapping[str, Json] | None = None
    seat: str | None = None
    in_place_of: tuple[str, ...] = ()
    override: bool = False
    digest: str | None = None
    after_reset_by: str | None = None
    """Admins who had reset this person's access, if that access was still unconfirmed when the person answered."""


def record(
    current: Moved, kind: str, *, actor: Actor, at: int, metadata: Mapping[str, Json] | None = None
) -> tuple[Moved, Event]:
    """Append one event to the chain of a breakpoint; return the changed breakpoint and the event."""
    event = next_event(current, kind, actor=actor, at=at, metadata=metadata)
    return current.but(version=event.seq, head=event.hash, updated_at=at), event


class Chained(Protocol):
    """An object with a chain of events. `head` is the hash of the last event."""

    @property
    def id(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def head(self) -> str: ...


def next_event(on: Chained, kind: str, *, actor: Actor, at: int, metadata: Mapping[str, Json] | None = None) -> Event:
    seq = on.version + 1
    body = event_body(on.id, seq, kind, actor, at) | {"metadata": metadata or {}}
    return Event(on.id, seq, kind, actor, at, metadata or {}, on.head, link(on.head, body))


def event_body(breakpoint_id: str, seq: int, kind: str, actor: Actor, at: int) -> dict[str, Json]:
    """Return the fields that an event's hash covers, apart from its metadata."""
    return {"breakpointId": breakpoint_id, "seq": seq, "type": kind, "actor": str(actor), "at": at}


def terms_of(made: Breakpoint) -> str:
    """Return the digest of the non-content fields that are fixed at creation, such as the seats and the deadline."""
    return terms_digest(
        {
            "attempt": made.payload.get("attempt"),
            "callbackUrl": made.callback_url,
            "createdById": made.created_by_id,
            # The audit format represents a missing deadline as null, not as the internal value.
            "dueAt": made.due_at if made.due_at != NEVER else None,
            "onTimeout": made.on_timeout,
            "priority": made.priority,
            "risk": made.risk,
            "seats": [[seat.name, list(seat.stands_in_for), seat.added] for seat in made.seats],
            "strategy": made.strategy,
            "ttlSeconds": made.ttl_seconds,
        }
    )


def advance(
    current: Moved, action: Action, *, actor: Actor, at: int, metadata: Mapping[str, Json] | None = None
) -> tuple[Moved, Event]:
    """Return the changed breakpoint and the event to record, or raise AlreadyEnded if it is not waiting."""
    target = TRANSITIONS.get((current.status, action))
    if target is None:
        raise ended(current)
    changed, event = record(current, EVENT_OF[action], actor=actor, at=at, metadata=metadata)
    if target is Status.WAITING:
        return changed, event
    return changed.but(status=target, ended_at=at, ended_by=actor), event


def release(
    current: Moved,
    decision: Decision,
    *,
    actor: Actor,
    at: int,
    result: Mapping[str, Json],
    why: Mapping[str, Json] | None = None,
) -> tuple[Moved, Event]:
    """Return the released breakpoint and the event, whose metadata includes `why`."""
    metadata: dict[str, Json] = {"decision": decision.value, "digest": current.digest, **(why or {})}
    changed, event = advance(current, Action.RELEASE, actor=actor, at=at, metadata=metadata)
    return changed.but(decision=decision, result=result), event


def approve_by_rule(
    current: Moved, rule: str, *, at: int, why: Mapping[str, Json] | None = None
) -> tuple[Moved, Event]:
    """Release a breakpoint that a rule approves without asking a person."""
    actor = Actor(Kind.RULE, rule)
    return release(current, Decision.APPROVED, actor=actor, at=at, result=answered_by_rule(actor), why=why)


def answered_by_rule(actor: Actor) -> dict[str, Json]:
    return {
        "approved": True,
        "status": Status.RELEASED.value,
        "decision": Decision.APPROVED.value,
        "response": Decision.APPROVED.value,
        "respondedBy": str(actor),
        "via": Kind.RULE.value,
        "auto": True,
        "allResponses": [],
    }


def time_out(current: Moved, *, at: int, actor: Actor = TIMEOUT) -> tuple[Moved, Event]:
    """End a breakpoint at its deadline as specified by its `on_timeout`; a timeout never approves."""
    if current.on_timeout == "reject":
        result = unanswered(Status.RELEASED) | {"decision": Decision.REJECTED.value, "respondedBy": str(actor)}
        return release(current, Decision.REJECTED, actor=actor, at=at, result=result)
    return _end_unanswered(current, Action.EXPIRE, actor=actor, at=at)


def timed_out(current: Moved, at: int) -> Moved:
    """Return the breakpoint as of this time: ended if it is overdue, even if the timeout has not been recorded yet."""
    # It ended at the deadline, not when it happened to be read.
    return time_out(current, at=current.due_at)[0] if current.overdue(at) else current


def expire(current: Moved, *, actor: Actor, at: int) -> tuple[Moved, Event]:
    return _end_unanswered(current, Action.EXPIRE, actor=actor, at=at)


def cancel(current: Moved, *, actor: Actor, at: int) -> tuple[Moved, Event]:
    return _end_unanswered(current, Action.CANCEL, actor=actor, at=at)


def _end_unanswered(current: Moved, action: Action, *, actor: Actor, at: int) -> tuple[Moved, Event]:
    changed, event = advance(current, action, actor=actor, at=at)
    return changed.but(result=unanswered(changed.status)), event


def unanswered(status: Status) -> dict[str, Json]:
    return {"approved": False, "status": status.value, "auto": False}


def ended(current: Outline) -> AlreadyEnded:
    """Return the error with the existing outcome, so that a late reviewer learns who decided first."""
    what = current.decision or current.status
    msg = f"This has already been {what} by {current.ended_by}. Nothing was changed."
    standing = {
        "status": current.status.value,
        "decision": current.decision.value if current.decision else None,
        "by": str(current.ended_by),
        # If the end time is unknown, use the time of the last change.
        "at": iso(current.ended_at or current.updated_at),
    }
    return AlreadyEnded(msg, standing=standing)


def answered(decision: Decision, responses: Sequence[Response], *, last: Response) -> dict[str, Any]:
    """Return the BreakpointResult for the agent."""
    result: dict[str, Any] = {
        "approved": decision is Decision.APPROVED,
        "status": Status.RELEASED.value,
        "decision": decision.value,
        "response": last.comment or last.option or decision.value,
        "respondedBy": last.person,
        "via": last.via,
        "auto": False,
        "allResponses": [response_body(each) for each in responses],
    }
    optional = {
        "feedback": _feedback(responses),
        "option": last.option,
        "answers": last.answers,
        "edits": last.edits,
    }
    return result | {key: value for key, value in optional.items() if value is not None}


def _feedback(responses: Sequence[Response]) -> str | None:
    said = [(each.person, each.comment) for each in responses if each.comment]
    if len(said) > 1:
        return "\n\n".join(f"{person}: {comment}" for person, comment in said)
    return said[0][1] if said else None


def response_body(response: Response) -> dict[str, Any]:
    body: dict[str, Any] = {
        "respondedBy": response.person,
        "approved": response.approved,
        "via": response.via,
        "respondedAt": iso(response.at),
    }
    optional = {
        "feedback": response.comment,
        "option": response.option,
        "answers": response.answers,
        "edits": response.edits,
        "expert": response.seat,
        "inPlaceOf": list(response.in_place_of) or None,
        "override": response.override or None,
        "afterResetBy": response.after_reset_by,
    }
    return body | {key: value for key, value in optional.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Comment:
    id: str
    author: str
    comment: str
    at: int
