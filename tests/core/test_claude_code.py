"""Claude Code's hooks: strict parsing, complete questions, and output in the format of each event."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.claude_code import (
    SOMETHING_ELSE,
    again,
    answered,
    choices,
    deferred,
    read_hook,
    same_question,
    spoken,
    terms_of,
    tool_call,
)
from assent.core.errors import InvalidRequest
from assent.core.terms import check_answers, check_form
from assent.core.tool_calls import Verdict, refused

BASH: dict[str, Any] = {
    "hook_event_name": "PreToolUse",
    "session_id": "b29bee4d",
    "prompt_id": "p1",
    "cwd": "/srv/shop",
    "tool_name": "Bash",
    "tool_input": {"command": "git push", "timeout": 1},
    "tool_use_id": "toolu_1",
}
DIALOG = {name: value for name, value in BASH.items() if name != "tool_use_id"} | {
    "hook_event_name": "PermissionRequest"
}
REGION = {"question": "Which region?", "header": "Region", "options": [{"label": "eu"}, {"label": "us"}]}
SHOPS = {"question": "Which shops?", "options": [{"label": "a"}, {"label": "b"}, {"label": "c"}], "multiSelect": True}


def ask(*questions: Any) -> dict[str, Any]:
    return BASH | {"tool_name": "AskUserQuestion", "tool_input": {"questions": list(questions)}}


def approval(**arguments: Any) -> Verdict:
    return Verdict(approved=True, reason="Approved.", arguments=arguments)


@pytest.mark.parametrize(
    "sent",
    [
        None,
        [],
        "PreToolUse",
        {},
        BASH | {"hook_event_name": "Stop"},
        BASH | {"hook_event_name": ["PreToolUse"]},
        BASH | {"tool_input": "rm -rf /"},
        BASH | {"tool_name": ""},
        BASH | {"session_id": 7},
        BASH | {"tool_use_id": None},
        {name: value for name, value in BASH.items() if name != "cwd"},
    ],
)
def test_invalid_tool_calls_are_rejected(sent: Any) -> None:
    with pytest.raises(InvalidRequest):
        read_hook(sent)


@given(st.recursive(st.none() | st.booleans() | st.text(), lambda inner: st.dictionaries(st.text(), inner)))
def test_arbitrary_json_is_never_accepted_as_a_tool_call(sent: Any) -> None:
    with pytest.raises(InvalidRequest):
        read_hook(sent)


def test_a_question_shows_all_arguments_of_the_call() -> None:
    call = tool_call(read_hook(BASH), editable=["command", "nothing"], nonce="n")
    assert (call.question, call.gate, call.run_id) == ("git push", "tool.bash", "b29bee4d")
    assert (call.payload["arguments"], call.editable) == (BASH["tool_input"], ("command",))


def test_the_nonce_distinguishes_calls_without_an_id() -> None:
    hook = read_hook(DIALOG)
    assert tool_call(hook, nonce="1").key != tool_call(hook, nonce="2").key
    assert tool_call(read_hook(BASH), nonce="1").key == tool_call(read_hook(BASH), nonce="2").key


def test_a_call_whose_approval_was_used_asks_a_new_question() -> None:
    call = tool_call(read_hook(BASH), nonce="n")
    assert again(call, "bp_1").key != call.key
    assert again(call, "bp_1").digest == call.digest


def test_calls_with_the_same_visible_content_share_a_question() -> None:
    call = tool_call(read_hook(BASH), nonce="n")
    other = tool_call(read_hook(BASH | {"tool_use_id": "toolu_2"}), nonce="n")
    assert same_question(call.payload, other.payload)
    assert not same_question(call.payload, other.payload | {"arguments": {"command": "git push --force"}})
    assert not same_question(call.payload, other.payload | {"editable": ["command"]})


def test_verdicts_use_the_output_format_of_their_hook_event() -> None:
    before, dialog = read_hook(BASH), read_hook(DIALOG)
    same = approval(**BASH["tool_input"])
    assert spoken(before, same)["hookSpecificOutput"] == {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "permissionDecisionReason": "Approved.",
    }
    assert spoken(dialog, same)["hookSpecificOutput"]["decision"] == {"behavior": "allow"}
    no = refused("Rejected by olga: Not on a Friday.")
    assert spoken(before, no)["hookSpecificOutput"]["permissionDecision"] == "deny"
    denial = {"behavior": "deny", "message": "Rejected by olga: Not on a Friday. The tool was not run."}
    assert spoken(dialog, no)["hookSpecificOutput"]["decision"] == denial
    assert deferred(before, breakpoint_id="bp_1")["hookSpecificOutput"]["permissionDecision"] == "defer"


def test_replacing_1_with_true_counts_as_an_edit() -> None:
    changed = approval(command="git push", timeout=True)
    assert spoken(read_hook(BASH), changed)["hookSpecificOutput"]["updatedInput"]["timeout"] is True


def test_a_single_model_question_becomes_options() -> None:
    hook = read_hook(ask(REGION))
    assert terms_of(hook) == {"hard_stop": True, "options": ["eu", "us"]}
    said = answered(hook, approval(), option="eu", answers=None)
    assert said.arguments == {"questions": [REGION], "answers": {"Which region?": "eu"}}


def test_multiple_model_questions_become_a_form() -> None:
    hook = read_hook(ask(REGION, SHOPS))
    form = terms_of(hook)["form"]
    check_form(form)
    given_answers = {"answer1": "us", "answer2.1": True, "answer2.3": True, "other2": "and the new one"}
    check_answers(form, given_answers)
    said = answered(hook, approval(), option=None, answers=given_answers)
    assert said.arguments["answers"] == {"Which region?": "us", "Which shops?": "a, c, and the new one"}


def test_choosing_something_else_returns_the_free_text() -> None:
    hook = read_hook(ask(REGION, SHOPS))
    answers = {"answer1": SOMETHING_ELSE, "other1": "Mars", "answer2.2": True}
    said = answered(hook, approval(), option=None, answers=answers)
    assert said.arguments["answers"] == {"Which region?": "Mars", "Which shops?": "b"}


@pytest.mark.parametrize("answers", [None, {}, {"answer1": "us"}, {"answer1": SOMETHING_ELSE, "answer2.1": True}])
def test_a_form_with_an_unanswered_question_is_not_approved(answers: dict[str, Any] | None) -> None:
    said = answered(read_hook(ask(REGION, SHOPS)), approval(), option=None, answers=answers)
    assert not said.approved
    assert "some questions were not answered" in said.reason


def test_a_rule_cannot_answer_a_model_question() -> None:
    assert not answered(read_hook(ask(REGION)), approval(), option=None, answers=None).approved
    assert terms_of(read_hook(ask(REGION)))["hard_stop"] is True


@pytest.mark.parametrize(
    "questions", [None, [], ["?"], [{"question": "?"}], [{"question": "?", "options": ["a"]}], [REGION, REGION]]
)
def test_malformed_model_questions_are_rejected(questions: Any) -> None:
    with pytest.raises(InvalidRequest):
        choices({"questions": questions})
