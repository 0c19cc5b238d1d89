"""Source and trigger commands with a real server, from a signed webhook to the run that it starts."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assent.console import output
from assent.kernel.settings import Settings
from assent.sdk.client import Assent
from tests.api.outside import PROCESS, PUSH, SECRET
from tests.cli.commands import Desk, here, here_json
from tests.support.nodes import prepared, server

WHSEC = "whsec_" + base64.b64encode(b"a secret of 24 bytes or so").decode()
TRIGGER = """
triggers:
  - id: from-file
    on: github.push(branch = 'dev')
    run: fix-ci
    concurrency: { limit: 2, when_full: skip }
    enabled: suspended
"""
SHA = "a" * 40
REFUSED = "An agent token cannot read people, rules or routes. Use a reviewer token."


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    settings = Settings(data_dir=tmp_path_factory.mktemp("office") / "data")
    agent, admin = prepared(settings, "agent", "admin")
    settings.process_folder.mkdir(parents=True)
    (settings.process_folder / "fix_ci.py").write_text(PROCESS)
    with server(settings, HUB_SECRET=SECRET, WHSEC=WHSEC) as process:
        yield Desk(process.url, settings.data_dir, agent, admin)


@pytest.fixture(scope="module")
def shop(office: Desk) -> dict[str, Any]:
    """A configured source, and a trigger that matches its events."""
    made: dict[str, Any] = call_json(
        office, "source", "add", "shop", "--kind", "github", "--set", 'secrets=["env:HUB_SECRET"]'
    )
    call_json(
        office, "trigger", "add", "--id", "fix-red-main", "--on", "github.push(branch = 'main')", "--run", "fix-ci",
        "--input", "sha={{ event.sha }}", "--input", "tries=3", "--note", "Repairs main.",
    )  # fmt: skip
    return made


@pytest.fixture
def push(tmp_path: Path) -> Path:
    path = tmp_path / "push.json"
    path.write_text(json.dumps({"headers": {"X-GitHub-Event": "push", "Host": "github.com"}, "body": PUSH}))
    return path


def call(office: Desk, *arguments: str, **env: str) -> Any:
    return here(*arguments, ASSENT_URL=office.url, ASSENT_TOKEN=office.reviewer_token, **env)


def call_json(office: Desk, *arguments: str, **env: str) -> Any:
    return here_json(*arguments, ASSENT_URL=office.url, ASSENT_TOKEN=office.reviewer_token, **env)


def sent(office: Desk, push: Path, *more: str) -> dict[str, Any]:
    """Send a signed push, and wait until it has been processed."""
    signed = ("--source", "shop", "--sign", "github", "--secret", "env:KEY")
    answer: dict[str, Any] = call_json(office, "trigger", "send", str(push), *signed, *more, KEY=SECRET)
    with Assent(office.url, office.reviewer_token) as admin:
        while admin.trigger_event(answer["eventId"]).state == "received":
            pass
    return answer


def test_a_source_can_be_listed_shown_and_removed_without_revealing_secrets(office: Desk, shop: dict[str, Any]) -> None:
    listed = call(office, "source", "list").stdout.splitlines()
    assert listed[0].split("\t") == ["NAME", "KIND", "STATE", "LAST EVENT", "REJECTED", "ORIGIN", "ID"]
    assert listed[1].split("\t")[:3] == ["shop", "github", "enabled"]
    shown = call(office, "source", "show", "shop").stdout
    assert "/hooks/shop" in shown
    assert "env:HUB_SECRET" in shown
    assert SECRET not in shown
    assert call_json(office, "source", "show", shop["id"])["id"] == shop["id"]
    made = call_json(
        office, "source", "add", "second", "--kind", "github", "--disabled", "--set", "secrets=env:HUB_SECRET"
    )
    assert made["enabled"] is False
    assert call_json(office, "source", "remove", "second") == {"removed": made["id"]}
    gone = call(office, "source", "show", "second")
    assert (gone.exit_code, "Source second not found" in gone.stderr) == (1, True)
    assert call(office, "source", "add", "x", "--kind", "github", "--set", "secrets").exit_code == 2


@pytest.mark.usefixtures("shop")
def test_a_trigger_can_be_listed_shown_suspended_resumed_and_removed(office: Desk, tmp_path: Path) -> None:
    rows = [line.split("\t") for line in call(office, "trigger", "list").stdout.splitlines()]
    assert rows[0] == ["NAME", "STATE", "ON", "RUN", "FIRED", "ORIGIN", "ID"]
    assert ["fix-red-main", "enabled", "github.push(branch = 'main')", "fix-ci"] in [row[:4] for row in rows]
    shown = call(office, "trigger", "show", "fix-red-main").stdout
    assert "Repairs main." in shown
    assert "{{ event.sha }}" in shown
    assert call_json(office, "trigger", "show", "fix-red-main")["inputs"] == {"sha": "{{ event.sha }}", "tries": 3}
    file = tmp_path / "trigger.yaml"
    file.write_text(TRIGGER)
    made = call_json(office, "trigger", "add", "--file", str(file), "--note", "Of a file.")
    assert (made["name"], made["enabled"], made["note"]) == ("from-file", "suspended", "Of a file.")
    assert made["concurrency"] == {"limit": 2, "whenFull": "skip"}
    assert call_json(office, "trigger", "resume", "from-file")["name"] == "from-file"
    assert call_json(office, "trigger", "suspend", "from-file", "--because", "Loud.")["because"] == "Loud."
    assert (
        "has been resumed and will process its queued events." in call(office, "trigger", "resume", "from-file").stdout
    )
    assert call_json(office, "trigger", "remove", "from-file") == {"removed": made["id"]}
    assert call(office, "trigger", "show", "from-file").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--id", "x", "--on", "github.push"], "--run"),
        (["--id", "x", "--on", "github.push(branch =", "--run", "fix-ci"], "on:"),
        (["--id", "x", "--on", "github.push", "--run", "none"], "none"),
        (["--id", "x", "--on", "github.push", "--run", "fix-ci", "--input", "x"], "NAME=VALUE"),
        (["--file", "/no/such/file"], "cannot be read"),
    ],
)
def test_an_invalid_trigger_is_rejected_with_a_clear_message(office: Desk, arguments: list[str], said: str) -> None:
    refused = call(office, "trigger", "add", *arguments)
    assert refused.exit_code in {1, 2}
    assert said.lower() in refused.stderr.lower()


@pytest.mark.usefixtures("shop")
def test_a_signed_webhook_starts_a_run_that_shows_its_cause(office: Desk, push: Path) -> None:
    event_id = sent(office, push)["eventId"]
    shown = call(office, "trigger", "event", event_id).stdout
    assert "fix-red-main matched" in shown
    assert "✓ branch = 'main'" in shown
    found = call_json(office, "trigger", "event", event_id)
    [run] = found["runs"]
    assert run["cause"] == {"eventId": event_id, "trigger": "fix-red-main", "depth": 0}
    assert [each["id"] for each in call_json(office, "run", "list", "--event", event_id)["items"]] == [run["id"]]
    assert call_json(office, "run", "list", "--trigger", "none") == {"items": []}
    assert f"event {event_id}, trigger fix-red-main" in call(office, "run", "show", run["id"]).stdout
    assert event_id in call(office, "trigger", "events", "--source", "shop", "--state", "matched").stdout
    assert call_json(office, "trigger", "events", "--type", "github.ping") == {"items": []}


@pytest.mark.usefixtures("shop")
def test_sending_the_same_delivery_twice_creates_one_event(office: Desk, push: Path) -> None:
    first = sent(office, push, "--delivery", "the-same")
    assert (first["status"], first["duplicate"]) == (202, False)
    again = sent(office, push, "--delivery", "the-same")
    assert (again["status"], again["duplicate"], again["eventId"]) == (200, True, first["eventId"])
    rows = call(office, "trigger", "events").stdout.splitlines()
    assert any("×2" in row for row in rows if first["eventId"] in row)


@pytest.mark.usefixtures("shop")
def test_sending_with_a_wrong_signature_or_address_fails(office: Desk, push: Path) -> None:
    arguments = ("trigger", "send", str(push), "--sign", "github", "--source")
    wrong = call(office, *arguments, "shop", "--secret", "env:KEY", KEY="another secret")
    assert (wrong.exit_code, "--secret" in wrong.stderr, "ASSENT_TOKEN" in wrong.stderr) == (1, True, False)
    assert call(office, *arguments, "none", "--secret", "env:KEY", KEY=SECRET).exit_code == 1
    assert call(office, *arguments, "shop", "--secret", SECRET).exit_code == 2
    assert call(office, *arguments, "shop", "--secret", "env:NOT_SET").exit_code == 2
    assert call(office, *arguments, "shop").exit_code == 2
    assert call(office, "trigger", "send", "/no/such", "--source", "shop").exit_code == 2
    nowhere = call(office, *arguments, "shop", "--secret", "env:KEY", "--url", "http://127.0.0.1:9", KEY=SECRET)
    assert nowhere.exit_code == output.UNREACHABLE


def test_events_for_a_custom_source_can_be_signed(office: Desk, tmp_path: Path) -> None:
    call_json(office, "source", "add", "mine", "--kind", "webhook", "--set", 'secrets=["env:WHSEC"]')
    body = tmp_path / "body.json"
    body.write_text('{"type": "build.done", "data": {}}')
    arguments = ("--source", "mine", "--sign", "standard-webhooks", "--secret", "env:KEY")
    told = call(office, "trigger", "send", str(body), *arguments, KEY=WHSEC)
    assert told.stdout.startswith("202: evt_"), told.output


@pytest.mark.usefixtures("shop")
def test_a_dry_run_shows_each_condition_with_the_actual_value(office: Desk, push: Path, tmp_path: Path) -> None:
    event_id = sent(office, push)["eventId"]
    shown = call(office, "trigger", "test", event_id, "--trigger", "fix-red-main")
    assert shown.exit_code == 0
    assert "✓ branch = 'main'  (is \"main\")" in shown.stdout
    assert "would start fix-ci" in shown.stdout
    draft = tmp_path / "draft.yaml"
    draft.write_text("{id: draft, on: github.push(branch = 'dev'), run: fix-ci}")
    before = call_json(office, "trigger", "firings")
    tried = call(office, "trigger", "test", event_id, "--draft", str(draft))
    assert tried.exit_code == 1
    assert "✗ branch = 'dev'  (is \"main\")" in tried.stdout
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"type": "github.push", "view": {"branch": "main", "sha": SHA}}))
    found = call_json(office, "trigger", "test", str(event), "--trigger", "fix-red-main")["items"]
    assert [each["inputs"]["sha"] for each in found] == [SHA]
    assert call_json(office, "trigger", "firings") == before
    for wrong in ([str(tmp_path / "none.json")], [event_id, "--trigger", "x", "--draft", str(draft)]):
        assert call(office, "trigger", "test", *wrong).exit_code == 2


@pytest.mark.usefixtures("shop")
def test_control_characters_in_an_event_do_not_reach_the_terminal(office: Desk, tmp_path: Path) -> None:
    evil = tmp_path / "evil.json"
    evil.write_text(json.dumps(PUSH | {"ref": "refs/heads/\u202e\x1b[31mred"}))
    event_id = sent(office, evil, "--event", "push")["eventId"]
    for arguments in (("event", event_id), ("test", event_id), ("events",), ("firings",)):
        shown = call(office, "trigger", *arguments).output
        assert "\x1b[31m" not in shown
        assert "\u202e" not in shown
    assert "\\x1b[31m" in call(office, "trigger", "event", event_id).stdout


@pytest.mark.usefixtures("shop")
def test_an_event_can_be_replayed_and_a_held_firing_discarded(office: Desk, push: Path) -> None:
    call(office, "trigger", "suspend", "fix-red-main")
    event_id = sent(office, push)["eventId"]
    again = call_json(office, "trigger", "replay", event_id, "--trigger", "fix-red-main")
    assert again["replayOf"] == event_id
    [firing] = call_json(office, "trigger", "firings", "--event", event_id)["items"]
    assert (firing["state"], firing["because"]) == ("held", "suspended")
    assert firing["id"] in call(office, "trigger", "firings", "--state", "held", "--trigger", "fix-red-main").stdout
    refused = call(office, "trigger", "retry", firing["id"])
    assert (refused.exit_code, "Only dead firings" in refused.stderr) == (1, True)
    assert "was discarded" in call(office, "trigger", "discard", firing["id"]).stdout
    call(office, "trigger", "resume", "fix-red-main")


def test_the_upcoming_times_of_a_schedule_are_shown_in_its_time_zone(office: Desk) -> None:
    call_json(
        office, "source", "add", "nightly", "--kind", "schedule",
        "--set", "cron=30 2 * * *", "--set", "timezone=America/New_York",
    )  # fmt: skip
    [found] = call_json(office, "trigger", "next", "nightly", "-n", "3")["items"]
    assert len(found["next"]) == 3
    rows = [line.split("\t") for line in call(office, "trigger", "next").stdout.splitlines()]
    assert rows[0] == ["SCHEDULE", "NEXT", "IN", "CRON", "TIME ZONE"]
    assert [row[1] for row in rows[1:4]] == found["next"]
    assert {row[4] for row in rows[1:]} == {"America/New_York"}
    assert call(office, "trigger", "next", "none").exit_code == 2


@pytest.mark.usefixtures("shop")
def test_agent_tokens_are_rejected_with_a_clear_message(office: Desk) -> None:
    for arguments in (("trigger", "list"), ("trigger", "events"), ("source", "list"), ("trigger", "firings")):
        refused = here(*arguments, ASSENT_URL=office.url, ASSENT_TOKEN=office.agent_token)
        assert (refused.exit_code, refused.stderr) == (1, f"Error: {REFUSED}\n"), arguments


@pytest.mark.usefixtures("shop")
def test_the_sdk_client_can_check_change_and_sketch_triggers(office: Desk, push: Path) -> None:
    event_id = sent(office, push)["eventId"]
    with Assent(office.url, office.reviewer_token) as admin:
        body = {"id": "mine", "on": "github.push", "run": "fix-ci", "max_depth": 2, "agent_id": "me"}
        assert admin.check_trigger(body).max_depth == 2
        made = admin.add_trigger(body)
        assert (made.agent_id, made.state) == ("me", "enabled")
        changed = admin.change_trigger("mine", {"max_depth": 1, "agent_id": None, "enabled": False})
        assert (changed.max_depth, changed.agent_id, changed.state) == (1, None, "disabled")
        admin.remove_trigger("mine")
        sketch = admin.sketch_trigger(event_id)
        assert sketch.run == "fix-ci"
        assert admin.change_source("shop", settings={"expect_every": "1d"}).silent is False
        assert admin.source("shop").age is not None
