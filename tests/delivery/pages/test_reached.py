"""Notification preferences on the account page: preferred channels, quiet hours and deputies."""

from typing import Any

import pytest

from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.people.preferences import NONE, Preferences, written
from assent.people.store.people import People
from assent.people.store.preferences import PreferenceStore
from tests.delivery.usecases import delegating
from tests.support.nodes import Node
from tests.web.reading import Page
from tests.web.visitors import Visitor, link, person, signed_in, visitor

ALL = {
    "channel-0": "chat", "channel-1": "mail", "quiet-from": "22:00", "quiet-to": "07:30", "zone": "Europe/Berlin",
    "deputy": "bea", "away-from": "2027-02-01T08:00", "away-until": "2027-02-14T18:00",
}  # fmt: skip


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    return found


async def ann(node: Node) -> Visitor:
    await person(node, "bea", "reviewer", password=None)
    await person(node, "val", "viewer", password=None)
    await delegating.channel(node, "mail", "email")
    await delegating.channel(node, "chat", "slack", token="env:SLACK_TOKEN")
    await delegating.channel(node, "hook", "webhook")
    return await signed_in(node, "ann")


async def kept(node: Node) -> dict[str, Any]:
    def use_case(tx: Transaction) -> Preferences:
        found = tx[People].get_by_name("ann")
        return tx[PreferenceStore].of([found.id]).get(found.id, NONE)

    return written(await node.assent.database.read(use_case))


async def test_all_notification_preferences_can_be_set_and_reset(node: Node) -> None:
    browser = await ann(node)
    page = await browser.page("/account")
    offered = {each["value"] for each in page.all("option") if each["value"] in {"mail", "chat", "hook"}}
    assert offered == {"mail", "chat"}, "a hook reaches nobody in person"
    answer = await browser.send("/account", "/account/reached", **ALL)
    assert answer.headers["location"] == "/account?done=reached#reached"
    assert await kept(node) == {
        "channels": ["chat", "mail"],
        "quiet": {"from": "22:00", "to": "07:30", "timezone": "Europe/Berlin"},
        "away": {
            "deputy": "bea",
            "from": "2027-02-01T08:00:00.000000Z",
            "until": "2027-02-14T18:00:00.000000Z",
        },
    }
    page = await browser.page("/account?done=reached")
    shown = {each["id"]: each.get("value") for each in page.all("input") if each.get("id") in ALL}
    assert shown == {name: value for name, value in ALL.items() if not name.startswith("channel")}
    assert [each["value"] for each in page.all("option") if "selected" in each] == ["chat", "mail"]
    answer = await browser.send("/account", "/account/reached", zone="")
    assert answer.status_code == 303
    assert await kept(node) == {"channels": [], "quiet": None, "away": None}


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"zone": "Mars/Olympus"}, "must be a time zone"),
        ({"zone": ""}, "Zone: is required for quiet hours"),
        ({"quiet-to": "22:00"}, "must differ from the start"),
        ({"quiet-to": ""}, "must be a time, for example 22:00"),
        ({"deputy": ""}, "Deputy: is required if you enter dates"),
        ({"deputy": "nobody"}, "person nobody not found"),
        ({"deputy": "val"}, "is not a reviewer"),
        ({"deputy": "ann"}, "must be a different person"),
        ({"away-until": "2027-01-01T00:00"}, "must be later than the start"),
        ({"away-from": "soon"}, "must be a time"),
        ({"channel-0": "carrier-pigeon"}, "channel carrier-pigeon not found"),
    ],
)
async def test_invalid_preferences_show_an_error_and_keep_the_input(
    node: Node, typed: dict[str, str], said: str
) -> None:
    browser = await ann(node)
    answer = await browser.send("/account", "/account/reached", **(ALL | typed))
    assert answer.status_code == 422
    page = Page(answer.text)
    assert said in page.text
    given = ALL | typed
    shown = {each["id"]: each.get("value") for each in page.all("input") if each.get("id") in given}
    assert shown == {name: value for name, value in given.items() if not name.startswith("channel")}
    assert await kept(node) == {"channels": [], "quiet": None, "away": None}


async def test_a_form_without_its_csrf_token_is_rejected(node: Node) -> None:
    browser = await ann(node)
    assert (await browser.post("/account/reached", ALL)).status_code == 403
    assert (await browser.post("/account/unlink", {"channel": "x", "identity": "y"})).status_code == 403
    assert await kept(node) == {"channels": [], "quiet": None, "away": None}


async def test_a_person_without_a_role_can_set_quiet_hours(node: Node) -> None:
    await person(node, "ann", password=None)
    browser = visitor(node)
    await browser.post(f"/sign-in/{await link(node, 'ann')}", {})
    await delegating.channel(node, "mail", "email")
    page = await browser.page("/account")
    assert "Notifications" in page.text
    assert "mail" not in [each["value"] for each in page.all("option")], "what this project has is not theirs to see"
    typed = {"quiet-from": "22:00", "quiet-to": "07:30", "zone": "UTC"}
    assert (await browser.send("/account", "/account/reached", **typed)).status_code == 303
    assert (await kept(node))["quiet"] == {"from": "22:00", "to": "07:30", "timezone": "UTC"}
