"""Rebuilds the history of ended breakpoints from the original service as chains of events."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assent.core.access import Actor, Kind
from assent.core.breakpoint import (
    NEVER,
    Action,
    Breakpoint,
    Event,
    Response,
    Status,
    advance,
    answered,
    record,
    release,
    terms_of,
    unanswered,
)
from assent.core.canonical import Json
from assent.core.draft import Draft
from assent.core.strategies import Decision
from assent.core.timestamps import SECOND

VIA = "import"
IMPORTER = Actor(Kind.SYSTEM, VIA)
AUTHOR = "import/"
"""Prefix of imported authors' names. Usernames cannot contain it, so an author is never mistaken for an account."""
LONGEST_NAME = 100
_ENDS = {Status.EXPIRED: Action.EXPIRE, Status.CANCELLED: Action.CANCEL}
_DIGITS = "0123456789abcdefghijklmnopqrstuv"


@dataclass(frozen=True, slots=True)
class Said:
    """A comment or release. The original service did not verify its author."""

    author: str
    comment: str | None
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """An ended breakpoint from the original service, parsed and validated."""

    origin: str
    draft: Draft
    status: Status
    created_at: int
    ended_at: int
    ended_by: str
    ttl_seconds: int | None
    said: Sequence[Said] = ()
    release: Said | None = None
    """The author and comment of the release."""


@dataclass(frozen=True, slots=True)
class Retold:
    """An imported breakpoint when it was created and after it ended, with everything that happened in between."""

    raised: Breakpoint
    ended: Breakpoint
    events: Sequence[Event]
    comments: Sequence[Said]
    response: Response | None


def id_of(project: str, origin: str, *, created_at: int) -> str:
    """Return the ID of an imported breakpoint. It is deterministic and sorts by creation time."""
    # Replaces the random part of an ID, so that a repeated import finds the same breakpoint.
    chance = hashlib.sha256(f"{project}\n{origin}".encode()).digest()[:10]
    number = ((created_at // 1000) << 80) | int.from_bytes(chance)
    return "bp_" + "".join(_DIGITS[(number >> shift) & 31] for shift in range(125, -1, -5))


def name_of(author: str) -> str:
    """Return a name for an imported author that is unique even if characters had to be removed."""
    plain = "".join(each for each in author if each.isprintable())[:LONGEST_NAME]
    if plain != author:
        plain += "-" + hashlib.sha256(author.encode(errors="surrogatepass")).hexdigest()[:8]
    return AUTHOR + plain


def retell(past: Past, *, project: str) -> Retold:
    raised, created = _created(past, project)
    current, events = raised, [created]
    # The sort is stable, so comments with the same timestamp keep their order.
    for each in sorted(past.said, key=lambda said: said.at):
        metadata: dict[str, Json] = {"comment": each.comment, "via": VIA}
        current, event = advance(current, Action.COMMENT, actor=_author(each), at=each.at, metadata=metadata)
        current = current.but(comments=current.comments + 1)
        events.append(event)
    if past.release is None:
        return _unanswered(past, raised, current, events)
    return _released(past, past.release, raised, current, events)


def _author(said: Said) -> Actor:
    return Actor(Kind.PERSON, name_of(said.author))


def _created(past: Past, project: str) -> tuple[Breakpoint, Event]:
    draft, at = past.draft, past.created_at
    ttl = _ttl(past)
    new = Breakpoint(
        id=id_of(project, past.origin, created_at=at),
        project=project,
        agent_id=draft.agent_id,
        run_id=draft.run_id,
        title=draft.title,
        gate=draft.gate,
        payload=draft.payload,
        tags=draft.tags,
        # In the original service, the first answer decided, regardless of the experts and strategy in the payload.
        seats=(),
        strategy="single",
        risk=draft.risk,
        priority=draft.priority,
        on_timeout="expire",
        ttl_seconds=ttl,
        callback_url=None,
        digest=draft.digest(project),
        created_at=at,
        created_by=IMPORTER,
        created_by_id=str(IMPORTER),
        due_at=NEVER if ttl is None else at + ttl * SECOND,
        auto_approval={
            "recommended": False,
            "reason": "Imported: rules were not evaluated.",
            "consecutiveApprovals": 0,
        },
        warnings=(),
    )
    metadata: dict[str, Json] = {
        "digest": new.digest,
        "terms": terms_of(new),
        "agentId": new.agent_id,
        "gate": new.gate,
        "autoApproval": new.auto_approval,
        "via": VIA,
        "imported": {"id": past.origin, "ttlSeconds": past.ttl_seconds},
    }
    return record(new, "created", actor=IMPORTER, at=at, metadata=metadata)


def _ttl(past: Past) -> int | None:
    """Return the TTL, or None if the breakpoint was released after its deadline.

    The original service accepted late answers until its worker ran. An audit would report them as inconsistencies.
    """
    if past.ttl_seconds is None or past.status is not Status.RELEASED:
        return past.ttl_seconds
    return past.ttl_seconds if past.ended_at < past.created_at + past.ttl_seconds * SECOND else None


def _unanswered(past: Past, raised: Breakpoint, current: Breakpoint, events: list[Event]) -> Retold:
    metadata: dict[str, Json] = {"via": VIA, "by": past.ended_by}
    ended, event = advance(current, _ENDS[past.status], actor=IMPORTER, at=past.ended_at, metadata=metadata)
    ended = ended.but(result=unanswered(ended.status))
    return Retold(raised, ended, [*events, event], past.said, None)


def _released(past: Past, said: Said, raised: Breakpoint, current: Breakpoint, events: list[Event]) -> Retold:
    actor = _author(said)
    response = Response(person=actor.name, approved=True, at=past.ended_at, via=VIA, comment=said.comment)
    metadata: dict[str, Json] = {"approved": True, "via": VIA, "digest": raised.digest}
    if said.comment is not None:
        metadata["comment"] = said.comment
    current, responded = advance(current, Action.RESPOND, actor=actor, at=past.ended_at, metadata=metadata)
    current = current.but(votes=1, comments=current.comments + (said.comment is not None))
    result: Mapping[str, Json] = answered(Decision.APPROVED, [response], last=response)
    ended, released = release(current, Decision.APPROVED, actor=actor, at=past.ended_at, result=result)
    spoken = [] if said.comment is None else [Said(said.author, said.comment, past.ended_at)]
    return Retold(raised, ended, [*events, responded, released], [*past.said, *spoken], response)
