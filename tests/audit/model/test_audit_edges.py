"""Audits of breakpoints with every kind of ending, and after every kind of change to their data."""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from assent.audit.chain_checks import Answer, FileNamed, Stored, findings, kept_digest, purge
from assent.breakpoints.search_words import words_of
from assent.core.access import TIMEOUT, Actor, Kind
from assent.core.breakpoint import (
    Breakpoint,
    Comment,
    Event,
    Response,
    Status,
    answered,
    approve_by_rule,
    cancel,
    expire,
    record,
    release,
    terms_of,
    time_out,
)
from assent.core.canonical import content_digest
from assent.core.chain import stub
from assent.core.seats import Seat
from assent.core.strategies import Decision

Change: TypeAlias = Callable[[Stored], Stored]

NOW = 1_800_000_000_000_000
BOT, ANN, BOB = Actor(Kind.AGENT, "bot"), Actor(Kind.PERSON, "ann"), Actor(Kind.PERSON, "bob")
PAYLOAD: dict[str, Any] = {
    "question": "Go?",
    "attempt": 2,
    "context": {"files": [{"path": "a.py", "format": "code", "language": "python", "sha256": "0" * 64}]},
}
FILES = (FileNamed(0, "a.py", "code", "python", "0" * 64, 7),)
AUTO = {"recommended": False, "reason": "None.", "consecutiveApprovals": 0}


def raised(**changes: Any) -> tuple[Breakpoint, list[Event]]:
    """Return a new breakpoint for two experts."""
    content = {
        "project": "shop", "agentId": "bot", "runId": "r", "title": "Ship", "gate": "ship", "tags": ["x"],
        "payload": PAYLOAD,
    }  # fmt: skip
    fields: dict[str, Any] = {
        "id": "bp_1", "project": "shop", "agent_id": "bot", "run_id": "r", "title": "Ship", "gate": "ship",
        "payload": PAYLOAD, "tags": ("x",), "seats": (Seat("ann"), Seat("ops")), "strategy": "quorum", "risk": None,
        "priority": "normal", "on_timeout": "expire", "ttl_seconds": 60, "callback_url": None,
        "digest": content_digest(content), "created_at": NOW, "created_by": BOT, "created_by_id": "tok_1",
        "due_at": NOW + 60_000_000, "auto_approval": AUTO, "warnings": ("Nobody carries ops.",),
    }  # fmt: skip
    new = Breakpoint(**fields | changes)
    said = {"digest": new.digest, "terms": terms_of(new), "agentId": "bot", "gate": "ship", "autoApproval": AUTO}
    new, created = record(new, "created", actor=BOT, at=NOW, metadata=said)
    new, warned = record(new, "warned", actor=BOT, at=NOW, metadata={"warning": "Nobody carries ops."})
    return new, [created, warned]


def row(made: Breakpoint, events: Sequence[Event], **more: Any) -> Stored:
    fields: dict[str, Any] = {
        "question": "Go?", "attempt": 2, "search": words_of(made),
        "purged_at": None, "answers": (), "comments": (), "files": FILES,
    }  # fmt: skip
    return Stored(breakpoint=made, events=list(events), **fields | more)


def agreed() -> Stored:
    """Return a breakpoint where bob changed his answer, eve commented, and ann's approval moved bob to another seat."""
    made, events = raised()
    bob = {"approved": False, "via": "web", "digest": made.digest, "shownDigest": made.digest, "expert": "ann"}
    made, first = record(made, "responded", actor=BOB, at=NOW + 1, metadata=bob | {"comment": "Hm."})
    made, second = record(
        made, "commented", actor=Actor(Kind.PERSON, "eve"), at=NOW + 2, metadata={"comment": "Please."}
    )
    yes = bob | {"approved": True, "option": "a", "answers": {"why": "x"}, "edits": {"n": 1}}
    made, third = record(made, "responded", actor=BOB, at=NOW + 3, metadata=yes)
    moved = [{"person": "bob", "expert": "ops", "inPlaceOf": ["ghost"]}]
    ann = {"approved": True, "via": "api", "digest": made.digest, "expert": "ann", "moved": moved}
    made, fourth = record(made, "responded", actor=ANN, at=NOW + 4, metadata=ann)
    responses = [
        Response(
            "bob", approved=True, at=NOW + 3, via="web", option="a", answers={"why": "x"}, edits={"n": 1}, seat="ops",
            in_place_of=("ghost",), digest=made.digest,
        ),
        Response("ann", approved=True, at=NOW + 4, via="api", seat="ann"),
    ]  # fmt: skip
    result = answered(Decision.APPROVED, responses, last=responses[1])
    made, fifth = release(made, Decision.APPROVED, actor=ANN, at=NOW + 4, result=result)
    return row(
        made.but(votes=2, comments=2),
        [*events, first, second, third, fourth, fifth],
        answers=(Answer(responses[0], "per_b", "bob", NOW + 1), Answer(responses[1], "per_a", "ann", NOW + 4)),
        comments=(
            Comment("fb_1", "person:bob", "Hm.", NOW + 1),
            Comment("fb_2", "person:eve", "Please.", NOW + 2),
        ),
    )


def overridden() -> Stored:
    """Return a breakpoint decided by an admin who is not an expert."""
    made, events = raised()
    said = {"approved": False, "via": "api", "digest": made.digest, "override": True}
    made, responded = record(made, "responded", actor=ANN, at=NOW + 1, metadata=said)
    response = Response("ann", approved=False, at=NOW + 1, via="api", override=True)
    result = answered(Decision.REJECTED, [response], last=response)
    made, ended = release(made, Decision.REJECTED, actor=ANN, at=NOW + 1, result=result)
    return row(made.but(votes=1), [*events, responded, ended], answers=(Answer(response, "per_a", "ann", NOW + 1),))


def ended_by(move: Any, **options: Any) -> Stored:
    made, events = raised(**options.pop("fields", {}))
    made, event = move(made, **options)
    return row(made, [*events, event])


def waiting() -> Stored:
    return row(*raised())


LIVES: dict[str, Callable[[], Stored]] = {
    "waiting": waiting,
    "agreed": agreed,
    "overridden": overridden,
    "expired": lambda: ended_by(expire, actor=TIMEOUT, at=NOW + 60_000_000),
    "cancelled": lambda: ended_by(cancel, actor=BOT, at=NOW + 5),
    "rejected by its deadline": lambda: ended_by(time_out, at=NOW + 60_000_000, fields={"on_timeout": "reject"}),
    "approved by a rule": lambda: ended_by(approve_by_rule, rule="rule_1", at=NOW),
}


def purged(stored: Stored) -> Stored:
    """Return the breakpoint after a purge."""
    current = stored.breakpoint
    said = [replace(each, metadata=stub(each.metadata)) if each.type in {"commented", "responded"} else each
            for each in stored.events]  # fmt: skip
    answers = tuple(
        replace(each, response=replace(each.response, comment=None, option=None, answers=None, edits=None))
        for each in stored.answers
    )
    comments = tuple(replace(each, comment="") for each in stored.comments)
    files = tuple(replace(each, path="", language=None) for each in stored.files)
    kept = kept_digest("shop", "r", ("x",), answers, comments, files)
    event = purge(current, at=NOW + 9, kept=kept)
    result = {"approved": current.decision is Decision.APPROVED, "status": current.status.value}
    result |= {} if current.decision is None else {"decision": current.decision.value}
    result |= {"auto": current.ended_by is not None and current.ended_by.kind is Kind.RULE}
    left = current.but(title=None, payload={}, version=event.seq, head=event.hash, updated_at=NOW + 9, result=result)
    return Stored(
        breakpoint=left, question=None, attempt=2, search="", purged_at=NOW + 9, events=[*said, event],
        answers=answers, comments=comments, files=files,
    )  # fmt: skip


@pytest.mark.parametrize("life", LIVES)
def test_an_unchanged_breakpoint_in_any_state_yields_no_findings(life: str) -> None:
    assert findings(LIVES[life]()) == []


@pytest.mark.parametrize("life", sorted(set(LIVES) - {"waiting"}))
def test_a_purged_breakpoint_in_any_final_state_yields_no_findings(life: str) -> None:
    assert findings(purged(LIVES[life]())) == []


def a_row(**changes: Any) -> Change:
    return lambda stored: replace(stored, breakpoint=stored.breakpoint.but(**changes))


def an_event(seq: int, **changes: Any) -> Change:
    return lambda stored: replace(
        stored, events=[replace(each, **changes) if each.seq == seq else each for each in stored.events]
    )


def an_answer(n: int, **changes: Any) -> Change:
    def change(stored: Stored) -> Stored:
        answers = list(stored.answers)
        beside = {name: changes[name] for name in ("person_id", "known_as", "first_at") if name in changes}
        said = {name: value for name, value in changes.items() if name not in beside}
        answers[n] = replace(answers[n], response=replace(answers[n].response, **said), **beside)
        return replace(stored, answers=tuple(answers))

    return change


def a_comment(n: int, **changes: Any) -> Change:
    def change(stored: Stored) -> Stored:
        comments = list(stored.comments)
        comments[n] = replace(comments[n], **changes)
        return replace(stored, comments=tuple(comments))

    return change


def a_file(**changes: Any) -> Change:
    return lambda stored: replace(stored, files=(replace(stored.files[0], **changes),))


def rows(**changes: Any) -> Change:
    return lambda stored: replace(stored, **changes)


def without(seq: int) -> Change:
    return lambda stored: replace(stored, events=[each for each in stored.events if each.seq != seq])


def another(kind: str, *, actor: Actor = ANN, **metadata: Any) -> Change:
    """Add an event with a valid hash."""

    def change(stored: Stored) -> Stored:
        made, event = record(stored.breakpoint, kind, actor=actor, at=NOW + 8, metadata=metadata)
        return replace(stored, breakpoint=made, events=[*stored.events, event])

    return change


def rechained(seq: int, **metadata: Any) -> Change:
    """Change the metadata of an event and recompute all hashes from there."""

    def change(stored: Stored) -> Stored:
        made = stored.breakpoint.but(version=0, head="0" * 64)
        events: list[Event] = []
        for each in stored.events:
            said = {**each.metadata, **(metadata if each.seq == seq else {})}
            said = {name: value for name, value in said.items() if value is not None}
            made, event = record(made, each.type, actor=each.actor, at=each.at, metadata=said)
            events.append(event)
        return replace(stored, breakpoint=made, events=events)

    return change


def found(stored: Stored) -> list[str]:
    """Return the part, the event and the contradictory field of each finding."""
    named = [(each, re.match(r"its (\w+) is .*, but its events say", each.what)) for each in findings(stored)]
    places = [(each.part.value, str(each.seq or ""), name.group(1) if name else "") for each, name in named]
    return sorted(" ".join(filter(None, place)) for place in places)


def _last(stored: Stored, **metadata: Any) -> Stored:
    """Change the metadata of the purge event and recompute its hash."""
    last = stored.events[-1]
    before = stored.breakpoint.but(version=last.seq - 1, head=last.previous)
    made, event = record(before, "purged", actor=last.actor, at=last.at, metadata={**last.metadata, **metadata})
    return replace(stored, breakpoint=made, events=[*stored.events[:-1], event])


CHANGES: dict[str, tuple[str, Change, list[str]]] = {
    "a head": ("agreed", a_row(head="x"), ["chain"]),
    "a version": ("agreed", a_row(version=9), ["chain"]),
    "an event missing": ("agreed", without(3), ["answers", "answers 5", "chain 4", "chain 4"]),
    "the creation missing": (
        "agreed",
        without(1),
        ["chain 2", "chain 2", "content", "content digest", "fold", "fold agentId", "fold autoApproval", "fold gate"],
    ),
    "an author": ("agreed", an_event(4, actor=ANN), ["answers", "chain 4"]),
    "a moment": ("agreed", an_event(4, at=NOW), ["answers", "chain 4"]),
    "a hash": ("agreed", an_event(7, hash="x"), ["chain", "chain 7"]),
    "a previous hash": ("agreed", an_event(4, previous="x"), ["chain 4", "chain 4"]),
    "a status": ("agreed", a_row(status=Status.WAITING), ["ends", "fold"]),
    "an expired status": ("agreed", a_row(status=Status.EXPIRED), ["fold status"]),
    "a decision": ("agreed", a_row(decision=Decision.REJECTED), ["fold", "fold", "fold decision"]),
    "no decision": ("agreed", a_row(decision=None), ["fold", "fold decision"]),
    "the moment of the end": ("agreed", a_row(ended_at=NOW), ["fold ended_at"]),
    "who ended it": ("agreed", a_row(ended_by=BOB), ["fold", "fold ended_by"]),
    "nobody ended it": ("agreed", a_row(ended_by=None), ["fold", "fold", "fold ended_by"]),
    "a rule ended it": ("agreed", a_row(ended_by=Actor(Kind.RULE, "rule_1")), ["fold", "fold ended_by"]),
    "somebody without an answer ended it": (
        "agreed",
        a_row(ended_by=Actor(Kind.PERSON, "eve")),
        ["fold", "fold", "fold ended_by"],
    ),
    "the system ended it": ("agreed", a_row(ended_by=TIMEOUT), ["fold", "fold", "fold ended_by"]),
    "a result": ("agreed", a_row(result={}), ["fold"]),
    "no result": ("agreed", a_row(result=None), ["fold"]),
    "votes": ("agreed", a_row(votes=3), ["fold votes"]),
    "comments": ("agreed", a_row(comments=3), ["fold comments"]),
    "created_at": ("agreed", a_row(created_at=NOW - 1), ["fold created_at"]),
    "created_by": ("agreed", a_row(created_by=ANN), ["fold created_by"]),
    "updated_at": ("agreed", a_row(updated_at=NOW), ["fold updated_at"]),
    "warnings": ("agreed", a_row(warnings=()), ["fold warnings"]),
    "digest": (
        "agreed",
        a_row(digest="x"),
        ["content", "content 3", "content 5", "content 6", "content 7", "content digest"],
    ),
    "agent_id": ("agreed", a_row(agent_id="other"), ["content", "content", "fold agentId"]),
    "gate": ("agreed", a_row(gate="other"), ["content", "content", "fold gate"]),
    "auto_approval": ("agreed", a_row(auto_approval={}), ["fold autoApproval"]),
    "project": ("agreed", a_row(project="other"), ["content"]),
    "run_id": ("agreed", a_row(run_id=None), ["content", "content"]),
    "title": ("agreed", a_row(title="Other"), ["content", "content"]),
    "tags": ("agreed", a_row(tags=()), ["content", "content"]),
    "payload": ("agreed", a_row(payload=PAYLOAD | {"more": 1}), ["content"]),
    "strategy": ("agreed", a_row(strategy="collect-all"), ["content"]),
    "seats": ("agreed", a_row(seats=(Seat("ann"), Seat("ops"), Seat("x"), Seat("y"))), ["content", "fold"]),
    "deadline": ("agreed", a_row(due_at=NOW), ["content"]),
    "question": ("agreed", rows(question="No?"), ["content"]),
    "attempt": ("agreed", rows(attempt=3), ["content"]),
    "search": ("agreed", rows(search="x"), ["content"]),
    "no files": ("agreed", rows(files=()), ["content"]),
    "number of a file": ("agreed", a_file(n=1), ["content"]),
    "path of a file": ("agreed", a_file(path="b"), ["content"]),
    "format of a file": ("agreed", a_file(format="b"), ["content"]),
    "language of a file": ("agreed", a_file(language=None), ["content"]),
    "digest of a file": ("agreed", a_file(sha256=None), ["content"]),
    "purged": ("agreed", rows(purged_at=NOW), ["content", "fold"]),
    "no answers": ("agreed", rows(answers=()), ["answers 5", "answers 6", "fold", "fold"]),
    "approved": ("agreed", an_answer(0, approved=False), ["answers 5", "fold", "fold"]),
    "at": ("agreed", an_answer(0, at=NOW), ["answers 5", "fold"]),
    "via": ("agreed", an_answer(0, via="api"), ["answers 5", "fold"]),
    "comment of an answer": ("agreed", an_answer(0, comment="Yes."), ["answers 5", "fold"]),
    "option": ("agreed", an_answer(0, option=None), ["answers 5", "fold"]),
    "answers": ("agreed", an_answer(0, answers=None), ["answers 5", "fold"]),
    "edits": ("agreed", an_answer(0, edits=None), ["answers 5", "fold"]),
    "seat": ("agreed", an_answer(0, seat="ann"), ["answers 5", "fold"]),
    "seat nobody asked": ("agreed", an_answer(0, seat="x"), ["answers 5", "fold", "people"]),
    "in place of": ("agreed", an_answer(0, in_place_of=()), ["answers 5", "fold"]),
    "override": ("agreed", an_answer(0, override=True), ["answers 5", "fold", "fold"]),
    "shown digest": ("agreed", an_answer(0, digest=None), ["answers 5"]),
    "first": ("agreed", an_answer(0, first_at=NOW + 3), ["answers 5"]),
    "the deciding answer": ("agreed", an_answer(1, approved=False), ["answers 6", "fold", "fold"]),
    "person id": ("agreed", an_answer(0, person_id="tok_1"), ["people"]),
    "known as": ("agreed", an_answer(0, known_as="eve"), ["people"]),
    "known as nobody": ("agreed", an_answer(0, known_as=None), ["people"]),
    "the person of an answer": ("agreed", an_answer(0, person="eve", known_as="eve"), ["answers", "answers 5", "fold"]),
    "author of a comment": ("agreed", a_comment(0, author="person:eve"), ["answers"]),
    "text of a comment": ("agreed", a_comment(0, comment="x"), ["answers"]),
    "moment of a comment": ("agreed", a_comment(0, at=NOW), ["answers"]),
    "comment missing": ("agreed", rows(comments=()), ["answers", "fold comments"]),
    "something after the end": ("agreed", another("commented", comment="Late."), ["answers", "ends 8"]),
    "a second end": ("agreed", another("expired"), ["ends", "ends 8"]),
    "a purge without a purge": ("agreed", another("purged"), ["content 8"]),
    "a second creation": ("agreed", another("created"), ["ends 8", "fold 8"]),
    "something unheard of": ("agreed", another("exploded"), ["ends 8", "fold 8"]),
    "unheard of while waiting": ("waiting", another("exploded"), ["fold 3"]),
    "purged while waiting": ("waiting", another("purged"), ["content 3", "ends 3"]),
    "a decision while waiting": ("waiting", a_row(decision=Decision.APPROVED), ["fold"]),
    "an end while waiting": ("waiting", a_row(ended_at=NOW), ["fold"]),
    "somebody ended it while waiting": ("waiting", a_row(ended_by=ANN), ["fold"]),
    "a result while waiting": ("waiting", a_row(result={}), ["fold"]),
    "released without an event": ("waiting", a_row(status=Status.RELEASED), ["ends"]),
    "an answer nobody told of": (
        "waiting",
        rows(answers=(Answer(Response("ann", approved=True, at=NOW, via="api", seat="ann"), "per_a", "ann", NOW),)),
        ["answers"],
    ),
    "no events": ("waiting", rows(events=[]), ["chain", "chain", "fold"]),
    "an answer told but not stored": (
        "waiting",
        another("responded", approved=True, via="api"),
        ["answers 3", "fold votes"],
    ),
    "an answer of an agent": (
        "waiting",
        lambda s: replace(
            another("responded", actor=BOT, approved=True, via="api", expert="ann")(s),
            answers=(
                Answer(Response("bot", approved=True, at=NOW + 8, via="api", seat="ann"), "per_a", "bot", NOW + 8),
            ),
        ),
        ["answers 3", "fold votes"],
    ),
    "terms in the creation": ("agreed", rechained(1, terms="x"), ["content"]),
    "digest in an answer": ("agreed", rechained(5, digest="x"), ["content 5"]),
    "shown digest in an answer": ("agreed", rechained(5, shownDigest="x"), ["answers 5", "content 5"]),
    "digest in the end": ("agreed", rechained(7, digest="x"), ["content 7"]),
    "decision in the end": ("agreed", rechained(7, decision="rejected"), ["fold decision"]),
    "no move told": ("agreed", rechained(6, moved=None), ["answers 5"]),
    "warning told": ("agreed", rechained(2, warning="x"), ["fold warnings"]),
    "gate told": ("agreed", rechained(1, gate="x"), ["fold gate"]),
    "agent told": ("agreed", rechained(1, agentId="x"), ["fold agentId"]),
    "digest told": ("agreed", rechained(1, digest="x"), ["content digest"]),
    "recommendation told": ("agreed", rechained(1, autoApproval={}), ["fold autoApproval"]),
    "comment told": ("agreed", rechained(4, comment="x"), ["answers"]),
    "words removed": (
        "agreed",
        lambda s: replace(
            s, events=[replace(each, metadata=stub(each.metadata)) if each.seq == 4 else each for each in s.events]
        ),
        ["answers", "content 4"],
    ),
    "approved override": ("overridden", an_answer(0, approved=True), ["answers 3", "fold", "fold"]),
    "no override": ("overridden", an_answer(0, override=False), ["answers 3", "fold", "people"]),
    "override with a seat": ("overridden", an_answer(0, seat="ann"), ["answers 3", "fold"]),
    "overridden decision": ("overridden", a_row(decision=Decision.APPROVED), ["fold", "fold", "fold decision"]),
    "expired approval": ("expired", a_row(decision=Decision.APPROVED), ["fold", "fold", "fold decision"]),
    "result of expiry": ("expired", a_row(result={"approved": True}), ["fold"]),
    "cancelled as expired": ("cancelled", a_row(status=Status.EXPIRED), ["fold", "fold status"]),
    "deadline approves": (
        "rejected by its deadline",
        a_row(decision=Decision.APPROVED),
        ["fold", "fold", "fold decision"],
    ),
    "rule by a person": ("approved by a rule", a_row(ended_by=ANN), ["fold", "fold", "fold ended_by"]),
    "rule by the system": ("approved by a rule", a_row(ended_by=TIMEOUT), ["fold", "fold", "fold ended_by"]),
    "rule by nobody": ("approved by a rule", a_row(ended_by=None), ["fold", "fold", "fold ended_by"]),
    "another rule": ("approved by a rule", a_row(ended_by=Actor(Kind.RULE, "rule_2")), ["fold", "fold ended_by"]),
}
AFTER_A_PURGE: dict[str, tuple[Change, list[str]]] = {
    "purge undone": (rows(purged_at=None), ["rows"]),
    "purge moment": (rows(purged_at=NOW), ["content"]),
    "title": (a_row(title="x"), ["content 8"]),
    "payload": (a_row(payload={"a": 1}), ["content 8"]),
    "question": (rows(question="x"), ["content 8"]),
    "search": (rows(search="x"), ["content 8"]),
    "comment": (a_comment(0, comment="x"), ["content 8"]),
    "path": (a_file(path="x"), ["content 8"]),
    "language": (a_file(language="x"), ["content 8"]),
    "comment of an answer": (an_answer(0, comment="x"), ["content 8"]),
    "option": (an_answer(0, option="x"), ["content 8"]),
    "answers": (an_answer(0, answers={"a": 1}), ["content 8"]),
    "edits": (an_answer(0, edits={"a": 1}), ["content 8"]),
    "words of an event": (an_event(4, metadata={"comment": "x"}), ["chain 4", "content 4"]),
    "project": (a_row(project="x"), ["content 8"]),
    "run": (a_row(run_id="x"), ["content 8"]),
    "tags": (a_row(tags=()), ["content 8"]),
    "person": (an_answer(0, person="x"), ["content 8", "people"]),
    "person id": (an_answer(0, person_id="x"), ["content 8"]),
    "approved": (an_answer(0, approved=False), ["content 8"]),
    "at": (an_answer(0, at=NOW), ["content 8"]),
    "first": (an_answer(0, first_at=NOW), ["content 8"]),
    "via": (an_answer(0, via="x"), ["content 8"]),
    "seat": (an_answer(0, seat="ann"), ["content 8"]),
    "in place of": (an_answer(0, in_place_of=()), ["content 8"]),
    "override": (an_answer(0, override=True), ["content 8"]),
    "shown": (an_answer(0, digest="x"), ["content 8"]),
    "comment id": (a_comment(0, id="x"), ["content 8"]),
    "author": (a_comment(0, author="x"), ["content 8"]),
    "comment at": (a_comment(0, at=NOW), ["content 8"]),
    "file n": (a_file(n=3), ["content 8"]),
    "format": (a_file(format="x"), ["content 8"]),
    "digest of a file": (a_file(sha256="x"), ["content 8"]),
    "size": (a_file(size=8), ["content 8"]),
    "attempt": (rows(attempt=3), ["content"]),
    "strategy": (a_row(strategy="single"), ["content"]),
    "decision": (a_row(decision=Decision.REJECTED), ["fold", "fold decision"]),
    "result": (a_row(result={}), ["fold"]),
    "count in the event": (lambda s: _last(s, events=1), ["content 8"]),
    "head in the event": (lambda s: _last(s, head="x"), ["content 8"]),
    "kept in the event": (lambda s: _last(s, kept="x"), ["content 8"]),
    "purged twice": (another("purged"), ["content", "ends 9"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_causes_exactly_the_expected_findings(change: str) -> None:
    life, make, expected = CHANGES[change]
    assert found(make(LIVES[life]())) == expected


@pytest.mark.parametrize("change", AFTER_A_PURGE)
def test_each_change_after_a_purge_causes_exactly_the_expected_findings(change: str) -> None:
    make, expected = AFTER_A_PURGE[change]
    assert found(make(purged(agreed()))) == expected


def test_simultaneous_answers_can_appear_in_either_order_in_the_result() -> None:
    stored = agreed()
    bob, ann = (each.response for each in stored.answers)
    assert findings(a_row(result=answered(Decision.APPROVED, [ann, bob], last=ann))(stored)) == []


def test_the_digest_of_retained_data_has_a_stable_format() -> None:
    """If the format changed, an audit would report every purged breakpoint as forged."""
    answer = Answer(Response("ann", approved=True, at=2, via="api", seat="ops", digest="d"), "per_1", "ann", 1)
    comment, file = Comment("fb_1", "person:ann", "Hm.", 3), FileNamed(0, "a", "text", None, "s", 7)
    digest = kept_digest("shop", None, ("x",), [answer], [comment], [file])
    kept = (
        '{"comments":[["fb_1","person:ann",3]],"files":[[0,"text","s",7]],"project":"shop",'
        '"responses":[["per_1","ann",true,2,1,"api","ops",[],false,"d"]],"runId":null,"tags":["x"]}'
    )
    assert digest == hashlib.sha256(f"assent-kept/1\n{kept}".encode()).hexdigest()
