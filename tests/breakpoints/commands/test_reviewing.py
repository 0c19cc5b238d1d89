"""The commands that reviewers use to list, show and answer breakpoints."""

import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assent.core.tool_calls import ToolCall
from tests.cli.commands import COMMAND, Desk, here, here_json, run

EVIL = "Pay \x1b[31m[red]me[/red]\u202e now"
SHOWN = "Pay \\x1b[31m[red]me[/red]\\u202e now"


def review(desk: Desk, *arguments: str) -> Any:
    return here(*arguments, ASSENT_URL=desk.url, ASSENT_TOKEN=desk.reviewer_token)


def review_json(desk: Desk, *arguments: str) -> Any:
    return here_json(*arguments, ASSENT_URL=desk.url, ASSENT_TOKEN=desk.reviewer_token)


def on_a_terminal(desk: Desk, *arguments: str, typed: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command with a terminal as its standard input, and type the given text."""
    keyboard, terminal = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments], env=desk.as_reviewer(), stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    os.close(terminal)
    os.write(keyboard, typed.encode())
    out, err = process.communicate(timeout=300)
    os.close(keyboard)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def test_the_inbox_lists_only_pending_breakpoints_by_default(desk: Desk) -> None:
    waits, ended = desk.asked(tags=["inbox-1"]), desk.asked(tags=["inbox-1"])
    review(desk, "reject", ended.id)

    listed = review_json(desk, "inbox", "--tag", "inbox-1")["items"]
    everything = review_json(desk, "inbox", "--tag", "inbox-1", "--all")["items"]

    assert [each["id"] for each in listed] == [waits.id]
    assert {each["id"] for each in everything} == {waits.id, ended.id}


def test_the_inbox_lists_tool_calls_by_their_action(desk: Desk) -> None:
    call = ToolCall(door="x", tool="Bash", arguments={"command": "ls\u202e"}, thread="t", call_id="c")
    asked = desk.asked(call.question, title=call.title, tags=["tool-calls"], payload=call.payload)
    titled = desk.asked("Go?", title="Look around", payload=call.payload)

    assert "\tls\\u202e\t" in run("inbox", "--tag", "tool-calls", env=desk.as_reviewer()).stdout
    assert "ls\\u202e" in run("show", asked.id, env=desk.as_reviewer()).stdout
    shown = [line.split() for line in run("show", titled.id, env=desk.as_reviewer()).stdout.splitlines()]
    assert ["action", "ls\\u202e"] in shown
    assert ["title", "Look", "around"] in shown


def test_inbox_filters_are_passed_to_the_server(desk: Desk) -> None:
    asked = desk.asked("Launch the wombat?", agent_id="wombatist", breakpoint_id="launch.wombat", expert="owner")
    desk.asked("Launch the wombat?", agent_id="somebody-else")

    arguments = ("--agent-id", "wombatist", "--gate", "launch.wombat", "--mine", "--q", "wombat", "--sort", "created")
    listed = review_json(desk, "inbox", *arguments, "--status", "waiting", "--limit", "5")["items"]

    assert [each["id"] for each in listed] == [asked.id]
    former = review_json(desk, "inbox", "--agent", "wombatist")["items"]
    assert [each["id"] for each in former] == [asked.id]


def test_a_limited_inbox_returns_a_cursor_for_the_next_page(desk: Desk) -> None:
    for _ in range(3):
        desk.asked(tags=["pages"])

    listed = review_json(desk, "inbox", "--tag", "pages", "--limit", "2")

    assert len(listed["items"]) == 2
    assert listed["nextCursor"]


def test_without_a_terminal_tables_are_tab_separated_and_uncolored(desk: Desk) -> None:
    asked = desk.asked(tags=["tabs"])

    done = run("inbox", "--tag", "tabs", env=desk.as_reviewer() | {"COLUMNS": "20"})

    header, row = done.stdout.splitlines()
    assert header.split("\t")[0] == "ID"
    assert row.split("\t")[:2] == [asked.id, "waiting"]
    assert "\x1b" not in done.stdout


def test_agent_text_cannot_inject_terminal_control_sequences(desk: Desk) -> None:
    asked = desk.asked(EVIL, title=EVIL, tags=["evil", "[blink]"], expert="owner", payload={"more": EVIL})
    review(desk, "comment", asked.id, EVIL)

    shown = review(desk, "show", asked.id).stdout
    listed = review(desk, "inbox", "--tag", "evil").stdout
    approval = run("approve", asked.id, "--yes", env=desk.as_reviewer())

    for text in (shown, listed, approval.stdout, approval.stderr):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert shown.count(SHOWN) == 3
    assert SHOWN in listed
    assert SHOWN in approval.stderr
    assert approval.returncode == 0


def test_show_prints_the_question_answers_and_comments(desk: Desk) -> None:
    asked = desk.asked("Paint it?", options=["red", "blue"])
    review(desk, "comment", asked.id, "Which red?")
    review(desk, "approve", asked.id, "--yes", "--option", "red", "--comment", "Dark.")

    shown = review(desk, "show", asked.id).stdout

    for text in (
        "Paint it?",
        "red | blue",
        "Which red?",
        "owner approved: red",
        "Dark.",
        "approved",
        "created by agent:",
    ):
        assert text in shown
    assert review_json(desk, "show", asked.id)["digest"] == asked.digest


def test_approve_without_a_terminal_requires_the_yes_option(desk: Desk) -> None:
    asked = desk.asked()

    done = run("approve", asked.id, env=desk.as_reviewer())

    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert desk.found(asked.id).status == "waiting"


@pytest.mark.parametrize("typed", ["\n", "n\n", "\x04"])
def test_replying_anything_but_yes_leaves_the_breakpoint_pending(desk: Desk, typed: str) -> None:
    asked = desk.asked()

    done = on_a_terminal(desk, "approve", asked.id, typed=typed)

    assert done.returncode == 1
    assert desk.found(asked.id).status == "waiting"


def test_replying_yes_approves_the_displayed_content(desk: Desk) -> None:
    asked = desk.asked("Ship the kiwi?")

    done = on_a_terminal(desk, "approve", asked.id, typed="y\n")

    assert done.returncode == 0
    assert b"Ship the kiwi?" in done.stderr
    assert asked.digest[:12].encode() in done.stderr
    assert asked.gate.encode() in done.stderr
    assert b"tester" in done.stderr
    with desk.reviewer() as reviewer:
        responded = next(event for event in reviewer.events(asked.id) if event.type == "responded")
    assert responded.metadata["shownDigest"] == asked.digest


def test_approving_high_risk_requires_the_confirm_option(desk: Desk) -> None:
    asked = desk.asked(risk="high", breakpoint_id="launch.missile")

    refused = review(desk, "approve", asked.id, "--yes")
    approved = review(desk, "approve", asked.id, "--yes", "--confirm", "launch.missile")

    assert refused.exit_code == 1
    assert "--confirm" in refused.stderr
    assert approved.exit_code == 0


def test_answers_are_parsed_as_the_types_in_the_form(desk: Desk) -> None:
    form = {"type": "object", "properties": {"count": {"type": "integer"}, "zip": {"type": "string"}}}
    asked = desk.asked(form=form)

    decided = review_json(desk, "approve", asked.id, "--yes", "--answer", "count=3", "--answer", "zip=012")

    assert decided["result"]["answers"] == {"count": 3, "zip": "012"}


def test_answering_an_ended_breakpoint_exits_with_1_and_its_outcome(desk: Desk) -> None:
    asked = desk.asked()
    review(desk, "reject", asked.id, "--comment", "No.")

    for again in (("approve", "--yes"), ("reject",)):
        done = review(desk, again[0], asked.id, *again[1:])
        assert done.exit_code == 1
        assert "rejected" in done.stderr
    assert desk.found(asked.id).decision == "rejected"


def test_an_agent_can_cancel_its_own_breakpoint(desk: Desk) -> None:
    asked = desk.asked()

    cancelled = here_json("cancel", asked.id, ASSENT_URL=desk.url, ASSENT_TOKEN=desk.agent_token)

    assert cancelled["status"] == "cancelled"


@pytest.mark.parametrize("command", [["show", "bp_nothing"], ["cancel", "../tokens"], ["comment", "bp_nothing", "x"]])
def test_errors_are_printed_as_one_line_without_a_traceback(desk: Desk, command: list[str], tmp_path: Path) -> None:
    done = run(*command, env=desk.as_reviewer(), cwd=tmp_path)

    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


def test_approving_with_an_agent_token_names_the_missing_permission(desk: Desk) -> None:
    asked = desk.asked()

    done = here("approve", asked.id, "--yes", ASSENT_URL=desk.url, ASSENT_TOKEN=desk.agent_token)

    assert done.exit_code == 1
    assert "lacks the “decide” permission" in done.stderr


def test_json_output_is_always_a_single_line(desk: Desk) -> None:
    asked = desk.asked()

    for command in (["inbox"], ["show", asked.id], ["comment", asked.id, "Hm."], ["reject", asked.id]):
        done = review(desk, *command, "--json")
        assert done.exit_code == 0
        assert len(done.stdout.splitlines()) == 1
        json.loads(done.stdout)
