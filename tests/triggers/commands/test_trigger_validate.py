"""assent.yaml is validated without a server, and all problems are reported with their line numbers."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import here, here_json
from tests.triggers.usecases.triggers_setup import FIX_CI, TAKES_ANYTHING

GOOD = """\
sources:
  nightly: {kind: schedule, cron: "30 2 * * *", timezone: UTC}
triggers:
  - id: fix-red-main
    on: github.workflow-run.completed(branch = 'main')
    run: processes/fix_ci.py
    inputs: {repo: "{{ event.repo }}", sha: "{{ event.sha }}"}
"""
BAD = """\
sources:
  nightly: {kind: schedule, cron: "99 2 * * *"}
triggers:
  - id: fix-red-main
    on: github.push(branhc = 'main')
    run: fix-ci
    inputs: {repo: "{{ event.repository }}", sha: x}
  - id: fix-red-main
    on: schedule.tick
    run: nothing
  - id: half
    on: schedule.tick
    run: fix-ci
    inputs: {repo: x}
routes:
  - {pattern: "*", channels: []}
trigers: []
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data" / "processes"
    folder.mkdir(parents=True)
    (folder / "fix_ci.py").write_text(FIX_CI)
    (folder / "anything.py").write_text(TAKES_ANYTHING)
    found = tmp_path / "assent.yaml"
    found.write_text(GOOD)
    return found


@pytest.mark.usefixtures("path")
def test_a_valid_file_is_reported_as_valid() -> None:
    done = here("trigger", "validate")
    assert done.exit_code == 0
    assert done.stdout == "✓ assent.yaml is valid: 1 sources, 1 triggers, 0 channels, 0 routes.\n"


def test_all_problems_are_reported_with_their_line_numbers(path: Path) -> None:
    path.write_text(BAD)
    done = here("trigger", "validate", "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["ok"], told["file"]) == (1, False, "assent.yaml")
    assert [(each["line"], each["pointer"]) for each in told["problems"]] == [
        (2, "/sources/nightly/cron"),
        (5, "/triggers/0/on"),
        (7, "/triggers/0/inputs/repo"),
        (8, "/triggers/1/id"),
        (10, "/triggers/1/run"),
        (14, "/triggers/2/inputs"),
        (16, "/routes/0/channels"),
        (17, "/trigers"),
    ]
    said = here("trigger", "validate")
    assert said.exit_code == 1
    for each in told["problems"]:
        assert f"✗ {each['text']}\n" in said.stdout
    assert "Did you mean branch?" in said.stdout
    assert "is not a setting. Did you mean triggers?" in said.stdout
    assert "fix-red-main is already used by triggers[0] on line 4" in said.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("triggers: [", "✗ assent.yaml line 1: "),
        ("a: 1\na: 2\n", "✗ assent.yaml line 2: a is defined twice, first on line 1\n"),
        ("- a\n", "✗ assent.yaml must be a mapping of settings\n"),
        ("triggers: 7\nsources: []\n", "✗ assent.yaml line 1: triggers: must be a list\n"),
    ],
)
def test_a_malformed_file_is_reported_as_invalid(path: Path, text: str, said: str) -> None:
    path.write_text(text)
    done = here("trigger", "validate")
    assert (done.exit_code, said in done.stdout) == (1, True), done.output


def test_another_file_can_be_validated_by_name(path: Path) -> None:
    other = path.with_name("draft.yaml")
    other.write_text(BAD)
    path.write_text(GOOD)
    told = json.loads(here("trigger", "validate", "draft.yaml", "--json").stdout)
    assert told["problems"][0]["text"].startswith("draft.yaml line 2: sources/nightly/cron: ")
    assert here_json("trigger", "validate")["ok"]


def test_a_missing_file_is_reported_as_an_error(path: Path) -> None:
    path.unlink()
    done = here("trigger", "validate")
    assert (done.exit_code, "File not found: assent.yaml." in done.stderr) == (1, True)


def test_control_characters_in_the_file_do_not_reach_the_terminal(path: Path) -> None:
    path.write_text('"\\e[31mred": 1\n')
    done = here("trigger", "validate")
    assert "\x1b[31m" not in done.stdout


def test_check_also_validates_sources_and_triggers(path: Path) -> None:
    good = here_json("check")
    assert {"name": "triggers", "ok": True, "detail": "All sources (1) and triggers (1) are valid."} in good["checks"]
    path.write_text(BAD)
    bad = here("check", "--json")
    details = [each["detail"] for each in json.loads(bad.stdout)["checks"] if not each["ok"]]
    assert bad.exit_code == 1
    assert any(each.startswith("Invalid configuration: assent.yaml line 5: triggers[0]/on: ") for each in details)


@pytest.mark.usefixtures("path")
def test_check_shows_the_number_of_sources_and_triggers_but_not_their_contents() -> None:
    found = {each["name"]: each for each in here_json("check")["settings"]}
    assert (found["sources"]["value"], found["triggers"]["value"]) == ("1 defined", "1 defined")
    assert found["triggers"]["source"] == "assent.yaml"
