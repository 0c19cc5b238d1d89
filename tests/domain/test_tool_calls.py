"""Tool calls as questions: stable keys, gates named after tools, and outcomes as sentences for the model."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.domain.tool_calls import ToolCall, edited, ended, misfits, refused

CALL = ToolCall(
    door="langgraph", tool="deploy", arguments={"version": "1.4"}, thread="t-1", call_id="c-1", editable=["version"]
)


@pytest.mark.parametrize(
    "other",
    [
        replace(CALL, door="pydantic-ai"),
        replace(CALL, tool="deploy2"),
        replace(CALL, arguments={"version": "1.5"}),
        replace(CALL, thread="t-2"),
        replace(CALL, call_id="c-2"),
    ],
    ids=["door", "tool", "arguments", "thread", "call id"],
)
def test_another_call_never_finds_the_answer_to_this_one(other: ToolCall) -> None:
    assert other.key != CALL.key


def test_the_same_call_has_the_same_key_in_any_order_of_its_arguments() -> None:
    one = replace(CALL, arguments={"a": 1, "b": 2})

    assert replace(CALL, arguments={"b": 2, "a": 1}).key == one.key


@given(st.text(), st.text())
def test_two_threads_never_share_a_key_by_where_their_names_end(thread: str, call_id: str) -> None:
    one = replace(CALL, thread=thread + "x", call_id=call_id)

    assert one.key != replace(CALL, thread=thread, call_id="x" + call_id).key
    assert one.key.isascii()
    assert len(one.key) <= 255


@pytest.mark.parametrize("thread", ["", "a\nb", "x" * 201])
def test_a_thread_that_cannot_be_a_run_id_is_named_by_its_digest(thread: str) -> None:
    assert replace(CALL, thread=thread).run_id.startswith("thread-")


def test_a_thread_that_can_be_a_run_id_is_one() -> None:
    assert CALL.run_id == "t-1"


def test_the_gate_is_the_tools() -> None:
    assert replace(CALL, tool="Send E-Mail").gate == "tool.send-e-mail"


def test_a_reviewers_changes_replace_what_they_name_and_nothing_else() -> None:
    call = replace(CALL, arguments={"version": "1.4", "target": "production"})

    assert edited(call, {"version": "1.5"}) == {"version": "1.5", "target": "production"}


@pytest.mark.parametrize("edits", [{"target": "x"}, {"version": "1.5", "force": True}])
def test_what_may_not_be_changed_gives_no_arguments_at_all(edits: dict[str, object]) -> None:
    assert edited(replace(CALL, arguments={"version": "1.4", "target": "production"}), edits) is None


@pytest.mark.parametrize(
    ("before", "after", "fits"),
    [
        (True, "false", False),
        (1, True, False),
        (1, 1.5, False),
        (1.5, 2, True),
        ("a", "b", True),
        (None, "b", True),
        ([1], {"0": 1}, False),
    ],
)
def test_a_change_of_type_is_no_change_of_value(before: object, after: object, fits: bool) -> None:  # noqa: FBT001
    assert misfits({"a": before}, {"a": after}) == ([] if fits else ["a"])


@pytest.mark.parametrize(
    ("status", "by", "said", "sentence"),
    [
        ("expired", None, None, "No answer in time."),
        ("cancelled", None, None, "The request was cancelled."),
        ("released", "olga", "Not today.", "Rejected by olga: Not today."),
        ("released", "olga", " ", "Rejected by olga, without a reason."),
        ("released", None, None, "Rejected, without a reason."),
    ],
)
def test_the_model_is_told_how_it_ended(status: str, by: str | None, said: str | None, sentence: str) -> None:
    assert ended(status, by=by, said=said) == sentence


def test_a_refusal_says_that_nothing_was_run() -> None:
    told = refused("No answer in time.")

    assert not told.approved
    assert told.arguments == {}
    assert told.reason == "No answer in time. The tool was not run."
