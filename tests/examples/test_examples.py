"""Each example runs as a separate process with a live server and a reviewer who answers over HTTP."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from assent.contracts.breakpoints import Breakpoint
from assent.kernel.settings import Settings
from assent.sdk.client import Assent
from tests.docs.pages import ROOT
from tests.support.nodes import prepared, server

APPROVE: Mapping[str, Any] = {"approved": True}


def reject(why: str) -> Mapping[str, Any]:
    return {"approved": False, "comment": why}


@dataclass
class Ended:
    """The result of a program: its output, its exit code, and the breakpoints that the reviewer saw."""

    said: list[str]
    code: int
    shown: list[Breakpoint]


@dataclass
class Desk:
    """A live server with a reviewer, and an agent token for the programs."""

    url: str
    agent_token: str
    reviewer: Assent

    def run(self, program: str, *arguments: str, answers: Sequence[Mapping[str, Any]] = ()) -> Ended:
        """Run a program and answer its questions in order, with one answer each."""
        started = subprocess.Popen(
            [sys.executable, str(ROOT / "examples" / program), *arguments],
            env=os.environ | {"ASSENT_URL": self.url, "ASSENT_TOKEN": self.agent_token, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            shown = [self._answered(answer, started) for answer in answers]
            output = started.communicate(timeout=300)[0]
        finally:
            started.kill()
            started.wait()
        return Ended(output.splitlines(), started.returncode, shown)

    def _answered(self, answer: Mapping[str, Any], program: "subprocess.Popen[str]") -> Breakpoint:
        while not (waiting := self.reviewer.list(status="waiting").items):
            assert program.poll() is None, f"It ended without asking: {program.communicate()[0]}"
            time.sleep(0.05)  # the list endpoint does not notify clients of changes
        (asked,) = waiting
        shown = self.reviewer.get(asked.id)
        self.reviewer.feedback(asked.id, {"digest": shown.digest, **answer})
        return shown

    def asked_by(self, agent: str) -> int:
        return len(self.reviewer.list(agent_id=agent).items)


@pytest.fixture(scope="module")
def desk(module_settings: Settings) -> Iterator[Desk]:
    agent, reviewer = prepared(module_settings, "agent", "reviewer")
    with server(module_settings) as process, Assent(process.url, reviewer) as client:
        yield Desk(process.url, agent, client)


def file_of(desk: Desk, shown: Breakpoint) -> str:
    """Return the text of the context file that the reviewer sees."""
    return desk.reviewer._http.get(f"/api/breakpoints/{shown.id}/files/0").text


def test_a_rejected_plan_is_revised_with_the_feedback(desk: Desk) -> None:
    ended = desk.run("retry_on_rejection.py", "Dark mode", answers=[reject("Think of the tests first."), APPROVE])
    first, second = ended.shown
    assert (first.question, first.attempt) == ("Review the implementation plan. Approve to proceed?", 1)
    assert "previousFeedback" not in first.payload
    assert (second.question, second.attempt) == ("Plan revised based on your feedback. Please review again.", 2)
    assert second.payload["previousFeedback"] == "Think of the tests first."
    assert (first.gate, second.gate) == ("plan-review", "plan-review")
    assert file_of(desk, first) == "# Dark mode\n\n1. Build it.\n2. Test it.\n"
    assert file_of(desk, second) == f"{file_of(desk, first)}\nRevised: Think of the tests first.\n"
    assert ended.said[:2] == ["Rejected (attempt 1): Think of the tests first.", "Approved. Building this plan:"]
    assert (ended.code, desk.reviewer.get(second.id).decision) == (0, "approved")


def test_a_plan_is_submitted_again_after_every_rejection(desk: Desk) -> None:
    answers = [reject("No."), {"approved": False}, reject("Nearly."), APPROVE]
    ended = desk.run("retry_on_rejection.py", "Search", answers=answers)
    assert [(each.attempt, each.payload.get("previousFeedback")) for each in ended.shown] == [
        (1, None),
        (2, "No."),
        (3, "No reason given."),
        (4, "Nearly."),
    ]
    assert ended.code == 0


def test_low_risk_changes_need_no_approval(desk: Desk) -> None:
    before = desk.asked_by("applier")
    ended = desk.run("conditional_approval.py", "docs/index.md", "src/page.py")
    assert (ended.said, ended.code) == (["Applied 2 low-risk changes."], 0)
    assert desk.asked_by("applier") == before


def test_high_risk_changes_are_applied_after_approval(desk: Desk) -> None:
    confirmed = {"approved": True, "confirm": "high-risk-change-review"}
    ended = desk.run("conditional_approval.py", "auth/login.py", "migrations/7.sql", answers=[confirmed])
    (shown,) = ended.shown
    assert shown.question == "High-risk changes detected (authentication, the database). Approve to proceed?"
    assert (shown.risk, shown.payload["changes"]) == ("high", ["auth/login.py", "migrations/7.sql"])
    assert (ended.said, ended.code) == (["Applied 2 high-risk changes."], 0)


def test_rejected_high_risk_changes_are_not_applied(desk: Desk) -> None:
    ended = desk.run("conditional_approval.py", "auth/login.py", answers=[reject("Not on a Friday.")])
    assert (ended.said, ended.code) == (["High-risk changes rejected: Not on a Friday."], 1)


TITLES = ["Design Review", "Implementation Review", "Deployment Approval"]


def test_each_stage_asks_after_the_previous_one_is_approved(desk: Desk) -> None:
    ended = desk.run("multi_stage_approval.py", "Dark mode", answers=[APPROVE, APPROVE, APPROVE])
    assert [each.title for each in ended.shown] == TITLES
    assert len({each.run_id for each in ended.shown}) == 1
    assert [file_of(desk, each).split()[1] for each in ended.shown] == ["Design", "Implementation", "Deployment"]
    assert ended.said == ["Design: approved", "Implementation: approved", "Deployment: approved", "Deployed Dark mode."]
    assert ended.code == 0


@pytest.mark.parametrize("last", [1, 2, 3])
def test_no_stage_asks_after_a_stage_is_rejected(desk: Desk, last: int) -> None:
    ended = desk.run("multi_stage_approval.py", "Search", answers=[*[APPROVE] * (last - 1), reject("Not yet.")])
    run = ended.shown[0].run_id
    raised = desk.reviewer.list(run_id=run, sort="created").items
    assert [each.title for each in raised] == TITLES[:last]
    assert [each.decision for each in raised] == [*["approved"] * (last - 1), "rejected"]
    assert ended.said[-1].endswith(": stopped (Not yet.)")
    assert (len(ended.said), ended.code) == (last, 1)


def test_three_consecutive_approvals_skip_the_review(desk: Desk) -> None:
    answers = [APPROVE, reject("Not this one."), APPROVE, APPROVE, APPROVE]
    names = ("tea", "coffee", "milk", "water", "juice", "cocoa", "broth")
    ended = desk.run("auto_approval.py", *names, answers=answers)
    assert [each.auto_approval["consecutiveApprovals"] for each in ended.shown] == [0, 1, 0, 1, 2]
    assert {each.gate for each in ended.shown} == {"confirm.star-repo"}
    waited = "No rule matches confirm.star-repo; {} of 3 approvals in a row."
    counted = "Approved by people 3 times in a row; autoApproveAfterN is 3."
    assert ended.said == [
        f"tea: starred (owner; {waited.format(0)})",
        f"coffee: skipped (owner; {waited.format(1)})",
        f"milk: starred (owner; {waited.format(0)})",
        f"water: starred (owner; {waited.format(1)})",
        f"juice: starred (owner; {waited.format(2)})",
        f"cocoa: starred (rule:autoApproveAfterN; {counted})",
        f"broth: starred (rule:autoApproveAfterN; {counted})",
        "Starred 6 of 7.",
    ]
    listed = desk.reviewer.list(gate="confirm.star-repo", sort="created").items
    assert [each.decided_by for each in listed] == [*["person:owner"] * 5, *["rule:autoApproveAfterN"] * 2]
