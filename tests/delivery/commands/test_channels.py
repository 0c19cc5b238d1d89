"""The channel and route commands, with a running server."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assent.kernel.settings import Settings
from assent.sdk.client import Assent
from tests.cli.commands import Desk, environment, here, here_json, run
from tests.sdk.scripted import Say, Scripted, scripted
from tests.support.nodes import prepared, server

SECRET = "whsec_" + base64.b64encode(b"a secret of 24 bytes or so").decode()


@pytest.fixture(scope="module")
def receiver() -> Iterator[Scripted]:
    with scripted([Say(200, {})]) as running:
        yield running


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    settings = Settings(data_dir=tmp_path_factory.mktemp("office") / "data")
    agent, admin = prepared(settings, "agent", "admin")
    with server(settings, outbound_allow="127.0.0.0/8", HOOK_SECRET=SECRET) as process:
        yield Desk(process.url, settings.data_dir, agent, admin)


@pytest.fixture(scope="module")
def hook(office: Desk, receiver: Scripted) -> dict[str, Any]:
    """An existing webhook channel."""
    url = f"url={receiver.url}/hook"
    found: dict[str, Any] = call_json(
        office, "channel", "add", "hook", "--type", "webhook", "--set", url, "--set", 'secrets=["env:HOOK_SECRET"]'
    )
    return found


def call(office: Desk, *arguments: str) -> Any:
    return here(*arguments, ASSENT_URL=office.url, ASSENT_TOKEN=office.reviewer_token)


def call_json(office: Desk, *arguments: str) -> Any:
    return here_json(*arguments, ASSENT_URL=office.url, ASSENT_TOKEN=office.reviewer_token)


def test_listing_and_showing_a_channel_prints_secrets_as_references(office: Desk, hook: dict[str, Any]) -> None:
    listed = call(office, "channel", "list").stdout.splitlines()
    assert listed[0].split("\t") == ["NAME", "TYPE", "STATE", "HEALTH", "SOURCE", "ID"]
    assert [listed[1].split("\t")[n] for n in (0, 1, 2, 4, 5)] == ["hook", "webhook", "enabled", "api", hook["id"]]
    shown = call(office, "channel", "show", "hook").stdout
    assert "env:HOOK_SECRET" in shown
    assert SECRET not in shown
    assert call_json(office, "channel", "show", hook["id"])["settings"] == hook["settings"]
    assert [each["id"] for each in call_json(office, "channel", "list")["items"]] == [hook["id"]]


@pytest.mark.usefixtures("hook")
def test_a_channel_test_sends_a_message_only_on_request(office: Desk, receiver: Scripted) -> None:
    assert call_json(office, "channel", "test", "hook")["ok"] is True
    assert receiver.heard == []
    sent = call(office, "channel", "test", "hook", "--send")
    assert (sent.exit_code, len(receiver.heard)) == (0, 1)
    assert "A test message was sent." in sent.stdout


def test_a_channel_can_be_enabled_renamed_changed_and_removed(office: Desk) -> None:
    made = call_json(
        office, "channel", "add", "second", "--type", "webhook", "--disabled",
        "--set", "url=https://example.org", "--set", 'secrets=["env:HOOK_SECRET"]',
    )  # fmt: skip
    assert made["enabled"] is False
    changed = call_json(office, "channel", "set", "second", "--set", "answersAs=owner", "--enable", "--rename", "third")
    assert (changed["enabled"], changed["name"], changed["settings"]["answersAs"]) == (True, "third", "owner")
    assert "answersAs" not in call_json(office, "channel", "set", "third", "--unset", "answersAs")["settings"]
    assert call(office, "channel", "set", "third").exit_code == 2
    assert call(office, "channel", "add", "x", "--type", "webhook", "--set", "url").exit_code == 2
    assert call_json(office, "channel", "remove", "third") == {"removed": made["id"]}
    gone = call(office, "channel", "show", "third")
    assert (gone.exit_code, "Channel third not found" in gone.stderr) == (1, True)


def test_a_failed_channel_test_exits_with_code_1(office: Desk) -> None:
    call_json(
        office, "channel", "add", "broken", "--type", "webhook",
        "--set", "url=http://127.0.0.1:9/", "--set", 'secrets=["env:HOOK_SECRET"]',
    )  # fmt: skip
    tried = call(office, "channel", "test", "broken")
    assert (tried.exit_code, tried.stdout != "") == (1, True)
    call_json(office, "channel", "remove", "broken")


@pytest.mark.usefixtures("hook")
def test_accounts_can_be_linked_and_unlinked(office: Desk) -> None:
    assert call_json(office, "channel", "link", "hook", "T01:U02", "owner")["person"] == "owner"
    assert "T01:U02\towner" in call(office, "channel", "links", "hook").stdout
    assert call_json(office, "channel", "unlink", "hook", "T01:U02") == {"unlinked": "T01:U02"}
    assert call_json(office, "channel", "links", "hook") == {"items": []}


def test_a_slack_manifest_requires_a_server_only_for_http(office: Desk, hook: dict[str, Any]) -> None:
    printed = json.loads(here("channel", "manifest").stdout)
    assert printed["settings"]["socket_mode_enabled"] is True
    called = call_json(office, "channel", "manifest", "hook", "--http")
    assert called["settings"]["interactivity"]["request_url"] == hook["callbackUrl"]
    assert here("channel", "manifest", "--http").exit_code == 2


@pytest.mark.usefixtures("hook")
def test_a_route_can_be_added_listed_checked_and_removed(office: Desk) -> None:
    made = call_json(
        office, "route", "add", "deploy.*", "--channel", "hook", "--to", "owner", "--remind", "30m", "--remind", "2h",
        "--escalate", "1h=owner,experts", "--timeout", "1d=reject", "--any-hour", "--note", "To production.",
    )  # fmt: skip
    assert made["remind"] == ["30m", "2h"]
    assert made["escalate"] == [{"after": "1h", "to": ["owner", "experts"]}]
    assert (made["timeout"], made["quiet"]) == ({"after": "1d", "then": "reject"}, False)
    row = call(office, "route", "list").stdout.splitlines()[1].split("\t")
    assert row[:4] == [made["id"], "deploy.*", "hook", "owner"]
    assert row[4] == "remind after 30m, 2h; notify owner, experts after 1h; reject after 1d"
    checked = call(office, "route", "check", "deploy.web", "--tag", "prod", "--risk", "low").stdout
    assert f"Matching route: {made['id']} (deploy.*)." in checked
    assert [line.split()[1:] for line in checked.splitlines()[1:]][-1] == ["time-out", "reject"]
    asked = office.asked(breakpoint_id="deploy.web")
    assert call_json(office, "route", "check", asked.id)["routeId"] == made["id"]
    assert "No route matches" in call(office, "route", "check", "other").stdout
    assert call_json(office, "route", "remove", made["id"]) == {"removed": made["id"]}
    assert call_json(office, "route", "list") == {"items": []}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["deploy.*(risk =", "--channel", "hook"], "^"),
        (["deploy.*", "--channel", "none"], "channel none not found"),
        (["deploy.*", "--channel", "hook", "--timeout", "1d=approve"], "expire"),
        (["deploy.*", "--channel", "hook", "--timeout", "1d"], "1h="),
    ],
)
@pytest.mark.usefixtures("hook")
def test_the_error_for_an_invalid_route_says_what_is_wrong(office: Desk, arguments: list[str], said: str) -> None:
    refused = call(office, "route", "add", *arguments)
    assert refused.exit_code in {1, 2}
    assert said in refused.stderr


@pytest.mark.usefixtures("hook")
def test_the_python_client_can_manage_routes_and_preferences(office: Desk) -> None:
    with Assent(office.url, office.reviewer_token) as admin:
        first, second = (admin.add_route(pattern, ["hook"]) for pattern in ("a.*", "b.*"))
        assert [each.id for each in admin.order_routes([second.id, first.id])] == [second.id, first.id]
        assert admin.change_route(first.id, quiet=False, pattern="c.*").pattern == "c.*"
        supposed = {"agentId": "a", "payload": {"question": "?", "breakpointId": "b.x"}}
        assert admin.check_routes(supposed=supposed).route_id == second.id
        for each in admin.routes():
            admin.remove_route(each.id)
        wishes = {"channels": ["hook"], "quiet": {"from": "22:00", "to": "07:00", "timezone": "UTC"}, "away": None}
        assert admin.set_preferences("owner", wishes) == wishes
        assert admin.preferences("owner") == wishes


def test_an_invalid_assent_yaml_is_reported_before_startup(tmp_path: Path) -> None:
    (tmp_path / "assent.yaml").write_text(
        "channels:\n  - name: hook\n    type: webhook\n    settings: {url: https://x.org, secrets: [hunter2]}\n"
    )
    env = environment(ASSENT_DATA_DIR=str(tmp_path / "data"))
    for command in (["serve", "--port", "0"], ["check"]):
        stopped = run(*command, env=env, cwd=tmp_path)
        assert stopped.returncode == 1
        said = stopped.stdout + stopped.stderr
        assert "hannels[0]/settings/secrets/0: must be a reference, env:NAME or file:PATH" in said
        assert "hunter2" not in said
        assert "Traceback" not in said


def test_the_check_command_reports_a_valid_assent_yaml(tmp_path: Path) -> None:
    (tmp_path / "assent.yaml").write_text(
        "channels:\n"
        "  - {name: hook, type: webhook, settings: {url: https://x.org, secrets: [env:HOOK_SECRET]}}\n"
        "routes:\n"
        "  - {pattern: '*', channels: [hook]}\n"
    )
    env = environment(ASSENT_DATA_DIR=str(tmp_path / "data"), HOOK_SECRET=SECRET)
    told = run("check", env=env, cwd=tmp_path)
    assert "All channels (1) and routes (1) are valid." in told.stdout, told.stdout + told.stderr
    assert (tmp_path / "data").exists() is False
