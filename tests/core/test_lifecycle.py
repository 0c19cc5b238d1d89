"""States, transitions and the event chain of a breakpoint."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.access import TIMEOUT, Actor, Kind
from assent.core.breakpoint import (
    EVENT_OF,
    NEVER,
    TERMINAL,
    TRANSITIONS,
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
    record,
    release,
    time_out,
    timed_out,
    unanswered,
)
from assent.core.canonical import GENESIS, link
from assent.core.errors import AlreadyEnded
from assent.core.strategies import Decision

ANN = Actor(Kind.PERSON, "ann")
BOT = Actor(Kind.AGENT, "bot")
NOW = 1_800_000_000_000_000


def waiting(**changes: Any) -> Breakpoint:
    fields: dict[str, Any] = {
        "id": "bp_1",
        "project": "default",
        "agent_id": "agent-1",
        "run_id": None,
        "title": "Deploy",
        "gate": "deploy",
        "payload": {"question": "Deploy?"},
        "tags": (),
        "seats": (),
        "strategy": "single",
        "risk": None,
        "priority": "normal",
        "on_timeout": "expire",
        "ttl_seconds": None,
        "callback_url": None,
        "digest": "d" * 64,
        "created_at": NOW,
        "created_by": BOT,
        "created_by_id": "tok_1",
        "due_at": NEVER,
        "auto_approval": {},
        "warnings": (),
    }
    return Breakpoint(**(fields | changes))


def in_status(status: Status) -> Breakpoint:
    if status is Status.WAITING:
        return waiting()
    decision = Decision.APPROVED if status is Status.RELEASED else None
    return waiting(status=status, decision=decision, ended_at=NOW, ended_by=ANN)


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("action", Action)
def test_every_action_in_every_status_is_a_transition_or_an_error(status: Status, action: Action) -> None:
    current = in_status(status)
    if (status, action) not in TRANSITIONS:
        with pytest.raises(AlreadyEnded):
            advance(current, action, actor=ANN, at=NOW)
        return
    changed, event = advance(current, action, actor=ANN, at=NOW)
    assert changed.status is TRANSITIONS[status, action]
    assert event.type == EVENT_OF[action]
    assert (changed.ended_by is None) == (changed.status is Status.WAITING)


@pytest.mark.parametrize("status", sorted(TERMINAL))
@pytest.mark.parametrize("action", Action)
def test_no_transition_leaves_a_terminal_state(status: Status, action: Action) -> None:
    assert (status, action) not in TRANSITIONS


def test_a_waiting_breakpoint_accepts_every_action() -> None:
    assert {action for status, action in TRANSITIONS if status is Status.WAITING} == set(Action)


@pytest.mark.parametrize("status", sorted(TERMINAL))
@pytest.mark.parametrize("move", [time_out, expire, cancel, release])
def test_an_ended_breakpoint_cannot_be_ended_again(status: Status, move: Any) -> None:
    options: dict[str, Any] = {"at": NOW} if move is time_out else {"at": NOW, "actor": ANN}
    arguments = (Decision.APPROVED,) if move is release else ()
    if move is release:
        options["result"] = {}
    with pytest.raises(AlreadyEnded) as refused:
        move(in_status(status), *arguments, **options)
    standing = refused.value.details["standing"]
    assert isinstance(standing, dict)
    assert (standing["status"], standing["by"]) == (status.value, "person:ann")


@pytest.mark.parametrize("on_timeout", ["expire", "reject"])
def test_a_timeout_is_never_an_approval(on_timeout: str) -> None:
    changed, event = time_out(waiting(on_timeout=on_timeout, due_at=NOW), at=NOW)
    assert changed.decision is not Decision.APPROVED
    assert changed.result is not None
    assert changed.result["approved"] is False
    assert event.actor == TIMEOUT
    expected = (Status.RELEASED, Decision.REJECTED) if on_timeout == "reject" else (Status.EXPIRED, None)
    assert (changed.status, changed.decision) == expected


@pytest.mark.parametrize(("move", "status"), [(expire, Status.EXPIRED), (cancel, Status.CANCELLED)])
def test_an_unanswered_breakpoint_has_a_result_that_is_not_an_approval(move: Any, status: Status) -> None:
    changed, _ = move(waiting(), actor=ANN, at=NOW)
    assert changed.status is status
    assert changed.decision is None
    assert changed.result == unanswered(status)
    assert changed.result["approved"] is False
    assert changed.result["status"] == status.value


@given(st.integers(0, 2**61), st.integers(-1000, 1000))
def test_a_breakpoint_is_overdue_once_its_deadline_is_reached(due: int, offset: int) -> None:
    assert waiting(due_at=due).overdue(due + offset) == (offset >= 0)


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_an_ended_breakpoint_is_never_overdue(status: Status) -> None:
    assert not replace(in_status(status), due_at=0).overdue(NOW)


def test_transitions_do_not_modify_their_arguments() -> None:
    before = waiting()
    advance(before, Action.CANCEL, actor=ANN, at=NOW)
    assert before == waiting()


@pytest.mark.parametrize(
    "changes", [{}, {"version": 3}, {"status": Status.EXPIRED, "ended_by": ANN, "result": {"a": 1}}]
)
def test_the_but_method_returns_the_same_copy_as_dataclasses_replace(changes: dict[str, Any]) -> None:
    before = waiting(votes=2)
    assert before.but(**changes) == replace(before, **changes)
    assert before == waiting(votes=2)


@pytest.mark.parametrize("on_timeout", ["expire", "reject"])
def test_an_overdue_breakpoint_counts_as_ended_before_the_timeout_is_recorded(on_timeout: str) -> None:
    late = timed_out(waiting(due_at=NOW, on_timeout=on_timeout), NOW + 5)
    assert (late.status, late.decision) == (
        (Status.RELEASED, Decision.REJECTED) if on_timeout == "reject" else (Status.EXPIRED, None)
    )
    assert late.ended_by == TIMEOUT
    assert timed_out(waiting(due_at=NOW), NOW - 1) == waiting(due_at=NOW)


@given(st.lists(st.tuples(st.sampled_from(["commented", "responded"]), st.text(max_size=10)), min_size=1, max_size=8))
def test_events_are_numbered_consecutively_and_linked(facts: list[tuple[str, str]]) -> None:
    current, events = _history(facts)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert current.version == len(events)
    assert current.head == events[-1].hash
    assert verifies(events)


def _history(facts: list[tuple[str, str]]) -> tuple[Breakpoint, list[Event]]:
    current, events = waiting(), []
    for number, (kind, text) in enumerate(facts):
        current, event = record(current, kind, actor=ANN, at=NOW + number, metadata={"comment": text})
        events.append(event)
    return current, events


def verifies(events: list[Event]) -> bool:
    """Recompute the hash chain from the events, like an independent auditor."""
    head = GENESIS
    for number, event in enumerate(events, start=1):
        body = {
            "breakpointId": event.breakpoint_id,
            "seq": event.seq,
            "type": event.type,
            "actor": str(event.actor),
            "at": event.at,
            "metadata": json.loads(json.dumps(event.metadata)),
        }
        if event.seq != number or event.previous != head or event.hash != link(head, body):
            return False
        head = event.hash
    return True


TAMPERINGS: dict[str, Any] = {
    "breakpoint_id": lambda _: "bp_2",
    "seq": lambda seq: seq + 1,
    "type": lambda _: "released",
    "actor": lambda _: Actor(Kind.PERSON, "mallory"),
    "at": lambda at: at + 1,
    "metadata": lambda metadata: {**metadata, "comment": metadata["comment"] + "!"},
    "previous": lambda _: "f" * 64,
    "hash": lambda _: "f" * 64,
}


@pytest.mark.parametrize("field", TAMPERINGS)
@pytest.mark.parametrize("position", [0, 1, 2])
def test_changing_any_event_field_breaks_the_chain(field: str, position: int) -> None:
    _, events = _history([("commented", "a"), ("responded", "b"), ("commented", "c")])
    changed = TAMPERINGS[field](getattr(events[position], field))
    events[position] = replace(events[position], **{field: changed})
    assert not verifies(events)


@pytest.mark.parametrize("position", [0, 1])
def test_removing_an_event_breaks_the_chain(position: int) -> None:
    _, events = _history([("commented", "a"), ("responded", "b"), ("commented", "c")])
    del events[position]
    assert not verifies(events)


def test_swapping_two_events_breaks_the_chain() -> None:
    _, events = _history([("commented", "a"), ("commented", "b")])
    assert not verifies(events[::-1])


@given(st.booleans(), st.lists(st.sampled_from(["ann", "bob", "eve"]), min_size=1, unique=True))
def test_only_an_approval_produces_an_approved_result(approved: bool, people: list[str]) -> None:  # noqa: FBT001
    decision = Decision.APPROVED if approved else Decision.REJECTED
    responses = [Response(person, approved, NOW, "api", comment=f"by {person}") for person in people]
    result = answered(decision, responses, last=responses[-1])
    assert result["approved"] is approved
    assert result["decision"] == decision.value
    assert [each["respondedBy"] for each in result["allResponses"]] == people
    assert all(f"by {person}" in result["feedback"] for person in people)


def test_the_error_for_a_late_decision_names_the_person_who_decided_first() -> None:
    changed, _ = release(waiting(), Decision.REJECTED, actor=ANN, at=NOW, result={})
    error = ended(changed)
    assert error.details["standing"] == {
        "status": "released",
        "decision": "rejected",
        "by": "person:ann",
        "at": "2027-01-15T08:00:00.000000Z",
    }
