"""Without a server, the rule commands use the local rules.json."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import here, here_json


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "local"


def rules_of(folder: Path) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = json.loads((folder / "rules.json").read_text())["rules"]
    return rules


def ask(folder: Path, gate: str) -> int:
    return here("ask", "Shall I?", "--gate", gate, ASSENT_LOCAL_DIR=str(folder)).exit_code


def test_local_rules_can_be_added_applied_listed_and_removed(folder: Path) -> None:
    env = {"ASSENT_LOCAL_DIR": str(folder)}
    assert ask(folder, "nightly.backup") == 13
    added = here("rule", "add", "nightly.*", "--note", "Backups", **env)
    assert added.exit_code == 0, added.output
    assert (
        f"Using the local rules in {folder / 'rules.json'} because no server is configured (ASSENT_URL, ASSENT_TOKEN)."
        in added.stderr
    )
    (listed,) = here_json("rule", "list", **env)["items"]
    assert (listed["pattern"], listed["action"], listed["note"]) == ("nightly.*", "auto-approve", "Backups")
    assert ask(folder, "nightly.backup") == 0
    assert here("rule", "disable", listed["id"], **env).exit_code == 0
    assert ask(folder, "nightly.backup") == 13
    assert here_json("rule", "enable", listed["id"], **env)["enabled"] is True
    assert ask(folder, "nightly.backup") == 0
    assert here_json("rule", "show", listed["id"], **env)["id"] == listed["id"]
    assert here_json("rule", "remove", listed["id"], **env) == {"removed": listed["id"]}
    assert rules_of(folder) == []
    assert ask(folder, "nightly.backup") == 13


def test_changing_a_local_rule_keeps_its_other_fields(folder: Path) -> None:
    env = {"ASSENT_LOCAL_DIR": str(folder)}
    first = here_json("rule", "add", "a.*", **env)
    second = here_json(
        "rule", "add", "b.*", "--action", "never-auto-approve", "--mode", "shadow", "--expires", "2999-01-31T18:00:00Z",
        "--order", "0", "--disabled", **env,
    )  # fmt: skip
    assert [each["id"] for each in here_json("rule", "list", **env)["items"]] == [second["id"], first["id"]]
    changed = here_json("rule", "change", second["id"], "--no-expiry", "--note", "n", "--mode", "live", **env)
    assert (changed["action"], changed["mode"], changed["note"]) == ("never-auto-approve", "live", "n")
    assert (changed["enabled"], changed.get("expiresAt")) == (False, None)
    assert rules_of(folder)[0]["id"] == first["id"]


def test_listing_a_rule_from_an_older_version_warns_and_suggests_a_fix(folder: Path) -> None:
    env = {"ASSENT_LOCAL_DIR": str(folder)}
    old = {"id": "rule-old", "pattern": "shell.rm.abc(agentId = 'assent-cli')", "source": "always-approve"}
    mine = {"id": "rule-mine", "pattern": "shell.rm.*", "source": "cli"}
    folder.mkdir()
    rules = [each | {"action": "auto-approve"} for each in (old, mine)]
    (folder / "rules.json").write_text(json.dumps({"schemaVersion": "2026.01.breakpoint-rules-v1", "rules": rules}))
    listed = here("rule", "list", **env)
    assert "The rule rule-old does not check the working directory, the arguments or the program" in listed.stderr
    assert "assent rule remove rule-old" in listed.stderr
    assert "rule-mine" not in listed.stderr
    said = {each["id"]: each.get("warnings") for each in here_json("rule", "list", **env)["items"]}
    assert (bool(said["rule-old"]), bool(said["rule-mine"])) == (True, False)


def test_adding_and_removing_a_rule_leaves_the_other_rules_unchanged(folder: Path) -> None:
    env = {"ASSENT_LOCAL_DIR": str(folder)}
    mine = {"pattern": "mine.*", "action": "never-auto-approve", "createdAt": "long ago"}
    folder.mkdir()
    (folder / "rules.json").write_text(json.dumps({"schemaVersion": "2026.01.breakpoint-rules-v1", "rules": [mine]}))
    added = here_json("rule", "add", "a.*", **env)
    assert rules_of(folder)[0] == mine
    here_json("rule", "remove", added["id"], **env)
    assert rules_of(folder) == [mine]


def test_the_breakpoint_commands_use_the_same_local_file(folder: Path) -> None:
    env = {"ASSENT_LOCAL_DIR": str(folder)}
    made = here_json("breakpoint:approve-rule", "confirm.*", **env)
    again = here_json("breakpoint:approve-rule", "confirm.*", "--note", "n", **env)
    assert (again["rule"]["id"], again["rule"]["note"], again["totalRules"]) == (made["rule"]["id"], "n", 1)
    assert here_json("breakpoint:list-rules", **env)["count"] == 1
    removed = here_json("breakpoint:remove-rule", made["rule"]["id"], **env)
    assert (removed["success"], removed["totalRules"]) == (True, 0)
    missing = here("breakpoint:remove-rule", "rule-none", "--json", **env)
    assert missing.exit_code == 1
    assert json.loads(missing.stdout)["success"] is False


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "a.*(tags = 'x')"), "tags is a list of strings"),
        (("add", "a.*", "--expires", "soon"), "must be a time"),
        (("add", "a.*", "--why", "because"), "do not keep a history"),
        (("remove", "rule-none"), "Rule rule-none not found in rules.json"),
        (("show", "rule-none"), "Rule rule-none not found in rules.json"),
        (("disable", "rule-none"), "Rule rule-none not found in rules.json"),
    ],
)
def test_a_failing_rule_command_creates_no_file(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    done = here("rule", *arguments, ASSENT_LOCAL_DIR=str(folder))
    assert done.exit_code != 0
    assert said in done.stderr
    assert not (folder / "rules.json").exists()


def test_an_invalid_rules_file_is_not_changed(folder: Path) -> None:
    folder.mkdir()
    (folder / "rules.json").write_text("{")
    for arguments in (("list",), ("add", "a.*"), ("remove", "rule-1")):
        done = here("rule", *arguments, ASSENT_LOCAL_DIR=str(folder))
        assert done.exit_code != 0
        assert "ules.json is ignored" in done.stderr
    assert (folder / "rules.json").read_text() == "{"


def test_the_local_option_overrides_a_configured_server(folder: Path) -> None:
    env = {"ASSENT_LOCAL_DIR": str(folder), "ASSENT_URL": "http://127.0.0.1:9", "ASSENT_TOKEN": "t"}
    added = here("rule", "add", "a.*", "--local", **env)
    assert added.exit_code == 0, added.output
    assert "because --local is set." in added.stderr


def test_adding_a_rule_on_part_of_a_command_prints_a_warning(folder: Path) -> None:
    done = here("rule", "add", "tool.bash(payload.command startswith 'git')", ASSENT_LOCAL_DIR=str(folder))
    assert done.exit_code == 0
    assert "Warning:" in done.stderr
