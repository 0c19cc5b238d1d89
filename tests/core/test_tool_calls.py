"""Tool calls as questions: stable keys, derived gates, and outcomes as sentences for the model."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.tool_calls import ToolCall, edited, ended, misfits, refused

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
def test_different_calls_have_different_keys(other: ToolCall) -> None:
    assert other.key != CALL.key


def test_the_order_of_arguments_does_not_change_the_key() -> None:
    one = replace(CALL, arguments={"a": 1, "b": 2})

    assert replace(CALL, arguments={"b": 2, "a": 1}).key == one.key


@given(st.text(), st.text())
def test_the_key_separates_the_thread_from_the_call_id(thread: str, call_id: str) -> None:
    one = replace(CALL, thread=thread + "x", call_id=call_id)

    assert one.key != replace(CALL, thread=thread, call_id="x" + call_id).key
    assert one.key.isascii()
    assert len(one.key) <= 255


@pytest.mark.parametrize("thread", ["", "a\nb", "x" * 201])
def test_a_thread_that_is_not_a_valid_run_id_is_replaced_with_a_digest(thread: str) -> None:
    assert replace(CALL, thread=thread).run_id.startswith("thread-")


def test_a_valid_thread_is_used_as_the_run_id() -> None:
    assert CALL.run_id == "t-1"


def test_the_gate_is_derived_from_the_tool() -> None:
    assert replace(CALL, tool="Send E-Mail").gate == "tool.send-e-mail"


def test_edits_replace_only_the_edited_arguments() -> None:
    call = replace(CALL, arguments={"version": "1.4", "target": "production"})

    assert edited(call, {"version": "1.5"}) == {"version": "1.5", "target": "production"}


@pytest.mark.parametrize("edits", [{"target": "x"}, {"version": "1.5", "force": True}])
def test_editing_a_read_only_argument_rejects_all_edits(edits: dict[str, object]) -> None:
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
def test_an_edit_must_keep_the_type_of_the_value(before: object, after: object, fits: bool) -> None:  # noqa: FBT001
    assert misfits({"a": before}, {"a": after}) == ([] if fits else ["a"])


@pytest.mark.parametrize(
    ("status", "by", "said", "sentence"),
    [
        ("expired", None, None, "No one answered in time."),
        ("cancelled", None, None, "The request was cancelled."),
        ("released", "olga", "Not today.", "Rejected by olga: Not today."),
        ("released", "olga", " ", "Rejected by olga without a reason."),
        ("released", None, None, "Rejected without a reason."),
    ],
)
def test_the_model_receives_the_outcome_as_a_sentence(
    status: str, by: str | None, said: str | None, sentence: str
) -> None:
    assert ended(status, by=by, said=said) == sentence


def test_the_reason_for_a_rejected_call_states_that_the_tool_was_not_run() -> None:
    told = refused("No one answered in time.")

    assert not told.approved
    assert told.arguments == {}
    assert told.reason == "No one answered in time. The tool was not run."
