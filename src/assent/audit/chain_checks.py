"""Checks that a breakpoint's rows agree with its chain, its content, and the fold of its events."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from assent.breakpoints.search_words import earlier_words_of, words_of
from assent.core.access import RETENTION, Kind
from assent.core.breakpoint import (
    TERMINAL,
    Breakpoint,
    Chained,
    Comment,
    Event,
    Response,
    Status,
    answered,
    answered_by_rule,
    event_body,
    next_event,
    terms_of,
    unanswered,
)
from assent.core.canonical import Json, canonical, content_digest, seal, sha256
from assent.core.chain import PURGED, UNREADABLE, Finding, Part, broken_links, stubbed
from assent.core.seats import Deputy
from assent.core.strategies import Decision, Vote, verdict

SPOKEN = frozenset({"commented", "responded"})
"""Events whose metadata contains people's input, which a purge deletes."""
_ENDS = frozenset(status.value for status in TERMINAL)
_PLAIN = frozenset(
    {
        *("created", "warned", "claimed", "unclaimed", "assigned", "answer-dropped"),
        *("reminded", "escalated", "delegated", PURGED),
    }
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response with additional columns of its row; `known_as` is the name of the person that the row refers to."""

    response: Response
    person_id: str
    known_as: str | None
    first_at: int


@dataclass(frozen=True, slots=True)
class FileNamed:
    """An entry for a context file; a purge deletes its path and language."""

    n: int
    path: str
    format: str
    language: str | None
    sha256: str | None
    size: int | None


@dataclass(frozen=True, slots=True)
class StoredRouting:
    """The route and deputies that allow people other than the experts to answer, now or later."""

    route_id: str | None
    route: Mapping[str, Json] | None
    deputies: Sequence[Deputy]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Everything that the database stores about one breakpoint."""

    breakpoint: Breakpoint
    question: Json
    attempt: Json
    search: str
    purged_at: int | None
    events: Sequence[Event]
    answers: Sequence[Answer]
    comments: Sequence[Comment]
    files: Sequence[FileNamed]
    counts_as: str | None = None
    """The key that approvals must share to count together; not set in rows from before migration 0016."""
    earlier_search: str = ""
    """The search words from before migration 0021; empty in newer rows."""
    routing: StoredRouting | None = None


def kept_digest(
    project: str,
    run_id: str | None,
    tags: Sequence[str],
    answers: Sequence[Answer],
    comments: Sequence[Comment],
    files: Sequence[FileNamed],
) -> str:
    """Return the digest of the data that remains after a purge and is not covered by any other event."""
    kept = {
        "project": project,
        "runId": run_id,
        "tags": list(tags),
        "responses": sorted(map(_kept_answer, answers)),
        "comments": sorted([each.id, each.author, each.at] for each in comments),
        "files": sorted([each.n, each.format, each.sha256, each.size] for each in files),
    }
    return sha256(b"assent-kept/1\n" + canonical(kept))


def _kept_answer(answer: Answer) -> list[Json]:
    said = answer.response
    # Omitted if not set, so that the digests of earlier purges remain valid.
    reset: list[Json] = [said.after_reset_by] if said.after_reset_by is not None else []
    return [
        answer.person_id,
        said.person,
        said.approved,
        said.at,
        answer.first_at,
        said.via,
        said.seat,
        list(said.in_place_of),
        said.override,
        said.digest,
        *reset,
    ]


def purge(current: Chained, *, at: int, kept: str) -> Event:
    """Return the event that records a purge, with the number of events, their head and a digest of what remains."""
    metadata = {"events": current.version, "head": current.head, "kept": kept}
    return next_event(current, PURGED, actor=RETENTION, at=at, metadata=metadata)


def findings(stored: Stored) -> list[Finding]:
    """Return every inconsistency in a breakpoint's rows, which would indicate tampering."""
    try:
        return list(_findings(stored))
    except UNREADABLE as error:
        what = f"its rows are inconsistent and cannot be read: {type(error).__name__}: {error}"
        return [Finding(Part.ROWS, stored.breakpoint.id, None, what)]


def _findings(stored: Stored) -> Iterator[Finding]:
    current = stored.breakpoint
    told = _Told(current.id)
    yield from _chain(stored)
    told.tell(stored.events)
    yield from told.findings
    yield from _said(told, stored)
    if stored.purged_at is None:
        if told.purged is not None:
            yield _at(told.purged, Part.CONTENT, "it records a purge, but its breakpoint is not marked as purged")
        yield from _content(stored)
        yield from _answers(told, stored)
    else:
        yield from _purged(stored)
    yield from _people(stored)


def _chain(stored: Stored) -> Iterator[Finding]:
    current = stored.breakpoint
    for seq, what in broken_links(stored.events, _hash, version=current.version, head=current.head):
        yield Finding(Part.CHAIN, current.id, seq, what)


def _hash(event: Event) -> str:
    body = event_body(event.breakpoint_id, event.seq, event.type, event.actor, event.at)
    # A purge replaces the metadata of these events with its digest; in other events, a digest would indicate tampering.
    body["metadata"] = (event.type in SPOKEN and stubbed(event.metadata)) or sha256(canonical(event.metadata))
    return seal(event.previous, body)


def _at(event: Event, part: Part, what: str) -> Finding:
    return Finding(part, event.breakpoint_id, event.seq, what)


@dataclass(slots=True)
class _Said:
    """One person's answer according to the events."""

    first_at: int
    event: Event
    expert: str | None
    in_place_of: tuple[str, ...]


@dataclass(slots=True)
class _Told:
    """The state that results from folding the events."""

    breakpoint_id: str
    end: Event | None = None
    ends: int = 0
    purged: Event | None = None
    comments: list[tuple[str, Json, int]] = field(default_factory=list[tuple[str, Json, int]])
    warnings: list[Json] = field(default_factory=list[Json])
    answers: dict[str, _Said] = field(default_factory=dict[str, _Said])
    findings: list[Finding] = field(default_factory=list[Finding])

    def tell(self, events: Sequence[Event]) -> None:
        for event in events:
            if self.end is not None and event.type != PURGED:
                self.findings.append(_at(event, Part.ENDS, f"this {event.type!r} event comes after the end event"))
            self._tell(event)
        if not events or events[0].type != "created":
            self.findings.append(
                Finding(Part.FOLD, self.breakpoint_id, None, "its first event is not a creation event")
            )

    def _tell(self, event: Event) -> None:
        if event.type in _ENDS:
            self.ends += 1
            self.end = self.end or event
        elif event.type == "responded":
            self._responded(event)
        elif event.type == "commented":
            self.comments.append((str(event.actor), event.metadata.get("comment"), event.at))
        elif event.type == "warned":
            self.warnings.append(event.metadata.get("warning"))
        elif event.type not in _PLAIN:
            self.findings.append(_at(event, Part.FOLD, f"{event.type!r} is not a known event type"))
        if event.type == PURGED:
            self._purged(event)
        if event.type == "created" and event.seq != 1:
            self.findings.append(_at(event, Part.FOLD, "this is a second creation event"))

    def _responded(self, event: Event) -> None:
        said = event.metadata
        earlier = self.answers.get(event.actor.name)
        first_at = earlier.first_at if earlier else event.at
        self.answers[event.actor.name] = _Said(first_at, event, said.get("expert"), tuple(said.get("inPlaceOf") or ()))
        for moved in said.get("moved") or ():
            other = self.answers.get(moved["person"])
            if other is not None:
                other.expert, other.in_place_of = moved["expert"], tuple(moved["inPlaceOf"])
        if "comment" in said:
            self.comments.append((str(event.actor), said["comment"], event.at))

    def _purged(self, event: Event) -> None:
        if self.end is None or self.purged is not None:
            self.findings.append(_at(event, Part.ENDS, "it was purged before it ended, or more than once"))
        self.purged = event


def _said(told: _Told, stored: Stored) -> Iterator[Finding]:
    """Compare the row with what the events record."""
    current = stored.breakpoint
    if told.ends != int(current.status is not Status.WAITING):
        what = f"it is {current.status}, but has {told.ends} end events"
        yield Finding(Part.ENDS, current.id, None, what)
    elif told.end is None and (current.decision or current.ended_at or current.ended_by):
        yield Finding(Part.FOLD, current.id, None, "it is waiting, but its decision or end fields are set")
    for name, row, events_say in _compared(told, stored):
        if row != events_say:
            part = Part.CONTENT if name == "digest" else Part.FOLD
            yield Finding(part, current.id, None, f"its {name} is {row!s}, but its events say {events_say!s}")
    yield from _result(told, stored)


def _compared(told: _Told, stored: Stored) -> list[tuple[str, Json, Json]]:
    """Return the name of each value, the value in the row, and the value according to the events."""
    current, events = stored.breakpoint, stored.events
    compared: list[tuple[str, Json, Json]] = [
        ("votes", current.votes, len(told.answers)),
        ("comments", current.comments, len(stored.comments)),
    ]
    if events:
        created = events[0]
        said = created.metadata
        compared += [
            ("created_at", current.created_at, created.at),
            ("created_by", current.created_by, created.actor),
            ("updated_at", current.updated_at, events[-1].at),
            ("warnings", list(current.warnings), told.warnings),
            ("digest", current.digest, said.get("digest")),
            ("agentId", current.agent_id, said.get("agentId")),
            ("gate", current.gate, said.get("gate")),
            ("autoApproval", current.auto_approval, said.get("autoApproval")),
        ]
    if told.end is not None and told.ends == 1 and current.status is not Status.WAITING:
        compared += [
            ("status", current.status.value, told.end.type),
            ("decision", current.decision, told.end.metadata.get("decision")),
            ("ended_at", current.ended_at, told.end.at),
            ("ended_by", current.ended_by, told.end.actor),
        ]
    return compared


def _result(told: _Told, stored: Stored) -> Iterator[Finding]:
    current = stored.breakpoint
    if current.result != _expected_result(current, stored):
        yield Finding(
            Part.FOLD, current.id, None, "its stored result differs from the one derived from its end event and answers"
        )
    if told.ends == 1 and stored.purged_at is None and not _decided_rightly(current, stored.answers):
        what = f"it is {current.decision}, but its answers result in a different decision"
        yield Finding(Part.FOLD, current.id, None, what)


def _expected_result(current: Breakpoint, stored: Stored) -> Mapping[str, Json] | None:
    if current.status is Status.WAITING or current.ended_by is None:
        return None
    by = current.ended_by
    # A purge keeps only these fields of the result.
    if stored.purged_at is not None:
        short = {"approved": current.decision is Decision.APPROVED, "status": current.status.value}
        decided = {} if current.decision is None else {"decision": current.decision.value}
        return short | decided | {"auto": by.kind is Kind.RULE}
    if current.decision is None:
        return unanswered(current.status)
    if by.kind is Kind.SYSTEM:
        return unanswered(current.status) | {"decision": current.decision.value, "respondedBy": str(by)}
    if by.kind is not Kind.PERSON:
        return answered_by_rule(by)
    responses = _as_in(current.result or {}, [each.response for each in stored.answers])
    last = [each for each in responses if each.person == by.name]
    return answered(current.decision, responses, last=last[0]) if last else {}


def _as_in(result: Mapping[str, Json], responses: Sequence[Response]) -> list[Response]:
    """Sort the responses as in the result, because simultaneous responses can be in either order."""
    listed: list[Json] = [each.get("respondedBy") for each in result.get("allResponses") or ()]
    names = [each.person for each in responses]
    if sorted(listed) != sorted(names):
        return list(responses)
    return [responses[names.index(name)] for name in listed]


def _decided_rightly(current: Breakpoint, answers: Sequence[Answer]) -> bool:
    # If no person made a decision, only a rule can have approved the breakpoint.
    if current.decision is None or current.ended_by is None or current.ended_by.kind is not Kind.PERSON:
        return current.decision is not Decision.APPROVED or (
            current.ended_by is not None and current.ended_by.kind is Kind.RULE
        )
    given = [each.response for each in answers]
    deciding = [each for each in given if each.person == current.ended_by.name]
    if not deciding:
        return False
    if deciding[0].override:
        return deciding[0].approved is (current.decision is Decision.APPROVED)
    # Admin overrides do not count as votes by experts.
    votes = [Vote(each.person, each.approved, each.after_reset_by) for each in given if not each.override]
    return verdict(current.strategy, votes, len(current.seats)) is current.decision


def _content(stored: Stored) -> Iterator[Finding]:
    current, payload = stored.breakpoint, stored.breakpoint.payload
    content = {
        "project": current.project,
        "agentId": current.agent_id,
        "runId": current.run_id,
        "title": current.title,
        "gate": current.gate,
        "tags": list(current.tags),
        "payload": payload,
    }
    if content_digest(content) != current.digest:
        yield Finding(Part.CONTENT, current.id, None, "its content hash does not match its content")
    if stored.question != payload.get("question") or stored.attempt != payload.get("attempt"):
        yield Finding(Part.CONTENT, current.id, None, "its question or attempt number differs from its payload")
    context: Mapping[str, Json] = payload.get("context") or {}
    named = [
        (n, each["path"], each["format"], each.get("language"), each.get("sha256"))
        for n, each in enumerate(context.get("files") or ())
    ]
    if named != [(each.n, each.path, each.format, each.language, each.sha256) for each in stored.files]:
        yield Finding(Part.CONTENT, current.id, None, "its files differ from those in its payload")
    if stored.search != words_of(current) or stored.earlier_search not in {"", earlier_words_of(current)}:
        yield Finding(Part.CONTENT, current.id, None, "its search index does not match its content")
    yield from _terms(stored, terms_of(current))
    for event in stored.events:
        if stubbed(event.metadata):
            yield _at(event, Part.CONTENT, "its content was deleted, but its breakpoint was not purged")
        digests = {event.metadata.get("digest", current.digest), event.metadata.get("shownDigest", current.digest)}
        if event.type in {"responded", "released"} and digests != {current.digest}:
            yield _at(event, Part.CONTENT, "its content hash differs from that of the stored content")


def _terms(stored: Stored, terms: str) -> Iterator[Finding]:
    if stored.events and stored.events[0].metadata.get("terms") != terms:
        what = "its experts, strategy or deadline differ from those in its creation event"
        yield Finding(Part.CONTENT, stored.breakpoint.id, None, what)
    said: Mapping[str, Json] = stored.events[0].metadata if stored.events else {}
    if (said.get("agentIdClaimed", False), said.get("countsAs")) != (
        stored.breakpoint.agent_id_claimed,
        stored.counts_as,
    ):
        what = "its agentIdClaimed or countsAs field differs from its creation event"
        yield Finding(Part.CONTENT, stored.breakpoint.id, None, what)


def _answers(told: _Told, stored: Stored) -> Iterator[Finding]:
    current = stored.breakpoint
    rows = {each.response.person: each for each in stored.answers}
    for name in sorted(told.answers.keys() - rows.keys()):
        what = f"an event records an answer by {name}, but the answer is not stored"
        yield _at(told.answers[name].event, Part.ANSWERS, what)
    for name in sorted(rows.keys() - told.answers.keys()):
        yield Finding(Part.ANSWERS, current.id, None, f"an answer by {name} is stored, but no event records it")
    for name in sorted(rows.keys() & told.answers.keys()):
        row, said = rows[name], told.answers[name]
        same = row.first_at == said.first_at and row.response == _events_say(said)
        if not same or said.event.actor.kind is not Kind.PERSON:
            yield _at(said.event, Part.ANSWERS, f"{name}'s stored answer differs from the recorded one")
    comments = sorted([each.at, each.author, each.comment] for each in stored.comments)
    if comments != sorted([at, author, comment] for author, comment, at in told.comments):
        yield Finding(Part.ANSWERS, current.id, None, "its comments differ from those in its events")


def _events_say(said: _Said) -> Response:
    event, metadata = said.event, said.event.metadata
    return Response(
        person=event.actor.name,
        approved=metadata["approved"],
        at=event.at,
        via=metadata["via"],
        comment=metadata.get("comment"),
        option=metadata.get("option"),
        answers=metadata.get("answers"),
        edits=metadata.get("edits"),
        seat=said.expert,
        in_place_of=said.in_place_of,
        override=metadata.get("override", False),
        digest=metadata.get("shownDigest"),
        after_reset_by=metadata.get("afterResetBy"),
    )


def _purged(stored: Stored) -> Iterator[Finding]:
    """Check that the purged content no longer exists, and that the purge event covers everything that remains."""
    current, last = stored.breakpoint, stored.events[-1] if stored.events else None
    if last is None or last.type != PURGED or last.at != stored.purged_at:
        yield Finding(Part.CONTENT, current.id, None, "it is marked as purged, but no event records the purge")
        return
    left = [
        current.title,
        stored.question,
        *current.payload,
        stored.search,
        stored.earlier_search,
        *(each.comment for each in stored.comments),
    ]
    left += [text for each in stored.files for text in (each.path, each.language)]
    for each in stored.answers:
        said = each.response
        left += [said.comment, said.option, said.answers, said.edits]
    if any(left):
        yield _at(last, Part.CONTENT, "it is marked as purged, but part of its content still exists")
    for event in stored.events:
        if event.type in SPOKEN and not stubbed(event.metadata):
            yield _at(event, Part.CONTENT, "its breakpoint was purged, but its content still exists")
    said_kept = last.metadata.get("kept"), last.metadata.get("events"), last.metadata.get("head")
    kept = kept_digest(current.project, current.run_id, current.tags, stored.answers, stored.comments, stored.files)
    if said_kept != (kept, last.seq - 1, last.previous):
        yield _at(last, Part.CONTENT, "the data that remained after the purge was changed")
    # The terms include the attempt number, which a purge removes from the payload but not from its own column.
    yield from _terms(stored, terms_of(current.but(payload={"attempt": stored.attempt})))


def _people(stored: Stored) -> Iterator[Finding]:
    current = stored.breakpoint
    seats = {seat.name for seat in current.seats}
    for each in stored.answers:
        said = each.response
        if each.known_as != said.person:
            what = f"{said.person}'s answer belongs to {each.known_as or 'an unknown person'}"
            yield Finding(Part.PEOPLE, current.id, None, what)
        if each.person_id == current.created_by_id:
            yield Finding(Part.PEOPLE, current.id, None, f"{said.person} answered their own breakpoint")
        asked = said.seat in seats if seats else said.seat is None
        if not asked and not said.override:
            yield Finding(Part.PEOPLE, current.id, None, f"{said.person} answered without being eligible")
