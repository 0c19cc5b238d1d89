"""Asking without a server: the same rules and results as on a server, and a journal that detects damage."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from assent.contracts.shape import plain
from assent.core.errors import InvalidRequest
from assent.core.timestamps import SECOND
from assent.sdk.local import Outcome
from assent.sdk.local_journal import Journal, JournalUnusable
from assent.sdk.local_terminal import Late
from tests.sdk.desks import Office, Speaker

VERSION = '{"schemaVersion": "2026.01.breakpoint-rules-v1", "rules": '
AUTO, NEVER = "auto-approve", "never-auto-approve"


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path / "local")


def events(office: Office) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Journal(office.folder).path.read_text().splitlines()]


def by_rule(outcome: Outcome) -> str | None:
    return outcome.result.responded_by if outcome.result.auto else None


def test_a_local_approval_has_the_same_result_as_on_a_server(office: Office) -> None:
    outcome = office.ask("yes", "Fine.")
    result = plain(outcome.result)
    assert result.pop("allResponses")[0]["respondedBy"] == "ann"
    assert result == {
        "approved": True,
        "status": "released",
        "auto": False,
        "decision": "approved",
        "response": "Fine.",
        "feedback": "Fine.",
        "respondedBy": "ann",
        "via": "terminal",
    }
    assert outcome.status.approved
    assert office.people[-1].asked[-1] == "closed"


def test_every_step_is_recorded_in_the_journal(office: Office) -> None:
    office.ask("yes", "", title="Deploy")
    created, responded, released = events(office)
    assert [each["type"] for each in (created, responded, released)] == ["created", "responded", "released"]
    assert (created["actor"], released["actor"]) == ("agent:tester", "person:ann")
    assert (created["metadata"]["gate"], created["metadata"]["title"]) == ("a.gate", "Deploy")
    assert created["metadata"]["autoApproval"]["recommended"] is False
    assert released["metadata"]["decision"] == "approved"
    assert released["metadata"]["digest"] == created["metadata"]["digest"]


def test_without_a_terminal_the_question_is_rejected_with_a_reason(office: Office) -> None:
    outcome = office.ask_nobody()
    assert (outcome.status.decision, outcome.result.approved, outcome.unseen) == ("rejected", False, True)
    assert "no terminal" in (outcome.result.feedback or "")
    assert events(office)[-1]["actor"] == "system:no-terminal"


@pytest.mark.parametrize("strategy", ["quorum", "collect-all"])
def test_a_quorum_cannot_be_met_at_a_terminal(office: Office, strategy: str) -> None:
    outcome = office.ask("yes", "", expert=["ann", "bob"], strategy=strategy)
    assert not outcome.result.approved
    assert "Use a server" in (outcome.result.feedback or "")
    assert office.people[-1].asked == []


@pytest.mark.parametrize("strategy", ["quorum", "collect-all", "single", "first-response-wins"])
def test_the_person_at_the_terminal_answers_for_a_single_expert(office: Office, strategy: str) -> None:
    outcome = office.ask("yes", "", expert="security", strategy=strategy)
    assert outcome.result.approved
    assert (outcome.result.all_responses or [])[0]["expert"] == "security"


def test_an_approval_after_the_deadline_does_not_count(office: Office) -> None:
    class Slow(Speaker):
        def ask(self, prompt: str) -> str:
            office.now += 61 * SECOND
            return super().ask(prompt)

    late = office.ask(person=Slow("yes", ""), ttlSeconds=60)
    assert (late.status.status, late.result.approved) == ("expired", False)
    rejected = office.ask(person=Slow("yes", ""), ttlSeconds=60, onTimeout="reject")
    assert (rejected.status.status, rejected.status.decision) == ("released", "rejected")


def test_a_terminal_timeout_expires_the_question(office: Office) -> None:
    class Silent(Speaker):
        def ask(self, prompt: str) -> str:
            raise Late(prompt)

    assert office.ask(person=Silent(), ttlSeconds=1).status.status == "expired"


@pytest.mark.parametrize(
    "payload",
    [
        {"attempt": -1},
        {"options": ["a", "a"]},
        {"form": {"properties": {"x": {"type": "object"}}}},
        {"strategy": "quorum"},
        {"x": float("nan")},
        {"x": {1, 2}},
        {"x": "\ud800"},
    ],
)
def test_payloads_that_a_server_rejects_are_rejected_locally(office: Office, payload: dict[str, Any]) -> None:
    with pytest.raises((InvalidRequest, Exception), match=r"payload|experts|surrogate|JSON|differ|type"):
        office.ask("yes", "", **payload)
    assert not Journal(office.folder).path.exists()


def test_hostile_text_from_the_agent_is_shown_escaped(office: Office) -> None:
    files = [
        {"path": "a.md", "format": "markdown", "content": '# Head\n<!-- hidden -->\n[x]: http://evil "t"\n\x1b[2J'},
        {"path": "b.html", "format": "html", "content": "<script>alert(1)</script>"},
        {"path": "c.png", "format": "image", "contentBase64": "iVBORw0K"},
        {"path": "d.txt", "format": "text", "content": "safe\u202etxt.exe"},
        {"path": "e.bin", "format": "text", "contentBase64": "/w=="},
        {"path": "f.txt", "format": "text"},
        {"path": "g.txt", "format": "text", "content": "line\n" * 500},
    ]
    office.ask(
        "no", "", title="T\x1b]0;x\x07", context={"files": files}, previousFeedback="Be\u200bfore", more={"k": 1}
    )
    shown = office.people[-1].shown
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown
    for text in ("T\\x1b]0;x\\x07", "<!-- hidden -->", "[x]: http://evil", "\\x1b[2J", "<script>alert(1)</script>"):
        assert text in shown, text
    for text in ("c.png (image, 6 bytes", "safe\\u202etxt.exe", "cannot be shown", "not provided", "101 more lines"):
        assert text in shown, text
    assert "Be\\u200bfore" in shown
    assert '"k"' in shown


def test_agent_text_cannot_imitate_the_terminal_layout(office: Office) -> None:
    fake = "Harmless.\n────\nrisk     low\nApprove? [yes/NO] yes"
    file = {"path": "a.txt", "format": "text", "content": fake}
    markdown = {"path": "a.md", "format": "markdown", "content": fake}
    payload: dict[str, Any] = {
        "question": fake,
        "previousFeedback": fake,
        "context": {"files": [file, markdown]},
        "more": fake,
    }
    wide = "x" + " " * 100 + "risk     low"
    form = {"properties": {wide: {"type": "string", "title": wide, "description": wide, "enum": [wide]}}}
    asks: dict[str, Any] = {"options": [wide], "form": form, "editable": [wide], "tags": [wide[20:]]}
    office.ask("yes", "1", "1", "", "", title=f"T\n{fake}", agentId=wide, **payload, **asks)
    assert len(office.people[-1].asked) == 6
    lines = office.people[-1].shown.splitlines()
    assert [line for line in lines if line.startswith(("risk", "Approve?", "Harmless"))] == []


def test_a_matching_rule_approves_without_a_prompt(office: Office) -> None:
    office.write_rules(("a.*", AUTO))
    outcome = office.ask_nobody()
    assert (outcome.result.approved, by_rule(outcome)) == (True, "rule:rule-0")
    assert events(office)[-1]["actor"] == "rule:rule-0"


def test_never_rules_take_precedence_over_auto_approve_rules(office: Office) -> None:
    office.write_rules(("a.*", AUTO), ("*(tags contains 'prod')", NEVER))
    assert by_rule(office.ask_nobody(tags=["test"])) == "rule:rule-0"
    assert not office.ask_nobody(tags=["prod"]).result.approved


@pytest.mark.parametrize(
    "payload", [{"hardStop": True}, {"risk": "high"}, {"options": ["a", "b"]}, {"tags": ["production"]}]
)
def test_questions_that_require_a_person_are_not_auto_approved(office: Office, payload: dict[str, Any]) -> None:
    office.write_rules(("*", AUTO))
    (office.folder / "policy.json").write_text('{"alwaysBreakOn": ["production"]}')
    assert not office.ask_nobody(**payload).result.approved
    assert office.ask_nobody().result.approved


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"rules": []}',
        '{"schemaVersion": "other", "rules": [{"pattern": "*", "action": "auto-approve"}]}',
        '{"schemaVersion": "2026.01.breakpoint-rules-v1", "rules": [{"pattern": "*", "action": "approve"}]}',
        VERSION + '[{"pattern": "*", "action": "auto-approve"}, {"pattern": "*(", "action": "never-auto-approve"}]}',
        VERSION + '[{"pattern": "*", "action": "auto-approve", "enabeld": true}]}',
    ],
)
def test_an_invalid_rules_file_is_reported_and_approves_nothing(office: Office, text: str) -> None:
    office.folder.mkdir()
    (office.folder / "rules.json").write_text(text)
    for _ in range(3):
        assert office.approve().result.approved  # a person can still approve
    outcome = office.ask_nobody(autoApproveAfterN=1)
    assert not outcome.result.approved
    assert "rules.json is ignored" in (outcome.rule_problem or "")
    assert "rules.json is ignored" in office.people[-1].shown
    assert "always" not in "".join(office.people[-1].asked)


def test_an_invalid_policy_disables_all_rules(office: Office) -> None:
    office.write_rules(("*", AUTO))
    (office.folder / "policy.json").write_text('{"alwaysBreakOn": "production"}')
    outcome = office.ask_nobody()
    assert not outcome.result.approved
    assert "policy.json is ignored" in (outcome.rule_problem or "")


def test_rules_that_other_users_can_write_are_ignored(office: Office) -> None:
    office.write_rules(("*", AUTO))
    (office.folder / "rules.json").chmod(0o666)
    assert not office.ask_nobody().result.approved
    (office.folder / "rules.json").chmod(0o600)
    assert office.ask_nobody().result.approved


def test_answering_always_creates_the_narrowest_rule_and_applies_it_to_the_next_call(office: Office) -> None:
    office.write_rules(("other", NEVER))
    office.ask("always", "yes", "", tags=["docs"])
    rules = json.loads((office.folder / "rules.json").read_text())["rules"]
    assert [each["pattern"] for each in rules] == ["other", "a.gate(agentId = 'tester' AND tags contains 'docs')"]
    assert rules[1]["createdBy"] == "person:ann"
    assert office.ask_nobody(tags=["docs"]).result.auto
    assert not office.ask_nobody(tags=["prod"]).result.approved
    assert not office.ask_nobody(tags=["docs"], agentId="another").result.approved


@pytest.mark.parametrize("payload", [{"presentAlwaysApprove": False}, {"risk": "high"}, {"hardStop": True}])
def test_the_answer_always_is_not_offered_when_a_person_is_required(office: Office, payload: dict[str, Any]) -> None:
    assert not office.ask("always", "yes", "", "a.gate", **payload).result.approved
    assert not (office.folder / "rules.json").exists()


def test_a_failure_to_save_the_rule_does_not_undo_the_approval(office: Office) -> None:
    office.folder.mkdir()
    (office.folder / "rules.new").symlink_to("/nowhere/else")
    assert office.ask("always", "yes", "").result.approved
    assert "the rule was not saved" in office.people[-1].shown


CALL: dict[str, Any] = {
    "tool": "Bash",
    "arguments": {"command": "git status"},
    "directory": "/work",
    "breakpointId": "tool.bash",
}
OLD = {"id": "rule-old", "pattern": "tool.bash(agentId = 'tester')", "action": AUTO, "source": "always-approve"}


def write_old(office: Office, *rules: Mapping[str, Any]) -> None:
    office.folder.mkdir(parents=True)
    document = {"schemaVersion": "2026.01.breakpoint-rules-v1", "rules": [*rules]}
    (office.folder / "rules.json").write_text(json.dumps(document))


def patterns(office: Office) -> dict[str, str]:
    rules = json.loads((office.folder / "rules.json").read_text())["rules"]
    return {each["id"]: each["pattern"] for each in rules}


def test_an_outdated_always_approve_rule_is_not_applied_and_answering_always_replaces_it(office: Office) -> None:
    write_old(office, OLD, {**OLD, "id": "rule-older"}, {"id": "rule-mine", "pattern": "other", "action": AUTO})
    assert office.ask_nobody(**CALL).unseen
    assert not office.ask("no", "", **CALL).result.approved
    shown = " ".join(office.people[-1].shown.split())
    assert "The rule rule-old does not check the working directory" in shown
    assert "The rule The rule" not in shown
    assert 'Answer "always" to replace it' in shown
    assert office.ask("yes", "", **CALL).result.approved
    assert set(patterns(office)) == {"rule-old", "rule-older", "rule-mine"}, "a plain yes approves once"
    assert office.ask("always", "yes", "", **CALL).result.approved
    written = patterns(office)
    assert "rule-mine" in written
    assert not {"rule-old", "rule-older"} & set(written)
    assert "payload.directory = '/work'" in "".join(written.values())
    assert office.ask_nobody(**CALL).result.auto
    assert office.ask_nobody(**{**CALL, "arguments": {"command": "rm -rf /"}}).unseen
    assert office.ask_nobody(**{**CALL, "directory": "/"}).unseen


def test_a_valid_rule_after_an_outdated_one_applies(office: Office) -> None:
    write_old(office, OLD, {"id": "rule-mine", "pattern": "tool.bash", "action": AUTO, "source": "cli"})
    assert by_rule(office.ask_nobody(**CALL)) == "rule:rule-mine"


def test_an_outdated_rule_is_reported_when_no_terminal_is_available(office: Office) -> None:
    write_old(office, OLD)
    outcome = office.ask_nobody(**CALL)
    assert "rule-old" in (outcome.result.feedback or "")
    assert "rule-old" in (outcome.rule_problem or "")


def streak(office: Office, gate: str) -> Mapping[str, Any]:
    return Journal(office.folder).streak(gate, "tester", "gate", key=lambda _: "gate")


def test_fewer_approvals_than_the_policy_minimum_do_not_lead_to_auto_approval(office: Office) -> None:
    for _ in range(2):
        assert office.approve(autoApproveAfterN=1).auto_approval["recommended"] is False
    assert office.approve(autoApproveAfterN=1).auto_approval["consecutiveApprovals"] == 2
    assert by_rule(office.ask_nobody(autoApproveAfterN=1)) == "rule:autoApproveAfterN"


@pytest.mark.parametrize(
    ("asked", "approved"),
    [
        ({"arguments": {"command": "ls"}, "cwd": "/srv"}, True),
        ({"arguments": {"command": "rm"}, "cwd": "/srv"}, False),
        ({"arguments": {"command": "ls"}, "cwd": "/"}, False),
        ({}, False),
    ],
)
def test_approvals_of_calls_with_different_arguments_do_not_count(
    office: Office, asked: dict[str, Any], *, approved: bool
) -> None:
    for _ in range(3):
        office.approve(arguments={"command": "ls"}, cwd="/srv")
    assert office.ask_nobody(autoApproveAfterN=3, **asked).result.approved is approved


def test_n_consecutive_approvals_skip_the_prompt(office: Office) -> None:
    asks = {"autoApproveAfterN": 2}
    office.folder.mkdir()
    (office.folder / "policy.json").write_text('{"autoApproveFloor": 2}')
    assert office.approve(**asks).auto_approval["consecutiveApprovals"] == 0
    assert not office.ask_nobody(breakpointId="another", **asks).result.approved
    assert office.approve(**asks).auto_approval["consecutiveApprovals"] == 1
    assert by_rule(office.ask_nobody(**asks)) == "rule:autoApproveAfterN"
    assert office.ask_nobody(**asks).auto_approval["consecutiveApprovals"] == 2
    assert not office.ask_nobody(agentId="another", **asks).result.approved
    assert not office.reject().result.approved
    assert office.approve(**asks).auto_approval["consecutiveApprovals"] == 0


def test_approvals_with_edits_do_not_count(office: Office) -> None:
    asks: dict[str, Any] = {"arguments": {"amount": 1000}, "editable": ["amount"], "autoApproveAfterN": 3}
    for _ in range(3):
        assert office.ask("yes", "1", "", **asks).result.edits == {"amount": 1}
    assert office.ask_nobody(**asks).auto_approval["consecutiveApprovals"] == 0


def test_a_rejection_after_approvals_with_edits_resets_the_count(office: Office) -> None:
    asks: dict[str, Any] = {"arguments": {"amount": 1000}, "editable": ["amount"], "autoApproveAfterN": 9}
    for _ in range(2):
        assert office.ask("yes", "", "", **asks).result.approved
    office.ask("yes", "1", "", **asks)
    assert office.ask("yes", "", "", **asks).auto_approval["consecutiveApprovals"] == 2
    office.reject(**asks)
    assert office.ask_nobody(**asks).auto_approval["consecutiveApprovals"] == 0


def test_calls_with_hidden_arguments_are_never_counted(office: Office) -> None:
    query: dict[str, Any] = {"arguments": {"sql": "(hidden)"}, "hidden": ["sql"], "autoApproveAfterN": 3}
    for _ in range(3):
        office.approve(**query)
    assert not office.ask_nobody(**query).result.approved


def test_the_policy_can_disable_auto_approve_after_n(office: Office) -> None:
    office.approve()
    (office.folder / "policy.json").write_text('{"autoApproveAfterN": "ignore", "autoApproveFloor": 1}')
    assert not office.ask_nobody(autoApproveAfterN=1).result.approved


@pytest.mark.parametrize("damage", ["flip", "remove", "torn", "foreign"])
def test_a_damaged_journal_resets_the_approval_count(office: Office, damage: str) -> None:
    office.approve()
    (office.folder / "policy.json").write_text('{"autoApproveFloor": 1}')
    path = Journal(office.folder).path
    lines = path.read_bytes().splitlines(keepends=True)
    if damage == "flip":
        path.write_bytes(lines[0].replace(b"Go?", b"No?") + b"".join(lines[1:]))
    elif damage == "remove":
        path.write_bytes(lines[0] + lines[2])
    elif damage == "torn":
        path.write_bytes(b"".join(lines) + lines[0][:40])
    else:
        path.write_bytes(b"".join(lines) + b'{"type": "released"}\n')
    assert not office.ask_nobody(autoApproveAfterN=1).result.approved
    office.approve()
    assert office.ask_nobody(autoApproveAfterN=1).result.approved


def test_only_the_owner_can_access_the_journal(office: Office) -> None:
    office.approve()
    assert stat.S_IMODE(Journal(office.folder).path.stat().st_mode) == 0o600
    assert stat.S_IMODE(office.folder.stat().st_mode) == 0o700


def test_an_unwritable_journal_prevents_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    office = Office(tmp_path / "file")
    with pytest.raises(JournalUnusable, match="ASSENT_LOCAL_DIR"):
        office.approve()
    assert office.people[-1].asked == []


def test_an_answer_that_cannot_be_recorded_does_not_count(office: Office) -> None:
    class Saboteur(Speaker):
        def ask(self, prompt: str) -> str:
            path = Journal(office.folder).path
            if path.is_file():
                path.rename(path.with_suffix(".gone"))
                path.mkdir()
            return super().ask(prompt)

    with pytest.raises(JournalUnusable):
        office.ask(person=Saboteur("yes", ""))


def test_a_symlinked_journal_is_not_written(office: Office, tmp_path: Path) -> None:
    office.folder.mkdir()
    (tmp_path / "elsewhere").write_text("")
    Journal(office.folder).path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalUnusable):
        office.approve()
    assert (tmp_path / "elsewhere").read_text() == ""


WRITER = """
import sys
from pathlib import Path
from tests.sdk.desks import Office
office = Office(Path(sys.argv[1]))
for n in range(40):
    office.approve(breakpointId=sys.argv[2], note="x" * 5000)
"""


def test_concurrent_processes_write_one_unbroken_journal_chain(office: Office) -> None:
    root = Path(__file__).parents[2]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(office.folder), gate],
            cwd=root,
            env=os.environ | {"PYTHONPATH": str(root)},
        )
        for gate in ("first", "second", "third")
    ]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0]
    read = list(Journal(office.folder).events())
    assert len(read) == 3 * 40 * 3
    assert None not in read
    assert [len(streak(office, gate)) for gate in ("first", "second", "third")] == [40, 40, 40]
