"""Audits of a single breakpoint: comparing rows with events, and what remains of an event after a purge."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.audit.chain_checks import Answer, FileNamed, Stored, findings, kept_digest, purge
from assent.breakpoints.search_words import words_of
from assent.core.access import Actor, Kind
from assent.core.breakpoint import Breakpoint, Comment, Event, Response, Status, answered, record, release, terms_of
from assent.core.canonical import canonical, content_digest, link, seal, sha256
from assent.core.chain import Part, stub, stubbed
from assent.core.strategies import Decision

NOW = 1_800_000_000_000_000
AGENT, ANN = Actor(Kind.AGENT, "bot"), Actor(Kind.PERSON, "ann")
RULE = {"recommended": False, "reason": "None.", "consecutiveApprovals": 0}
texts = st.text(max_size=20)
metadatas = st.dictionaries(texts, texts | st.integers(-(2**53) + 1, 2**53 - 1) | st.booleans() | st.none(), max_size=4)


def approved() -> Stored:
    """Return an unmodified breakpoint that ann approved."""
    payload = {"question": "Go?"}
    content = {
        "project": "default", "agentId": "bot", "runId": None, "title": None, "gate": "go", "tags": ["x"],
        "payload": payload,
    }  # fmt: skip
    new = Breakpoint(
        id="bp_1", project="default", agent_id="bot", run_id=None, title=None, gate="go", payload=payload, tags=("x",),
        seats=(), strategy="single", risk=None, priority="normal", on_timeout="expire", ttl_seconds=60,
        callback_url=None, digest=content_digest(content), created_at=NOW, created_by=AGENT, created_by_id="tok_1",
        due_at=NOW + 60_000_000, auto_approval=RULE, warnings=(),
    )  # fmt: skip
    first = {"digest": new.digest, "terms": terms_of(new), "agentId": "bot", "gate": "go", "autoApproval": RULE}
    new, created = record(new, "created", actor=AGENT, at=NOW, metadata=first)
    said = {"approved": True, "via": "api", "digest": new.digest, "comment": "Yes."}
    new, responded = record(new, "responded", actor=ANN, at=NOW + 1, metadata=said)
    response = Response("ann", approved=True, at=NOW + 1, via="api", comment="Yes.")
    result = answered(Decision.APPROVED, [response], last=response)
    ended, released = release(new, Decision.APPROVED, actor=ANN, at=NOW + 1, result=result)
    return Stored(
        breakpoint=ended.but(votes=1, comments=1),
        question="Go?",
        attempt=None,
        search=words_of(new),
        purged_at=None,
        events=[created, responded, released],
        answers=[Answer(response, "per_1", "ann", NOW + 1)],
        comments=[Comment("fb_1", "person:ann", "Yes.", NOW + 1)],
        files=[],
    )


def test_an_unchanged_breakpoint_yields_no_findings() -> None:
    assert findings(approved()) == []


CHANGES: dict[str, tuple[Part, Any]] = {
    "another author of an event": (Part.CHAIN, lambda s: _event(s, 1, actor=Actor(Kind.PERSON, "eve"))),
    "another head": (Part.CHAIN, lambda s: _row(s, head="x")),
    "an event twice": (Part.CHAIN, lambda s: replace(s, events=[*s.events, s.events[-1]])),
    "an event less": (Part.CHAIN, lambda s: replace(s, events=s.events[:-1])),
    "no events at all": (Part.FOLD, lambda s: replace(s, events=[])),
    "another decision": (Part.FOLD, lambda s: _row(s, decision=Decision.REJECTED)),
    "another result": (Part.FOLD, lambda s: _row(s, result={"approved": True})),
    "a vote more": (Part.FOLD, lambda s: _row(s, votes=2)),
    "another question": (Part.CONTENT, lambda s: _row(s, payload={"question": "Stop?"})),
    "a later deadline": (Part.CONTENT, lambda s: _row(s, due_at=NOW * 2)),
    "other words to find it by": (Part.CONTENT, lambda s: replace(s, search="nothing")),
    "a file more": (Part.CONTENT, lambda s: replace(s, files=[FileNamed(0, "a", "text", None, None, None)])),
    "no answers": (Part.ANSWERS, lambda s: replace(s, answers=[])),
    "another comment": (Part.ANSWERS, lambda s: replace(s, comments=[Comment("fb_1", "person:ann", "No.", NOW + 1)])),
    "an answer of somebody else": (Part.PEOPLE, lambda s: replace(s, answers=[replace(s.answers[0], known_as="eve")])),
    "an answer of its maker": (Part.PEOPLE, lambda s: replace(s, answers=[replace(s.answers[0], person_id="tok_1")])),
    "something unreadable": (Part.ROWS, lambda s: _event(s, 0, metadata=5)),
}


def _row(stored: Stored, **changes: Any) -> Stored:
    return replace(stored, breakpoint=stored.breakpoint.but(**changes))


def _event(stored: Stored, index: int, **changes: Any) -> Stored:
    events = list(stored.events)
    events[index] = replace(events[index], **changes)
    return replace(stored, events=events)


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_reported_for_the_part_it_affects(change: str) -> None:
    part, make = CHANGES[change]
    assert part in {each.part for each in findings(make(approved()))}


def test_an_approval_without_an_approving_answer_is_detected_despite_valid_hashes() -> None:
    stored = approved()
    no = replace(stored.answers[0].response, approved=False)
    said = dict(stored.events[1].metadata) | {"approved": False}
    new = stored.breakpoint.but(version=1, head=stored.events[0].hash, status=Status.WAITING, decision=None)
    new, responded = record(new, "responded", actor=ANN, at=NOW + 1, metadata=said)
    forged = release(
        new,
        Decision.APPROVED,
        actor=ANN,
        at=NOW + 1,
        result=answered(Decision.APPROVED, [no], last=no),
    )
    found = findings(
        replace(
            stored,
            breakpoint=forged[0],
            events=[stored.events[0], responded, forged[1]],
            answers=[replace(stored.answers[0], response=no)],
        )
    )
    assert [each.what for each in found] == ["it is approved, but its answers result in a different decision"]


def purged(stored: Stored) -> Stored:
    current = stored.breakpoint
    kept = kept_digest("default", None, ("x",), stored.answers, stored.comments, stored.files)
    event = purge(current, at=NOW + 9, kept=kept)
    events = [replace(each, metadata=stub(each.metadata)) if each.seq == 2 else each for each in stored.events]
    result = {"approved": True, "status": "released", "decision": "approved", "auto": False}
    return Stored(
        breakpoint=current.but(payload={}, version=4, head=event.hash, updated_at=NOW + 9, result=result),
        question=None,
        attempt=None,
        search="",
        purged_at=NOW + 9,
        events=[*events, event],
        answers=[replace(each, response=replace(each.response, comment=None)) for each in stored.answers],
        comments=[replace(each, comment="") for each in stored.comments],
        files=[],
    )


def test_a_purged_breakpoint_yields_no_findings() -> None:
    assert findings(purged(approved())) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda s: replace(s, purged_at=None),
        lambda s: replace(s, purged_at=NOW),
        lambda s: replace(s, question="Go?"),
        lambda s: _row(s, tags=("y",)),
        lambda s: _row(s, project="other"),
        lambda s: _event(s, 1, metadata={"approved": True}),
        lambda s: _event(s, 1, actor=Actor(Kind.PERSON, "eve")),
        lambda s: replace(s, answers=[replace(s.answers[0], response=replace(s.answers[0].response, approved=False))]),
        lambda s: replace(s, comments=[]),
        lambda s: replace(s, events=s.events[:-1]),
    ],
)
def test_a_change_after_a_purge_is_detected(change: Any) -> None:
    assert findings(change(purged(approved())))


def test_missing_content_without_a_purge_is_detected() -> None:
    stored = approved()
    found = findings(_event(stored, 1, metadata=stub(stored.events[1].metadata)))
    assert found


@given(metadatas)
def test_the_hash_of_a_purged_event_can_still_be_verified(metadata: dict[str, Any]) -> None:
    body = {"breakpointId": "bp_1", "seq": 1, "type": "commented", "actor": "person:ann", "at": NOW}
    kept = stubbed(stub(metadata))
    assert kept == sha256(canonical(metadata))
    assert seal("0" * 64, body | {"metadata": kept}) == link("0" * 64, body | {"metadata": metadata})


@given(metadatas)
def test_metadata_is_a_stub_only_if_it_contains_just_a_digest(metadata: dict[str, Any]) -> None:
    assert stubbed(metadata) is None
    assert stubbed({"purged": "a" * 64, "more": 1}) is None
    assert stubbed({"purged": "A" * 64}) is None
    assert stubbed({"purged": 5}) is None


def test_a_purge_event_records_the_number_of_events_and_the_head_hash() -> None:
    event: Event = purge(approved().breakpoint, at=NOW + 9, kept="k")
    assert (event.seq, event.type, str(event.actor)) == (4, "purged", "system:retention")
    assert event.metadata == {"events": 3, "head": approved().breakpoint.head, "kept": "k"}
