"""The rule and history commands, with a running server."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from assent.core.rules_file import SCHEMA_VERSION
from assent.kernel.settings import Settings
from assent.sdk.client import Assent
from tests.cli.commands import Desk, environment, here, here_json, run
from tests.sdk.scripted import Say, scripted
from tests.support.nodes import free_port, prepared, server

UNKNOWN = "rule-" + "0" * 26
BABYSITTER = {
    "schemaVersion": "2026.01.breakpoint-rules-v1",
    "rules": [
        {
            "id": "rule-a1b2c3d4",
            "pattern": "confirm.*",
            "action": "auto-approve",
            "createdAt": "2026-01-02T03:04:05.678Z",
            "createdBy": "user",
            "source": "cli",
            "note": "Routine confirmations",
        },
        {
            "id": "rule-00ff00ff",
            "pattern": "gate.deploy-production",
            "action": "never-auto-approve",
            "createdAt": "2026-01-02T03:04:05.678Z",
            "createdBy": "user",
        },
    ],
}


@dataclass(frozen=True)
class Office(Desk):
    """A server with tokens for an agent, a reviewer and a rule admin."""

    writer_token: str

    def call(self, *arguments: str, token: str | None = None, stdin: str | None = None) -> Result:
        return here(*arguments, stdin=stdin, ASSENT_URL=self.url, ASSENT_TOKEN=token or self.writer_token)

    def json(self, *arguments: str, token: str | None = None) -> Any:
        return here_json(*arguments, ASSENT_URL=self.url, ASSENT_TOKEN=token or self.writer_token)

    def writer(self) -> Assent:
        return Assent(self.url, self.writer_token)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    settings = Settings(data_dir=tmp_path_factory.mktemp("rules") / "data")
    agent, reviewer, writer = prepared(settings, "agent", "reviewer", "rule-admin")
    with server(settings) as process:
        yield Office(process.url, settings.data_dir, agent, reviewer, writer)


@pytest.fixture
def office(running: Office) -> Iterator[Office]:
    """The shared server, without rules from earlier tests."""
    yield running
    with running.writer() as writer:
        for each in writer.rules():
            writer.remove_rule(each.id)


def decided(office: Office, gate: str, *, approved: bool, **asking: Any) -> str:
    asked = office.asked(breakpoint_id=gate, **asking)
    with office.reviewer() as reviewer:
        (reviewer.approve if approved else reviewer.reject)(asked.id, comment="Looked at it.")
    return asked.id


@pytest.mark.parametrize("command", [("breakpoint:{}",), ("breakpoint", "{}")])
def test_the_babysitter_commands_add_list_check_and_remove_rules(office: Office, command: tuple[str, ...]) -> None:
    def call(name: str, *arguments: str) -> Any:
        return office.json(*(part.format(name) for part in command), *arguments)

    added = call("approve-rule", "confirm.*", "--note", "Routine confirmations")
    rule = added["rule"]
    assert (added["success"], added["totalRules"]) == (True, 1)
    assert (rule["pattern"], rule["action"], rule["note"]) == ("confirm.*", "auto-approve", "Routine confirmations")
    assert {"id", "createdAt", "createdBy", "source"} <= set(rule)
    never = call("approve-rule", "gate.deploy-production", "--action", "never-auto-approve")["rule"]
    assert never["action"] == "never-auto-approve"
    assert call("list-rules") == {"rules": [rule, never], "count": 2}
    assert call("should-auto-approve", "confirm.star-repo") == {
        "recommended": True,
        "reason": f"Matched auto-approve rule: {rule['id']} (confirm.*).",
        "matchedRule": rule["id"],
        "consecutiveApprovals": 0,
    }
    assert call("remove-rule", rule["id"]) == {"success": True, "ruleId": rule["id"], "totalRules": 1}
    asked = call("should-auto-approve", "confirm.star-repo")
    assert (asked["recommended"], "matchedRule" in asked) == (False, False)


def test_attributes_from_the_command_line_are_matched_against_rules(office: Office) -> None:
    office.json("breakpoint:approve-rule", "*.review(tags contains 'design' AND expert = 'ann' AND agentId = 'ci')")
    ask = ("breakpoint:should-auto-approve", "ui.review")
    given = (*ask, "--tag", "big", "--tag", "design", "--expert", "ann", "--agent-id", "ci")
    assert office.json(*given)["recommended"] is True
    former = (*ask, "--tags", "big, design", "--expert", "ann", "--agent", "ci")
    assert office.json(*former)["recommended"] is True
    assert office.json(*ask)["recommended"] is False


def test_adding_an_identical_rule_only_updates_its_note(office: Office) -> None:
    first = office.json("breakpoint:approve-rule", " a.* ", "--note", "old")["rule"]
    again = office.json("breakpoint:approve-rule", "a.*", "--note", "new")
    assert (again["rule"]["id"], again["rule"]["note"], again["totalRules"]) == (first["id"], "new", 1)
    assert office.json("breakpoint:approve-rule", "a.*")["rule"]["note"] == "new"
    other = office.json("breakpoint:approve-rule", "a.*", "--action", "never-auto-approve")
    assert (other["rule"]["id"] != first["id"], other["totalRules"]) == (True, 2)
    office.json("rule", "disable", first["id"])
    assert office.json("breakpoint:approve-rule", "a.*")["totalRules"] == 3


@pytest.mark.parametrize("rule_id", [UNKNOWN, "nonsense", "../people"])
def test_removing_a_nonexistent_rule_fails(office: Office, rule_id: str) -> None:
    done = office.call("breakpoint:remove-rule", rule_id, "--json")
    told = json.loads(done.stdout)
    assert done.exit_code == 1
    assert (told["success"], told["ruleId"]) == (False, rule_id)
    assert told["error"]
    assert done.stderr.startswith("Error: ")
    assert office.call("breakpoint:remove-rule", rule_id).stdout == ""


def test_the_exit_code_reflects_the_recommendation_only_on_request(office: Office) -> None:
    ask = ("breakpoint:should-auto-approve", "confirm.x")
    assert (office.call(*ask).exit_code, office.call(*ask, "--exit-code").exit_code) == (0, 10)
    office.json("rule", "add", "confirm.*")
    assert office.call(*ask, "--exit-code").exit_code == 0


def test_the_history_of_a_gate_includes_a_summary(office: Office) -> None:
    ids = [decided(office, "past.gate", approved=approved, agent_id="ci") for approved in (False, True, True)]
    office.json("rule", "add", "past.gate")
    auto = office.asked(breakpoint_id="past.gate", agent_id="ci")

    told = office.json("breakpoint:history", "--gate", "past.gate")
    assert told["count"] == 4
    assert [each["id"] for each in told["entries"]] == [auto.id, *reversed(ids)]
    newest, second = told["entries"][:2]
    assert (newest["auto"], newest["decision"], "responseSeconds" in newest) == (True, "approved", False)
    assert (second["auto"], second["decidedBy"], second["feedback"]) == (False, "person:owner", "Looked at it.")
    summary = told["summary"]
    assert (summary["asked"], summary["approved"], summary["rejected"], summary["auto"]) == (4, 2, 1, 1)
    assert summary["streaks"] == [{"agentId": "ci", "streak": 2}]
    limited = office.call("breakpoint:history", "--gate", "past.gate", "--limit", "3")
    assert "--limit 6" in limited.stderr
    assert "4 times: 2 approved, 1 rejected, 1 auto" in limited.stdout
    assert office.json("breakpoint:history", "--breakpoint-id", "no.such")["entries"] == []
    assert office.json("breakpoint:history", "--limit", "1")["count"] == 1


def test_every_rule_command_is_recorded_in_the_history_with_its_reason(office: Office) -> None:
    made = office.json("rule", "add", "a.*", "--mode", "shadow", "--order", "7", "--why", "Trying it out.")
    rule_id = made["id"]
    assert (made["mode"], made["order"]) == ("shadow", 7)
    changed = office.json("rule", "change", rule_id, "--mode", "live", "--note", "n", "--expires", "2099-01-01")
    assert (changed["mode"], changed["note"], changed["expiresAt"][:10]) == ("live", "n", "2099-01-01")
    bare = office.json("rule", "change", rule_id, "--no-note", "--no-expiry", "--pattern", "b.*")
    assert ("note" in bare, "expiresAt" in bare, bare["pattern"]) == (False, False, "b.*")
    assert office.json("rule", "disable", rule_id, "--why", "Too wide.")["enabled"] is False
    assert office.json("rule", "enable", rule_id)["enabled"] is True
    assert [each["id"] for each in office.json("rule", "list")["items"]] == [rule_id]
    assert office.json("rule", "remove", rule_id, "--why", "Done.") == {"removed": rule_id}
    assert "removedAt" in office.json("rule", "show", rule_id)
    events = office.json("rule", "events", rule_id)["items"]
    whys = [each["metadata"].get("why") for each in events]
    assert whys == ["Trying it out.", None, None, "Too wide.", None, "Done."]
    lines = office.call("rule", "events", rule_id).stdout.splitlines()
    assert [line.split("\t")[1] for line in lines[1:]] == ["created", *["changed"] * 4, "removed"]
    assert 'mode: "live", expiresAt: "2099-01-01T00:00:00.000000Z", note: "n"' in lines[2]
    assert (lines[6].split("\t")[4], lines[6].split("\t")[5]) == ("", "Done.")


def test_rules_are_printed_as_tables_by_default(office: Office) -> None:
    rule_id = office.json("rule", "add", "confirm.*", "--note", "Routine", "--disabled")["id"]
    shown, listed = office.call("rule", "show", rule_id).stdout, office.call("rule", "list").stdout.splitlines()
    assert re.search(r"^state +disabled$", shown, re.MULTILINE)
    assert listed[1].split("\t")[:5] == [rule_id, "auto-approve", "disabled", "confirm.*", "Routine"]
    office.call("rule", "remove", rule_id)
    nothing = office.call("rule", "list")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "Every breakpoint requires human approval." in nothing.stderr


def test_a_check_explains_each_rule_and_the_value_of_each_predicate(office: Office) -> None:
    never = office.json("rule", "add", "gate.*(tags contains 'prod')", "--action", "never-auto-approve")["id"]
    auto = office.json("rule", "add", "gate.*(payload.amount < 100 AND risk = 'low')")["id"]
    shadow = office.json("rule", "add", "gate.*", "--mode", "shadow")["id"]
    ask = ("rule", "check", "gate.pay", "--tag", "test", "--risk", "low")
    told = office.call(*ask, "--payload", '{"amount": 12}').stdout
    assert told.splitlines() == [
        f"Would be auto-approved. Matched auto-approve rule: {auto} (gate.*(payload.amount < 100 AND risk = 'low')).",
        "consecutive approvals  0",
        f"no       Did not match never-auto-approve rule: {never} (gate.*(tags contains 'prod')).",
        '         yes      gate.*  ←  "gate.pay"',
        "         no       tags contains 'prod'  ←  [\"test\"]",
        f"yes      Matched auto-approve rule: {auto} (gate.*(payload.amount < 100 AND risk = 'low')).",
        '         yes      gate.*  ←  "gate.pay"',
        "         yes      payload.amount < 100  ←  12",
        "         yes      risk = 'low'  ←  \"low\"",
        f"shadow   {shadow} would have approved the breakpoint.",
    ]
    unknown = office.call(*ask).stdout
    assert "Requires human approval. No rule matches gate.pay." in unknown
    assert "         unknown  payload.amount < 100  ←  not set" in unknown
    assert office.json(*ask, "--hard-stop")["trace"][-1]["source"] == "hardStop"


@pytest.mark.parametrize("command", [("rule", "add"), ("breakpoint:approve-rule",)])
def test_an_invalid_pattern_is_shown_with_the_error_position_and_a_hint(
    office: Office, command: tuple[str, ...]
) -> None:
    done = office.call(*command, " 関.*(tags = 'a') ")
    assert (done.exit_code, done.stdout) == (1, "")
    sentence, pattern, caret = done.stderr.splitlines()
    assert sentence.startswith("Error: Line 1, column 10:")
    assert sentence.endswith("Use tags contains 'a'.")
    # The first character takes up two columns in a terminal.
    assert (pattern, caret) == ("    関.*(tags = 'a')", "    " + " " * 10 + "^")
    assert office.json("rule", "list") == {"items": []}


def test_changing_a_rule_to_an_invalid_pattern_shows_the_error(office: Office) -> None:
    rule_id = office.json("rule", "add", "a.*")["id"]
    done = office.call("rule", "change", rule_id, "--pattern", "a(")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[1] == "    a("
    assert office.json("rule", "show", rule_id)["pattern"] == "a.*"


def test_a_change_without_any_fields_is_a_usage_error(office: Office) -> None:
    rule_id = office.json("rule", "add", "a.*")["id"]
    assert office.call("rule", "change", rule_id, "--why", "Because.").exit_code == 2


@pytest.mark.parametrize("command", ["show", "events", "enable", "disable", "remove"])
@pytest.mark.parametrize("rule_id", [UNKNOWN, "nonsense", "rule-A/../../people"])
def test_commands_for_a_nonexistent_rule_print_a_one_line_error(office: Office, command: str, rule_id: str) -> None:
    done = office.call("rule", command, rule_id)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_backtest_lists_breakpoints_that_people_rejected(office: Office) -> None:
    ids = [decided(office, "tested.gate", approved=approved) for approved in (True, False)]
    found = office.json("rule", "backtest", " tested.* ", "--days", "1")
    assert (found["matched"], found["wouldApprove"], found["approved"], found["rejected"]) == (2, 2, 1, 1)
    assert [each["id"] for each in found["rejections"]] == [ids[1]]
    told = office.call("rule", "backtest", "tested.*").stdout
    assert "2 would have been approved. Actual outcomes:\n        1 approved by people\n" in told
    assert [line.split("\t")[0] for line in told.splitlines()[-2:]] == ["ID", ids[1]]
    assert office.json("rule", "list")["items"] == []


def test_a_backtest_shows_its_progress_in_a_terminal(office: Office) -> None:
    decided(office, "shown.gate", approved=True)
    env = environment(ASSENT_URL=office.url, ASSENT_TOKEN=office.writer_token, FORCE_COLOR="1")
    done = run("rule", "backtest", "shown.*", "--json", env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["matched"] == 1
    assert "Reading past breakpoints" in done.stderr


def test_a_backtest_of_an_invalid_pattern_shows_the_error_position(office: Office) -> None:
    done = office.call("rule", "backtest", "a(tags = 'x')")
    assert (done.exit_code, done.stderr.splitlines()[1:]) == (1, ["    a(tags = 'x')", "           ^"])


def test_a_shadow_rule_is_compared_with_human_decisions(office: Office) -> None:
    rule_id = office.json("rule", "add", "shaded.*", "--mode", "shadow")["id"]
    ids = [decided(office, "shaded.gate", approved=approved) for approved in (True, False)]
    found = office.json("rule", "shadow", rule_id)
    assert (found["matched"], found["agreed"], found["disagreed"]) == (2, 1, 1)
    assert [each["id"] for each in found["disagreements"]] == [ids[1]]
    told = office.call("rule", "shadow", rule_id, "--days", "2").stdout
    assert re.search(r"^people disagreed +1$", told, re.MULTILINE)
    assert ids[1] in told
    assert office.call("rule", "shadow", UNKNOWN).exit_code == 1


def test_a_babysitter_rules_file_is_imported_only_once(office: Office, tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps(BABYSITTER))
    forecast = office.call("rule", "import", str(path), "--dry-run").stdout
    assert "Dry run: nothing was changed. Result: 2 added" in forecast
    assert office.json("rule", "list")["items"] == []
    done = office.json("rule", "import", str(path), "--why", "Moving over.")
    assert (done["added"], done["totalRules"]) == (2, 2)
    assert "The rules already match the file." in office.call("rule", "import", str(path)).stderr
    listed = office.json("breakpoint:list-rules")["rules"]
    assert [(each["pattern"], each["action"], each["source"]) for each in listed] == [
        ("confirm.*", "auto-approve", "import:rule-a1b2c3d4"),
        ("gate.deploy-production", "never-auto-approve", "import:rule-00ff00ff"),
    ]
    (created,) = office.json("rule", "events", listed[0]["id"])["items"]
    origin = {name: BABYSITTER["rules"][0][name] for name in ("id", "createdAt", "createdBy", "source")}  # type: ignore[index]
    assert (created["metadata"]["imported"], created["metadata"]["why"]) == (origin, "Moving over.")
    assert created["actor"] == "person:owner"


def test_an_export_can_be_imported_from_standard_input(office: Office) -> None:
    kept = office.json("rule", "add", "a.*", "--note", "n", "--mode", "shadow", "--disabled")
    exported = office.call("rule", "export").stdout
    assert json.loads(exported) == office.json("rule", "export")
    office.json("rule", "remove", kept["id"])
    extra = office.json("rule", "add", "b.*")["id"]
    done = office.call("rule", "import", "-", "--replace", "--json", stdin=exported)
    told = json.loads(done.stdout)
    assert [(each["outcome"], each["pattern"]) for each in told["items"]] == [("added", "a.*"), ("removed", "b.*")]
    (rule,) = office.json("rule", "list")["items"]
    assert {name: rule[name] for name in ("pattern", "note", "mode", "enabled", "order")} == {
        name: kept[name] for name in ("pattern", "note", "mode", "enabled", "order")
    }
    assert "removedAt" in office.json("rule", "show", extra)


def test_a_file_with_invalid_rules_is_rejected_and_each_invalid_rule_is_reported(office: Office) -> None:
    rules = [{"pattern": p, "action": "auto-approve"} for p in ("fine.*", "a(tags = 'x')", "b(")]
    document = json.dumps({"schemaVersion": SCHEMA_VERSION, "rules": rules})
    done = office.call("rule", "import", "-", stdin=document)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "/rules/1/pattern: Line 1, column 8" in done.stderr
    assert "    a(tags = 'x')\n           ^" in done.stderr
    assert "/rules/2/pattern" in done.stderr
    assert "No rules were imported." in done.stderr
    assert office.json("rule", "list")["items"] == []


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("", 2, "not valid JSON"),
        ('{"a": 1, "a": 2}', 2, "not valid JSON"),
        ("[]", 2, "must be a JSON object"),
        ("{}", 1, "schemaVersion"),
        ('{"schemaVersion": "3000.01", "rules": []}', 1, "is not supported"),
        (json.dumps(BABYSITTER | {"extra": 1}), 1, "extra"),
    ],
)
def test_importing_an_invalid_rules_file_prints_the_reason(office: Office, text: str, code: int, said: str) -> None:
    done = office.call("rule", "import", "-", stdin=text)
    assert done.exit_code == code
    assert said in done.stderr.replace("\n", " ")


WRITES = (
    ("rule", "add", "a.*"),
    ("rule", "remove", UNKNOWN),
    ("rule", "disable", UNKNOWN),
    ("breakpoint:approve-rule", "a.*"),
    ("breakpoint:remove-rule", UNKNOWN),
)
READS = (
    ("rule", "list"),
    ("rule", "check", "a"),
    ("rule", "export"),
    ("breakpoint:list-rules",),
    ("breakpoint:should-auto-approve", "a"),
    ("breakpoint:history",),
)


@pytest.mark.parametrize("arguments", WRITES, ids=" ".join)
def test_the_error_for_a_missing_permission_names_the_permission(office: Office, arguments: tuple[str, ...]) -> None:
    done = office.call(*arguments, token=office.reviewer_token)
    assert done.exit_code == 1
    assert "lacks the “write rules” permission" in done.stderr


def test_an_agent_can_check_gates_and_see_its_history_but_not_the_rules(office: Office) -> None:
    token = office.agent_token
    assert office.json("breakpoint:should-auto-approve", "a", token=token)["recommended"] is False
    assert office.call("breakpoint:history", token=token).exit_code == 0
    assert office.call("breakpoint:list-rules", token=token).exit_code == 1


@pytest.mark.parametrize("arguments", [WRITES[0], WRITES[-1], READS[0], READS[-1]], ids=" ".join)
def test_an_unreachable_server_results_in_exit_code_13(arguments: tuple[str, ...]) -> None:
    done = here(*arguments, ASSENT_URL=f"http://127.0.0.1:{free_port()}", ASSENT_TOKEN="t")
    assert done.exit_code == 13
    assert "Check that the server is running" in done.stderr


def test_a_missing_token_is_a_usage_error() -> None:
    done = run("rule", "list", env=environment(ASSENT_URL="http://127.0.0.1:9"))
    assert done.returncode == 2
    assert "ASSENT_TOKEN is not set" in done.stderr


def test_control_characters_from_the_server_are_escaped_in_the_terminal() -> None:
    evil = "\x1b[31m\u202e\x07"
    rule = {
        "id": UNKNOWN, "pattern": evil, "action": "auto-approve", "createdAt": "t", "createdBy": evil, "source": evil,
        "mode": "live", "enabled": True, "order": 1, "updatedAt": "t", "version": 1, "note": evil, "problem": evil,
    }  # fmt: skip
    finding = {"part": evil, "held": None, "actual": [evil]}
    check = {
        "recommended": False, "reason": evil, "consecutiveApprovals": 0, "shadow": [{"rule": evil}],
        "trace": [{"source": "x", "reason": evil, "held": None, "findings": [finding]}],
    }  # fmt: skip
    event = {"ruleId": UNKNOWN, "seq": 1, "type": evil, "actor": evil, "timestamp": "t", "hash": "h"}
    entry = {
        "id": "bp_1", "breakpointId": "bp_1", "gate": evil, "agentId": evil, "status": "waiting", "auto": False,
        "createdAt": "2026-11-15T12:00:00Z", "strategy": "single", "feedback": evil, "decidedBy": evil,
    }  # fmt: skip
    said: list[tuple[Any, tuple[str, ...]]] = [
        ({"items": [rule]}, ("rule", "list")),
        (rule, ("rule", "show", UNKNOWN)),
        (check, ("rule", "check", "a")),
        ({"items": [event | {"metadata": {"why": evil, "rule": {"note": evil}}}]}, ("rule", "events", UNKNOWN)),
        ({"schemaVersion": "1", "rules": [rule]}, ("rule", "export")),
        ({"items": [entry]}, ("breakpoint:history",)),
    ]
    for answer, arguments in said:
        with scripted([Say(200, answer)]) as fake:
            shown = here(*arguments, ASSENT_URL=fake.url, ASSENT_TOKEN="t")
        assert shown.exit_code == 0, shown.output
        assert re.search(r"\\(x|u00)1b", shown.output), arguments
        assert not {"\x1b", "\u202e", "\x07"} & set(shown.output), arguments
