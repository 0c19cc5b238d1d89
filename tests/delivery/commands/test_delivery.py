"""The delivery commands, with a running server and a receiver that refuses only the first request."""

from collections.abc import Iterator
from typing import Any

import pytest

from assent.kernel.settings import Settings
from assent.sdk.client import Assent
from tests.cli.commands import Desk, here, here_json
from tests.sdk.scripted import Say, Scripted, scripted
from tests.support.nodes import prepared, server

UNKNOWN = "dlv_" + "0" * 26
# A 400 response is not retried automatically, so the first delivery is dead. All later requests succeed.
SCRIPT = [Say(400, {}), Say(200, {})]


@pytest.fixture(scope="module")
def receiver() -> Iterator[Scripted]:
    with scripted(SCRIPT) as running:
        yield running


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A server that is allowed to send to localhost; the reviewer token belongs to an admin."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("office") / "data")
    agent, admin = prepared(settings, "agent", "admin")
    with server(settings, outbound_allow="127.0.0.0/8") as process:
        yield Desk(process.url, settings.data_dir, agent, admin)


@pytest.fixture(scope="module")
def dead(office: Desk, receiver: Scripted) -> str:
    """The ID of a delivery that its receiver refused."""
    asked = office.asked(callback_url=f"{receiver.url}/first?key=t0p")
    return settled(office, asked.id, "dead")


def settled(office: Desk, breakpoint_id: str, state: str) -> str:
    """Wait until a breakpoint's only delivery has this state, and return its ID."""
    with Assent(office.url, office.reviewer_token) as admin:
        while not (found := admin.deliveries(breakpoint_id=breakpoint_id, state=state).items):
            pass
    return found[0].id


def call(office: Desk, *arguments: str) -> Any:
    return here("delivery", *arguments, ASSENT_URL=office.url, ASSENT_TOKEN=office.reviewer_token)


def call_json(office: Desk, *arguments: str) -> Any:
    return here_json("delivery", *arguments, ASSENT_URL=office.url, ASSENT_TOKEN=office.reviewer_token)


def test_a_refused_delivery_is_listed_and_shown_and_a_retry_sends_it(
    office: Desk, receiver: Scripted, dead: str
) -> None:
    listed = call(office, "list", "--state", "dead").stdout.splitlines()
    shown = call(office, "show", dead).stdout
    tried = call_json(office, "retry", dead)
    sent = settled(office, tried["breakpointId"], "sent")

    assert listed[0].split("\t") == [
        "ID", "STATE", "TYPE", "BREAKPOINT", "ATTEMPTS", "NEXT", "RECIPIENT", "LAST ERROR",
    ]  # fmt: skip
    assert listed[1].split("\t")[:3] == [dead, "dead", "created"]
    assert f"{receiver.url}/first?key=t0p" in shown
    assert "responded with 400" in shown
    assert (tried["id"], tried["state"]) == (dead, "pending")
    assert sent == dead
    log = call_json(office, "show", dead)["log"]
    assert [(each["n"], each["status"]) for each in log] == [(1, 400), (2, 200)]
    assert {heard.headers["webhook-id"] for heard in receiver.heard} == {dead}


@pytest.mark.usefixtures("dead")
def test_a_sent_callback_can_be_resent(office: Desk, receiver: Scripted) -> None:
    asked = office.asked(callback_url=f"{receiver.url}/second")
    sent = settled(office, asked.id, "sent")

    done = call(office, "retry", sent)

    assert done.exit_code == 0
    assert settled(office, asked.id, "sent") == sent
    assert call_json(office, "show", sent)["attempts"] == 2


@pytest.mark.usefixtures("dead")
def test_the_list_can_be_filtered_and_says_how_to_show_more(office: Desk, receiver: Scripted) -> None:
    asked = office.asked(callback_url=f"{receiver.url}/third")
    sent = settled(office, asked.id, "sent")

    assert [each["id"] for each in call_json(office, "list", "--breakpoint", asked.id)["items"]] == [sent]
    assert call_json(office, "list", "--breakpoint", asked.id, "--state", "dead") == {"items": []}
    first = call_json(office, "list", "--limit", "1")
    assert (len(first["items"]), "nextCursor" in first) == (1, True)
    assert "--limit 2" in call(office, "list", "--limit", "1").stderr


def test_terminal_escape_sequences_in_deliveries_are_escaped() -> None:
    evil = {
        "id": UNKNOWN, "breakpointId": "bp_1", "channel": "callback", "recipient": "https://a/\x1b[31m\u202e",
        "type": "created", "seq": 1, "state": "dead", "attempts": 1, "lastError": "a\x07", "createdAt": "t",
        "updatedAt": "t",
    }  # fmt: skip
    attempt = {"n": 1, "at": "2026-11-15T12:00:00Z", "worker": "w\x1b", "error": "a\x07"}
    with scripted([Say(200, {"items": [evil]}), Say(200, evil | {"log": [attempt]})]) as fake:
        env = {"ASSENT_URL": fake.url, "ASSENT_TOKEN": "t"}
        outputs = [here("delivery", "list", **env).output, here("delivery", "show", UNKNOWN, **env).output]

    for output in outputs:
        assert "https://a/\\x1b[31m\\u202e" in output
        assert "a\\x07" in output
        assert not {"\x1b", "\u202e", "\x07"} & set(output)


@pytest.mark.parametrize("command", ["show", "retry"])
@pytest.mark.parametrize("delivery_id", [UNKNOWN, "nonsense", "../x"])
def test_an_unknown_delivery_produces_a_one_line_error(office: Desk, command: str, delivery_id: str) -> None:
    done = call(office, command, delivery_id)

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.splitlines()) == 1


def test_an_empty_list_says_that_no_deliveries_exist(desk: Desk) -> None:
    done = here("delivery", "list", ASSENT_URL=desk.url, ASSENT_TOKEN=desk.reviewer_token)

    assert (done.exit_code, done.stdout) == (0, "")
    assert "No deliveries." in done.stderr
