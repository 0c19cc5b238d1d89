"""Headlines show the command, file, URL or amount, regardless of the argument's name."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.headlines import LONGEST_HEADLINE, Headline, call_headline, headline
from assent.core.safe_text import visible
from assent.core.tool_calls import ToolCall

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("tool", "arguments", "line"),
    [
        ("Bash", {"command": "git push --force", "description": "Push"}, "git push --force"),
        ("bash", {"cmd": "ls"}, "ls"),
        ("local_shell", {"command": ["rm", "-r", "old logs"]}, "rm -r 'old logs'"),
        ("deploy", {"command": "make all"}, "deploy: make all"),
        ("Write", {"file_path": "/srv/app.py", "content": "x"}, "Write /srv/app.py"),
        ("WebFetch", {"url": "https://example.com", "prompt": "x"}, "WebFetch: https://example.com"),
        ("run_sql", {"sql": "DROP TABLE orders"}, "run_sql: DROP TABLE orders"),
        ("refund", {"amount": 129.5, "currency": "eur", "to": "ann"}, "refund 129.5 EUR to ann"),
        ("pay", {"amount": "1,000", "recipient": "bob"}, "pay 1,000 to bob"),
        ("mcp__stripe__create_refund", {"amount": 5}, "stripe create_refund 5"),
        ("mcp__github__create_issue", {"repo": "a/b", "labels": ["x"]}, 'github create_issue repo=a/b labels=["x"]'),
        ("deploy", {"target": "production", "force": True}, "deploy target=production force=true"),
        ("deploy", {}, "deploy"),
    ],
)
def test_the_headline_of_a_call_shows_its_action(tool: str, arguments: dict[str, Any], line: str) -> None:
    assert call_headline(tool, arguments) == line
    assert headline(None, "a.gate", {"tool": tool, "arguments": arguments, "question": "Run it?"}).text == line


@pytest.mark.parametrize("value", [None, "", " \n", 7, {}, ["x", 7], [[]]])
def test_a_command_that_is_not_text_is_ignored(value: object) -> None:
    assert not call_headline("Bash", {"command": value}).startswith("Bash:")
    assert headline("Clean up", "a.gate", {"command": value}).text == "Clean up"


@pytest.mark.parametrize("amount", [True, None, "", "lots", {"value": 5}])
def test_an_amount_that_is_not_a_number_is_ignored(amount: object) -> None:
    assert call_headline("pay", {"amount": amount}).startswith("pay amount=")


def test_line_breaks_in_a_command_are_shown_as_symbols() -> None:
    assert call_headline("Bash", {"command": "git status\r\n  rm -rf /\n"}) == "git status ⏎ rm -rf /"


def test_hidden_characters_are_kept_so_that_they_can_be_marked() -> None:
    line = call_headline("Bash", {"command": "echo safe\u202e\u2028\x1frm"})
    assert visible(line) == "echo safe⟦U+202E⟧⟦U+2028⟧⟦U+001F⟧rm"


def test_a_long_command_is_truncated_with_an_ellipsis() -> None:
    line = call_headline("Bash", {"command": "x" * 600})
    assert line == "x" * (LONGEST_HEADLINE - 1) + "…"


def test_a_command_takes_precedence_over_the_title_which_is_kept() -> None:
    payload = {"tool": "Bash", "arguments": {"command": "git push"}, "question": "Push?"}
    assert headline("Ship 4.12", "tool.bash", payload) == Headline("git push", "Ship 4.12", code=True)


@pytest.mark.parametrize("title", [None, "Bash", "git push", "git pu…"])
def test_a_title_that_repeats_the_command_is_not_shown_twice(title: str | None) -> None:
    payload = {"tool": "Bash", "arguments": {"command": "git push"}}
    assert headline(title, "tool.bash", payload) == Headline("git push", code=True)


def test_a_title_takes_precedence_over_uninformative_arguments() -> None:
    payload = {"function": "shop.release.deploy", "arguments": {"target": "prod"}, "question": "Go?"}
    assert headline("Deploy 4.12 to production", "call.deploy", payload).text == "Deploy 4.12 to production"
    assert headline("deploy", "call.deploy", payload).text == "deploy target=prod"


def test_the_headline_falls_back_to_the_title_question_or_gate() -> None:
    assert headline("Deploy", "a.gate", {"question": "Now?"}).text == "Deploy"
    assert headline(None, "a.gate", {"question": "Deploy\nnow?"}).text == "Deploy now?"
    assert headline(None, "a.gate", {"question": " "}).text == "a.gate"
    assert headline(" ", "a.gate", {}).text == "a.gate"


def test_the_headline_for_assent_gate_is_the_gated_command() -> None:
    payload = {"command": ["rm", "-r", "old logs"], "program": "/bin/rm"}
    assert headline("Clean up", "shell.rm", payload) == Headline("rm -r 'old logs'", "Clean up", code=True)


def test_files_in_the_payload_directory_are_shown_with_relative_paths() -> None:
    payload = {"tool": "Edit", "arguments": {"file_path": "/srv/shop/a.py"}, "directory": "/srv/shop"}
    assert headline(None, "tool.edit", payload).text == "Edit a.py"


def test_a_tool_call_uses_its_headline_as_the_title() -> None:
    call = ToolCall(door="x", tool="Bash", arguments={"command": "git push"}, thread="t", call_id="c")
    assert (call.title, call.question) == ("git push", "git push")
    assert headline(call.title, call.gate, call.payload).text == call.title


@given(
    st.text() | st.none(),
    st.dictionaries(
        st.sampled_from(["tool", "function", "arguments", "command", "directory", "question"]),
        json_values | st.dictionaries(st.sampled_from(["command", "path", "amount", "to", "currency"]), json_values),
    ),
)
def test_every_payload_has_a_one_line_headline(title: str | None, payload: dict[str, Any]) -> None:
    found = headline(title, "a.gate", payload)
    assert found.text
    assert len(found.text) <= LONGEST_HEADLINE
    assert "\n" not in found.text
