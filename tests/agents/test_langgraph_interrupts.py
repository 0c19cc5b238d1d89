"""How interrupts become questions and answers become resume values, without a graph or a server."""

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.agents.interrupts import LONGEST_QUESTION, Question, question_of
from assent.contracts.breakpoints import BreakpointResult, Status
from assent.sdk.errors import InvalidRequest, NotApproved

AT = "2026-01-01T00:00:00Z"
DECISIONS = ("approve", "edit", "reject", "respond")


def ended(**result: Any) -> Status:
    """Return the status of an approved breakpoint, with the given fields changed."""
    said = {"approved": True, "status": "released", "decision": "approved", "auto": False, **result}
    return Status(status=said["status"], updated_at=AT, decision=said["decision"], result=BreakpointResult(**said))


def rejected(why: str = "Not today.") -> Status:
    return ended(approved=False, decision="rejected", feedback=why, responded_by="ann")


def batch(*allowed: str, args: Any = None, description: str = "") -> Question:
    request = {"name": "deploy", "args": {"version": "1.4"} if args is None else args, "description": description}
    config = {"action_name": "deploy", "allowed_decisions": list(allowed)}
    value = {"action_requests": [request], "review_configs": [config]}
    return question_of("a" * 32, value, schema=None, node="review")


def told(question: Question, status: Status) -> Any:
    (review,) = question.reviews
    return question.told([review.ruling(review.call("thread", question.id, 0), status)])


def decision(question: Question, status: Status) -> Any:
    (found,) = told(question, status)["decisions"]
    return found


@given(allowed=st.sets(st.sampled_from(DECISIONS)), status=st.sampled_from(["rejected", "expired", "cancelled"]))
def test_only_an_approval_ever_lets_a_call_run(allowed: set[str], status: str) -> None:
    question = batch(*allowed)
    answer = rejected() if status == "rejected" else ended(approved=False, status=status, decision=None)
    try:
        found = decision(question, answer)
    except NotApproved:
        assert not allowed & {"reject", "respond"}
        return
    assert found["type"] in allowed - {"approve", "edit"}
    assert found["message"]


@given(allowed=st.sets(st.sampled_from(DECISIONS)), said=st.booleans(), edited=st.booleans())
def test_the_graph_receives_only_allowed_decisions(allowed: set[str], *, said: bool, edited: bool) -> None:
    question = batch(*allowed)
    answer = ended(answers={"respond": "Later."} if said else None, edits={"version": "1.5"} if edited else None)
    try:
        found = decision(question, answer)
    except NotApproved:
        return
    assert found["type"] in allowed
    if edited and found["type"] == "edit":
        assert found["edited_action"] == {"name": "deploy", "args": {"version": "1.5"}}
    assert not (edited and found["type"] == "approve")
    assert not (said and "respond" in allowed and found["type"] in {"approve", "edit"})


def test_an_edit_is_treated_as_a_rejection_if_edits_are_not_allowed() -> None:
    assert decision(batch("approve", "reject"), ended(edits={"version": "1.5"}))["type"] == "reject"


def test_conflicting_answers_from_approvers_are_treated_as_a_rejection() -> None:
    votes = [{"approved": True}, {"approved": True, "answers": {"respond": "Later."}}]
    found = decision(batch(*DECISIONS), ended(answers={"respond": "Later."}, all_responses=votes))

    assert found["type"] == "reject"
    assert "different answers" in found["message"]


def test_a_tool_without_a_review_config_accepts_no_decision() -> None:
    request = {"name": "deploy", "args": {}}
    other = {"action_name": "other", "allowed_decisions": ["approve"]}
    value = {"action_requests": [request], "review_configs": [other]}
    question = question_of("a" * 32, value, schema=None, node="review")

    with pytest.raises(NotApproved):
        told(question, ended())


def test_values_that_are_not_json_are_shown_but_not_editable() -> None:
    day = dt.date(2026, 1, 1)
    question = batch(*DECISIONS, args={"version": "1.4", "day": day})
    call = question.reviews[0].call("thread", question.id, 0)

    assert call.editable == ["version"]
    assert call.arguments["day"]["repr"] == "datetime.date(2026, 1, 1)"
    edited = decision(question, ended(edits={"version": "1.5"}))
    assert edited["edited_action"]["args"] == {"version": "1.5", "day": day}


def test_arguments_nested_too_deeply_to_display_are_rejected() -> None:
    deep: Any = "bottom"
    for _ in range(40):
        deep = [deep]
    question = batch(*DECISIONS, args={"deep": deep})

    with pytest.raises(InvalidRequest):
        question.reviews[0].call("thread", question.id, 0)


def test_long_descriptions_are_truncated_and_invalid_characters_escaped() -> None:
    long, broken = batch("approve", description="x" * 30_000), batch("approve", description="a\ud800\x00b")

    assert len(long.reviews[0].question) == LONGEST_QUESTION
    assert broken.reviews[0].question == "a\\ud800\\x00b"


def test_a_question_that_is_too_long_is_shown_in_full_as_an_argument() -> None:
    long = "x" * 30_000
    (review,) = question_of("a" * 32, long, schema=None, node="review").reviews

    assert review.arguments == {"value": long}


@pytest.mark.parametrize(
    ("schema", "status", "value"),
    [
        ({"type": "boolean"}, ended(), True),
        ({"type": "boolean"}, rejected(), False),
        ({"type": "integer"}, ended(answers={"answer": 3}), 3),
    ],
)
def test_a_question_with_a_simple_schema_returns_a_matching_value(schema: Any, status: Status, value: Any) -> None:
    assert told(question_of("a" * 32, "How many?", schema=schema, node="review"), status) == value


def test_an_argument_named_like_a_decision_allows_nothing() -> None:
    branches = {"reject": "#/$defs/RejectDecision", "respond": "#/$defs/RespondDecision"}
    deploy = {"properties": {"type": {"const": "approve"}}}
    schema = {"discriminator": {"mapping": branches}, "$defs": {"deploy": deploy}}
    value = {"type": "tool_approval", "name": "deploy", "args": {"type": "approve"}}
    question = question_of("a" * 32, value, schema=schema, node="tools")

    assert told(question, ended())["type"] == "reject"


def test_different_questions_about_the_same_arguments_have_different_keys() -> None:
    first, second = batch("approve", description="For a test?"), batch("approve", description="For good?")
    keys = {each.reviews[0].call("thread", each.id, 0).key for each in (first, second)}

    assert len(keys) == 2


def test_identical_calls_in_one_batch_have_different_keys() -> None:
    question = batch("approve")

    assert question.reviews[0].call("t", "i", 0).key != question.reviews[0].call("t", "i", 1).key


@pytest.mark.parametrize(
    "value",
    [
        {"action_requests": [], "review_configs": []},
        {"action_requests": "deploy"},
        {"type": "tool_approval"},
        [],
        [{"action_request": {}, "config": {}}],
        [{"action_request": "deploy", "config": {}}],
        None,
        7,
        {1: "one"},
        {"type": "assent_approval"},
    ],
)
def test_a_malformed_request_is_treated_as_a_bare_question(value: Any) -> None:
    question = question_of("a" * 32, value, schema=None, node="review")

    assert told(question, ended()) is True
    assert told(question, rejected()) is False
    assert question.reviews[0].tool == "review"
