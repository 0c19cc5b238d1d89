"""The exact results, errors and digests of breakpoints, which agents, callbacks and auditors rely on."""

import hashlib
import json
from typing import Any

import pytest

from assent.core.access import Actor, Kind
from assent.core.breakpoint import (
    NEVER,
    Response,
    Status,
    answered,
    approve_by_rule,
    cancel,
    ended,
    expire,
    record,
    release,
    response_body,
    terms_of,
    time_out,
    timed_out,
)
from assent.core.canonical import GENESIS
from assent.core.seats import Seat
from assent.core.strategies import Decision
from tests.core.test_lifecycle import ANN, BOT, NOW, waiting

BARE = Response("ann", approved=True, at=NOW, via="api")
FULL = Response(
    "bob", approved=False, at=NOW, via="web", comment="Not yet.", option="b", answers={"why": "x"}, edits={"n": 1},
    seat="ops", in_place_of=("ghost",), override=True, digest="d" * 64,
)  # fmt: skip


def test_a_new_breakpoint_is_waiting_and_has_no_events_or_answers() -> None:
    new = waiting()
    assert (new.status, new.decision, new.result) == (Status.WAITING, None, None)
    assert (new.version, new.head, new.updated_at) == (0, GENESIS, 0)
    assert (new.comments, new.votes, new.ended_at, new.ended_by) == (0, 0, None, None)


def test_the_never_timestamp_is_later_than_any_other_and_fits_in_a_64_bit_integer() -> None:
    year_9999 = 253_402_300_799_999_999
    assert year_9999 < NEVER == 4_611_686_018_427_387_904 < 2**63


def test_recording_an_event_updates_the_version_head_and_modification_time() -> None:
    changed, event = record(waiting(), "warned", actor=BOT, at=NOW + 7)
    assert (changed.version, changed.head, changed.updated_at) == (1, event.hash, NOW + 7)
    assert (event.metadata, event.previous, event.at, event.actor) == ({}, GENESIS, NOW + 7, BOT)


@pytest.mark.parametrize(("move", "status"), [(expire, "expired"), (cancel, "cancelled")])
def test_the_result_of_an_unanswered_breakpoint_contains_its_status(move: Any, status: str) -> None:
    changed, event = move(waiting(), actor=ANN, at=NOW + 1)
    assert changed.result == {"approved": False, "status": status, "auto": False}
    assert (changed.ended_at, changed.ended_by, event.type, event.metadata) == (NOW + 1, ANN, status, {})


def test_a_rejection_by_timeout_names_the_system_as_responder() -> None:
    changed, event = time_out(waiting(on_timeout="reject"), at=NOW)
    assert changed.result == {
        "approved": False, "status": "released", "auto": False, "decision": "rejected", "respondedBy": "system:timeout",
    }  # fmt: skip
    assert event.metadata == {"decision": "rejected", "digest": "d" * 64}


def test_a_timeout_can_be_attributed_to_another_actor() -> None:
    changed, event = time_out(waiting(), at=NOW, actor=ANN)
    assert (changed.ended_by, event.actor) == (ANN, ANN)


def test_an_unrecorded_timeout_has_the_deadline_as_its_end_time() -> None:
    assert timed_out(waiting(due_at=NOW), NOW + 500).ended_at == NOW


def test_an_approval_by_a_rule_names_the_rule() -> None:
    changed, event = approve_by_rule(waiting(), "rule_1", at=NOW)
    assert changed.result == {
        "approved": True, "status": "released", "decision": "approved", "response": "approved",
        "respondedBy": "rule:rule_1", "via": "rule", "auto": True, "allResponses": [],
    }  # fmt: skip
    assert (changed.decision, changed.ended_by) == (Decision.APPROVED, Actor(Kind.RULE, "rule_1"))
    assert event.type == "released"


def test_the_result_of_a_minimal_answer_has_no_optional_fields() -> None:
    assert answered(Decision.APPROVED, [BARE], last=BARE) == {
        "approved": True, "status": "released", "decision": "approved", "response": "approved", "respondedBy": "ann",
        "via": "api", "auto": False, "allResponses": [response_body(BARE)],
    }  # fmt: skip
    assert response_body(BARE) == {
        "respondedBy": "ann", "approved": True, "via": "api", "respondedAt": "2027-01-15T08:00:00.000000Z",
    }  # fmt: skip


def test_the_result_of_a_full_answer_has_all_its_fields() -> None:
    assert answered(Decision.REJECTED, [BARE, FULL], last=FULL) == {
        "approved": False, "status": "released", "decision": "rejected", "response": "Not yet.", "respondedBy": "bob",
        "via": "web", "auto": False, "allResponses": [response_body(BARE), response_body(FULL)],
        "feedback": "Not yet.", "option": "b", "answers": {"why": "x"}, "edits": {"n": 1},
    }  # fmt: skip
    assert response_body(FULL) == {
        "respondedBy": "bob", "approved": False, "via": "web", "respondedAt": "2027-01-15T08:00:00.000000Z",
        "feedback": "Not yet.", "option": "b", "answers": {"why": "x"}, "edits": {"n": 1}, "expert": "ops",
        "inPlaceOf": ["ghost"], "override": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("comment", "option", "response"), [("Go.", "a", "Go."), ("", "a", "a"), (None, "a", "a"), (None, None, "approved")]
)
def test_the_response_is_the_comment_the_option_or_the_decision(
    comment: str | None, option: str | None, response: str
) -> None:
    last = Response("ann", approved=True, at=NOW, via="api", comment=comment, option=option)
    assert answered(Decision.APPROVED, [last], last=last)["response"] == response


def test_feedback_from_several_people_includes_their_names() -> None:
    said = [Response(name, approved=True, at=NOW, via="api", comment=f"{name}!") for name in ("ann", "bob")]
    assert answered(Decision.APPROVED, [*said, BARE], last=said[0])["feedback"] == "ann: ann!\n\nbob: bob!"


def test_the_error_for_an_ended_breakpoint_includes_the_outcome_actor_and_time() -> None:
    cancelled, _ = cancel(waiting(), actor=ANN, at=NOW)
    released, _ = release(waiting(), Decision.APPROVED, actor=ANN, at=NOW, result={})
    at = "2027-01-15T08:00:00.000000Z"
    assert ended(cancelled).message == "This has already been cancelled by person:ann. Nothing was changed."
    assert ended(released).message == "This has already been approved by person:ann. Nothing was changed."
    assert ended(cancelled).details["standing"] == {
        "status": "cancelled", "decision": None, "by": "person:ann", "at": at,
    }  # fmt: skip


def test_the_last_update_time_is_used_if_the_end_time_is_unknown() -> None:
    standing = ended(waiting(status=Status.EXPIRED, ended_by=ANN, updated_at=NOW)).details["standing"]
    assert isinstance(standing, dict)
    assert standing["at"] == "2027-01-15T08:00:00.000000Z"


ASKED: dict[str, Any] = {
    "payload": {"attempt": 2},
    "callback_url": "https://example.com/",
    "due_at": NOW,
    "on_timeout": "reject",
    "priority": "high",
    "risk": "high",
    "seats": (Seat("ops"), Seat("owner", ("ghost",), added=True)),
    "strategy": "quorum",
    "ttl_seconds": 60,
    "created_by_id": "tok_2",
}


def test_the_terms_digest_format_is_stable() -> None:
    """If the format changed, an audit would report every stored breakpoint as forged."""
    terms = {
        "attempt": 2, "callbackUrl": "https://example.com/", "createdById": "tok_2", "dueAt": NOW,
        "onTimeout": "reject", "priority": "high", "risk": "high",
        "seats": [["ops", [], False], ["owner", ["ghost"], True]], "strategy": "quorum", "ttlSeconds": 60,
    }  # fmt: skip
    assert terms_of(waiting(**ASKED)) == digest(terms)
    assert terms_of(waiting(**ASKED | {"due_at": NEVER, "payload": {}})) == digest(
        terms | {"dueAt": None, "attempt": None}
    )


def digest(terms: dict[str, Any]) -> str:
    text = json.dumps(terms, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(b"assent-terms/1\n" + text.encode()).hexdigest()


@pytest.mark.parametrize("field", ASKED)
def test_changing_any_term_changes_the_digest(field: str) -> None:
    assert terms_of(waiting(**{field: ASKED[field]})) != terms_of(waiting())
