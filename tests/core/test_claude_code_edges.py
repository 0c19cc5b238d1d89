"""Edge cases of Claude Code's hooks: error pointers, displayed questions, and the exact output."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.claude_code import (
    LONGEST_TTL,
    TTL_SECONDS,
    Choice,
    Event,
    Hook,
    again,
    answered,
    choices,
    deferred,
    left_to_prompt,
    read_hook,
    same_question,
    shown,
    spoken,
    terms_of,
    tool_call,
)
from assent.core.errors import InvalidRequest
from assent.core.tool_calls import Verdict, refused
from tests.core.test_claude_code import BASH, DIALOG, REGION, SHOPS, approval, ask


def refusal(read: Callable[[Any], object], sent: Any) -> tuple[str, str]:
    """Return the pointer and the message of the only error."""
    with pytest.raises(InvalidRequest) as raised:
        read(sent)
    errors: Any = raised.value.details["errors"]
    (error,) = errors
    return error["pointer"], error["detail"]


def called(tool: str, arguments: dict[str, Any]) -> Hook:
    return read_hook(BASH | {"tool_name": tool, "tool_input": arguments})


def question(tool: str, arguments: dict[str, Any]) -> str:
    return tool_call(called(tool, arguments), nonce="n").question


def test_the_default_ttl_is_a_day_and_the_maximum_fits_32_bit_timers() -> None:
    assert TTL_SECONDS == 24 * 60 * 60
    assert LONGEST_TTL == 2_000_000
    assert LONGEST_TTL * 1000 < 2**31


def test_every_field_of_a_hook_is_parsed() -> None:
    assert read_hook(BASH) == Hook(
        event=Event.PRE_TOOL_USE,
        session="b29bee4d",
        tool="Bash",
        arguments={"command": "git push", "timeout": 1},
        directory="/srv/shop",
        tool_use_id="toolu_1",
    )
    dialog = read_hook(DIALOG | {"tool_use_id": "toolu_9"})
    assert (dialog.event, dialog.tool_use_id) == (Event.PERMISSION_REQUEST, None)


UNREAD: list[tuple[Any, str, str]] = [
    ([], "/", "the JSON object that Claude Code passes"),
    (BASH | {"hook_event_name": ""}, "/hook_event_name", "must be a non-empty string"),
    (BASH | {"hook_event_name": "Stop"}, "/hook_event_name", "must be PreToolUse or PermissionRequest;"),
    (BASH | {"tool_input": []}, "/tool_input", "must be an object"),
    (BASH | {"tool_input": None}, "/tool_input", "must be an object"),
    *((BASH | {name: 7}, f"/{name}", "non-empty string") for name in ("session_id", "tool_name", "cwd", "tool_use_id")),
    *(
        (BASH | {name: ""}, f"/{name}", "non-empty string")
        for name in ("session_id", "tool_name", "cwd", "tool_use_id")
    ),
    (DIALOG | {"session_id": None}, "/session_id", "non-empty string"),
]


@pytest.mark.parametrize(("sent", "pointer", "words"), UNREAD)
def test_hook_errors_include_the_pointer_and_the_reason(sent: Any, pointer: str, words: str) -> None:
    where, message = refusal(read_hook, sent)
    assert where == pointer
    assert words in message


@pytest.mark.parametrize(
    ("hook", "may"),
    [
        (read_hook(BASH), True),
        (replace(read_hook(BASH), tool_use_id=None), False),
        (read_hook(DIALOG), False),
        (replace(read_hook(DIALOG), tool_use_id="toolu_1"), False),
    ],
    ids=["before a tool", "without an id", "a dialog", "a dialog with an id"],
)
def test_only_pre_tool_use_calls_with_an_id_can_be_deferred(hook: Hook, *, may: bool) -> None:
    assert hook.may_defer is may


def test_the_integration_session_and_call_id_identify_a_call() -> None:
    call = tool_call(read_hook(BASH), nonce="n")
    assert (call.door, call.tool, call.thread, call.call_id) == ("claude-code", "Bash", "b29bee4d", "toolu_1")
    assert tool_call(read_hook(DIALOG), nonce="n").call_id == "n"
    assert again(call, "bp_1").call_id == "toolu_1/bp_1"
    assert shown(read_hook(BASH)) == {"directory": "/srv/shop"}


def test_only_existing_arguments_are_editable_except_in_model_questions() -> None:
    assert tool_call(read_hook(BASH), editable=["timeout", "x", "command"], nonce="n").editable == (
        *("timeout", "command"),
    )
    assert tool_call(read_hook(BASH), nonce="n").editable == ()
    assert tool_call(read_hook(ask(REGION)), editable=["questions"], nonce="n").editable == ()


@pytest.mark.parametrize(
    ("tool", "name", "before"),
    [
        *(("Bash", "command", ""), ("Edit", "file_path", "Edit "), ("MultiEdit", "file_path", "MultiEdit ")),
        *(("Write", "file_path", "Write "), ("NotebookEdit", "notebook_path", "NotebookEdit ")),
        *(("WebFetch", "url", "WebFetch: "), ("mcp__shell__run", "command", "shell run: ")),
    ],
)
def test_a_question_describes_what_the_tool_would_do(tool: str, name: str, before: str) -> None:
    assert question(tool, {"other": "no", name: "this  one", "": "no"}) == f"{before}this one"


def test_the_question_for_an_unknown_tool_lists_its_arguments() -> None:
    assert question("mcp__github__push", {"branch": "x", "force": True}) == "github push branch=x force=true"
    assert question("mcp__github__push", {}) == "github push"


def test_files_in_the_working_directory_are_shown_with_relative_paths() -> None:
    assert question("Edit", {"file_path": "/srv/shop/src/app.py"}) == "Edit src/app.py"
    assert question("Edit", {"file_path": "/srv/shop/src/../../x"}) == "Edit /srv/shop/src/../../x"
    assert question("Edit", {"file_path": "/srv/shop2/app.py"}) == "Edit /srv/shop2/app.py"


def test_no_dialog_is_shown_when_the_permission_prompt_handles_the_call() -> None:
    dialog = read_hook(DIALOG)
    digest = tool_call(dialog, nonce="n").digest
    asked = {"callDigest": digest, "askedBy": "permission-prompt"}
    assert left_to_prompt(dialog, asked)
    assert not left_to_prompt(read_hook(BASH), asked)
    assert not left_to_prompt(dialog, {"callDigest": digest})
    assert not left_to_prompt(dialog, asked | {"callDigest": "x"})


@pytest.mark.parametrize(("length", "cut"), [(500, False), (501, True), (5000, True)])
def test_a_question_is_truncated_to_500_characters(length: int, *, cut: bool) -> None:
    asked = question("Bash", {"command": "x" * length})
    assert asked == ("x" * 499 + "…" if cut else "x" * length)
    assert len(asked) == 500


def test_model_questions_are_shown_verbatim() -> None:
    assert tool_call(read_hook(ask(REGION, SHOPS)), nonce="n").question == "Which region? Which shops?"


def test_payloads_that_differ_only_in_the_call_id_are_the_same_question() -> None:
    shows = {"tool": "Bash", "callId": "a"}
    assert same_question(shows, {"tool": "Bash", "callId": "b"})
    assert same_question(shows, {"tool": "Bash"})
    assert not same_question(shows, {"tool": "Edit", "callId": "a"})
    assert not same_question(shows, shows | {"more": 1})
    assert not same_question({"n": 1}, {"n": True})


def test_a_model_question_is_parsed_with_its_options() -> None:
    assert choices({"questions": [REGION, SHOPS]}) == [
        Choice("Which region?", ("eu", "us"), several=False),
        Choice("Which shops?", ("a", "b", "c"), several=True),
    ]
    for other in (False, "true", 1, None):
        assert choices({"questions": [REGION | {"multiSelect": other}]})[0].several is False


@pytest.mark.parametrize(
    ("questions", "pointer", "words"),
    [
        ("?", "/tool_input/questions", "must be a list of questions"),
        ({"question": "?"}, "/tool_input/questions", "must be a list of questions"),
        ([], "/tool_input/questions", "must be a list of questions"),
        (
            [REGION, SHOPS | {"question": "Which region?"}],
            "/tool_input/questions",
            "must not contain the same question twice",
        ),
        ([REGION | {"options": []}], "/tool_input/questions/0", "options with unique, non-empty labels"),
        ([REGION | {"options": "eu"}], "/tool_input/questions/0", "options with unique, non-empty labels"),
        ([REGION | {"options": [{"label": "eu"}, {"label": "eu"}]}], "/tool_input/questions/0", "non-empty labels"),
        ([REGION | {"options": [{"label": "eu"}, {"label": " "}]}], "/tool_input/questions/0", "non-empty labels"),
        ([REGION | {"options": [{"label": "eu"}, {"label": 7}]}], "/tool_input/questions/0", "non-empty labels"),
        ([REGION | {"options": [{"label": "eu"}, "us"]}], "/tool_input/questions/0", "non-empty labels"),
        ([REGION | {"options": [{"label": "eu"}, {}]}], "/tool_input/questions/0", "non-empty labels"),
        ([REGION | {"question": ""}], "/tool_input/questions/0/question", "must be a non-empty string"),
        ([SHOPS, REGION | {"question": None}], "/tool_input/questions/1/question", "must be a non-empty string"),
        ([REGION, 7], "/tool_input/questions/1", "non-empty labels"),
    ],
)
def test_the_error_for_a_malformed_model_question_includes_the_reason(questions: Any, pointer: str, words: str) -> None:
    where, message = refusal(choices, {"questions": questions})
    assert where == pointer
    assert words in message


def test_only_model_questions_have_terms() -> None:
    assert terms_of(read_hook(BASH)) == {}
    assert terms_of(called("Bash", {"questions": [REGION]})) == {}


def test_a_multi_select_form_has_a_field_per_option_and_one_for_free_text() -> None:
    assert terms_of(read_hook(ask(REGION, SHOPS))) == {
        "hard_stop": True,
        "form": {
            "type": "object",
            "properties": {
                "answer1": {"type": "string", "title": "Which region?", "enum": ["eu", "us", "Something else"]},
                "other1": {"type": "string", "title": "Something else: Which region?"},
                "answer2.1": {"type": "boolean", "title": "Which shops? a"},
                "answer2.2": {"type": "boolean", "title": "Which shops? b"},
                "answer2.3": {"type": "boolean", "title": "Which shops? c"},
                "other2": {"type": "string", "title": "Something else: Which shops?"},
            },
            "required": ["answer1"],
        },
    }


def test_a_single_question_is_a_form_only_if_it_is_multi_select() -> None:
    several = terms_of(read_hook(ask(SHOPS)))
    assert list(several["form"]["properties"]) == ["answer1.1", "answer1.2", "answer1.3", "other1"]
    assert (several["form"]["required"], "options" in several) == ([], False)
    assert terms_of(read_hook(ask(SHOPS | {"multiSelect": False})))["options"] == ["a", "b", "c"]
    two = terms_of(read_hook(ask(REGION, REGION | {"question": "And then?"})))
    assert two["form"]["required"] == ["answer1", "answer2"]


def test_the_something_else_option_is_not_duplicated_if_the_model_offers_it() -> None:
    own = {"question": "Which?", "options": [{"label": "Something else"}, {"label": "x"}]}
    fields = terms_of(read_hook(ask(own, SHOPS)))["form"]["properties"]
    assert fields["answer1"]["enum"] == ["Something else", "x"]


def answers(*questions: Any, option: str | None = None, **given_: Any) -> Any:
    named = {name.replace("_", "."): value for name, value in given_.items()}
    said = answered(read_hook(ask(*questions)), approval(), option=option, answers=named or None)
    return said.arguments["answers"] if said.approved else None


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"answer1_1": True}, "a"),
        ({"answer1_2": True, "answer1_3": True}, "b, c"),
        ({"answer1_1": True, "other1": " d "}, "a, d"),
        ({"other1": "d"}, "d"),
        ({"other1": " "}, None),
        ({"answer1_1": False}, None),
        ({"answer1_1": "true"}, None),
        ({"answer1_0": True, "answer1_4": True}, None),
        ({"answer2_1": True, "other2": "x"}, None),
        ({}, None),
    ],
    ids=str,
)
def test_a_multi_select_answer_lists_the_selected_options(given_: dict[str, Any], said: str | None) -> None:
    assert answers(SHOPS, **given_) == (None if said is None else {"Which shops?": said})


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"answer1": "eu"}, "eu"),
        ({"answer1": "eu", "other1": "Mars"}, "eu"),
        ({"answer1": "Something else", "other1": " Mars "}, "Mars"),
        ({"answer1": "Venus", "other1": "Mars"}, "Mars"),
        ({"other1": "Mars"}, "Mars"),
        ({"answer1": "Venus"}, None),
        ({"answer1": None, "other1": None}, None),
    ],
    ids=str,
)
def test_a_selected_option_takes_precedence_over_free_text(given_: dict[str, Any], said: str | None) -> None:
    told = answers(REGION, SHOPS, answer2_1=True, **given_)
    assert told == (None if said is None else {"Which region?": said, "Which shops?": "a"})


def test_an_option_can_answer_only_a_single_select_question() -> None:
    assert answers(REGION, option="us") == {"Which region?": "us"}
    assert answers(REGION, option="") is None
    assert answers(REGION, answer1="us") is None
    assert answers(SHOPS, option="a") is None


def test_answers_are_added_only_when_model_questions_are_approved() -> None:
    hook = read_hook(ask(REGION))
    said = answered(hook, approval(), option="eu", answers=None)
    assert (said.approved, said.reason) == (True, "Approved.")
    no = refused("Rejected by olga: No.")
    assert answered(hook, no, option="eu", answers=None) == no
    plain = approval(command="git push")
    assert answered(read_hook(BASH), plain, option="eu", answers={"answer1": "eu"}) == plain
    assert answered(read_hook(BASH), no, option=None, answers=None) == no


def output(hook: Hook, verdict: Verdict) -> Any:
    (said,) = spoken(hook, verdict).items()
    assert said[0] == "hookSpecificOutput"
    assert said[1].pop("hookEventName") == hook.event.value
    return said[1]


def test_each_verdict_produces_exactly_the_expected_output() -> None:
    before, dialog = read_hook(BASH), read_hook(DIALOG)
    changed, no = approval(command="git push --dry-run"), refused("Rejected: No.")
    edits = {"updatedInput": {"command": "git push --dry-run"}}
    assert output(before, changed) == {
        "permissionDecision": "allow",
        "permissionDecisionReason": "Approved.",
        **edits,
    }
    assert output(dialog, changed) == {"decision": {"behavior": "allow", **edits}}
    assert output(before, no) == {
        "permissionDecision": "deny",
        "permissionDecisionReason": "Rejected: No. The tool was not run.",
    }
    assert output(dialog, no) == {"decision": {"behavior": "deny", "message": "Rejected: No. The tool was not run."}}


@given(st.dictionaries(st.text(max_size=4), st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4)))
def test_unchanged_arguments_are_omitted_from_the_output(arguments: dict[str, Any]) -> None:
    hook = called("Bash", arguments)
    assert "updatedInput" not in output(hook, approval(**arguments))
    assert output(hook, approval(**arguments, changed=True))["updatedInput"] == {**arguments, "changed": True}


def test_the_output_for_a_deferred_call_includes_the_breakpoint_id() -> None:
    assert deferred(read_hook(BASH), breakpoint_id="bp_1") == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "defer",
            "permissionDecisionReason": "Approval requested: bp_1.",
        }
    }
