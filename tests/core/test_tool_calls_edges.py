"""Details of tool calls: digests, keys, the types of edited values, and displayed content."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.tool_calls import ToolCall, Verdict, edited, ended, misfits, refused

CALL = ToolCall(door="langgraph", tool="deploy", arguments={"b": 1, "a": "é"}, thread="t-1", call_id="c-1")


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


DIGEST = sha('assent-tool-call/1\n{"arguments":{"a":"é","b":1},"tool":"deploy"}')


def test_the_digest_and_key_are_stable_across_versions() -> None:
    """An agent that is updated while a question is pending must still find it."""
    assert CALL.digest == DIGEST
    whole = f'["langgraph","t-1","c-1","{DIGEST}"]'
    assert CALL.key == f"langgraph-{sha(whole)}"


def test_the_digest_covers_only_the_tool_and_its_arguments() -> None:
    other = ToolCall(door="x", tool="deploy", arguments=CALL.arguments, thread="y", call_id="z", description="w")
    assert other.digest == CALL.digest


def test_optional_fields_of_a_call_are_empty_by_default() -> None:
    assert (CALL.editable, CALL.description) == ((), "")
    assert Verdict(approved=True, reason="Yes.").arguments == {}


def test_a_key_starts_with_up_to_40_characters_of_the_integration_name() -> None:
    key = replace(CALL, door="d" * 60).key
    assert key.startswith(f"{'d' * 40}-")
    assert len(key) == 40 + 1 + 64
    assert replace(CALL, door="Claude Code").key.startswith("claude-code-")


@pytest.mark.parametrize(
    ("thread", "kept"),
    [
        *(("x", True), ("xy", True), ("x" * 200, True), ("x" * 201, False), ("", False)),
        *(("a b", True), ("a\tb", False), ("\x00", False), ("é", True), ("\n" + "x" * 300, False)),
    ],
)
def test_only_a_valid_thread_is_used_as_the_run_id(thread: str, *, kept: bool) -> None:
    run = replace(CALL, thread=thread).run_id
    assert (run == thread) is kept
    assert 0 < len(run) <= 200
    assert run.isprintable()


def test_the_digest_of_an_invalid_thread_is_stable() -> None:
    assert replace(CALL, thread="").run_id == "thread-" + sha('""')[:16]
    assert replace(CALL, thread="a\nb").run_id != replace(CALL, thread="a\nc").run_id


def test_the_question_falls_back_from_the_description_to_the_call() -> None:
    assert CALL.question == "deploy b=1 a=é"
    assert replace(CALL, description="Shall 1.4 go out?").question == "Shall 1.4 go out?"
    assert (CALL.gate, CALL.title) == ("tool.deploy", "deploy b=1 a=é")


def test_call_titles_are_truncated_to_300_characters() -> None:
    assert replace(CALL, tool="x" * 300, arguments={}).title == "x" * 300
    assert replace(CALL, tool="x" * 301, arguments={}).title == "x" * 299 + "…"


def test_the_payload_contains_the_whole_call() -> None:
    assert CALL.payload == {
        "tool": "deploy",
        "arguments": {"a": "é", "b": 1},
        "callDigest": DIGEST,
        "door": "langgraph",
        "callId": "c-1",
    }


def test_a_refusal_states_that_the_tool_was_not_run() -> None:
    assert refused("Rejected by olga. \n") == Verdict(approved=False, reason="Rejected by olga. The tool was not run.")


@pytest.mark.parametrize(
    ("by", "said", "sentence"),
    [
        ("olga", " Not today.\n", "Rejected by olga: Not today."),
        (None, "Not today.", "Rejected: Not today."),
        ("olga", None, "Rejected by olga without a reason."),
        ("olga", "", "Rejected by olga without a reason."),
        (None, "\n", "Rejected without a reason."),
        ("", None, "Rejected without a reason."),
    ],
)
def test_a_rejection_includes_the_reviewer_and_the_reason_if_known(
    by: str | None, said: str | None, sentence: str
) -> None:
    assert ended("released", by=by, said=said) == sentence


@pytest.mark.parametrize(
    ("status", "sentence"),
    [("expired", "No one answered in time."), ("cancelled", "The request was cancelled.")],
)
def test_an_outcome_without_a_decision_does_not_name_a_reviewer(status: str, sentence: str) -> None:
    assert ended(status, by="olga", said="Whatever.") == sentence


_JSON = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.lists(st.integers())


@given(_JSON, _JSON)
def test_edits_can_keep_the_type_or_replace_null_with_any_value(before: Any, after: Any) -> None:
    assert misfits({"a": before}, {"a": before}) == []
    assert misfits({"a": None}, {"a": after}) == []
    if type(before) is type(after):
        assert misfits({"a": before}, {"a": after}) == []


@pytest.mark.parametrize(
    ("before", "after", "fits"),
    [
        *((1.5, 2, True), (1.5, True, False), (1.5, "2", False), (1.5, None, False)),
        *((1, 2.0, False), (1, "2", False), (True, 1, False), (False, None, False)),
        *(("a", None, False), ("a", 1, False), ([], {}, False), ({}, {"a": 1}, True), ([1], [], True)),
    ],
)
def test_an_integer_can_replace_a_float_but_not_vice_versa(before: Any, after: Any, *, fits: bool) -> None:
    assert misfits({"a": before}, {"a": after}) == ([] if fits else ["a"])


def test_arguments_whose_type_changed_are_listed_but_new_ones_are_not() -> None:
    before = {"a": 1, "b": "x", "c": True}
    assert misfits(before, {"a": "1", "b": "y", "c": "no", "d": 1}) == ["a", "c"]
    assert misfits(before, {}) == []


@pytest.mark.parametrize(
    ("edits", "result"),
    [
        ({}, {"version": "1.4", "target": "eu"}),
        ({"version": "1.5"}, {"version": "1.5", "target": "eu"}),
        ({"target": "us"}, None),
        ({"ghost": 1}, None),
        ({"other": 1}, None),
        ({"version": "1.5", "target": "us"}, None),
        ({"version": "1.5", "ghost": 1}, None),
    ],
)
def test_only_existing_editable_arguments_can_be_changed(edits: Any, result: Any) -> None:
    """The call declares "ghost" as editable but has no such argument."""
    call = replace(CALL, arguments={"version": "1.4", "target": "eu"}, editable=["version", "ghost"])
    assert edited(call, edits) == result
    assert call.arguments == {"version": "1.4", "target": "eu"}
