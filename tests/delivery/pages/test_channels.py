"""Channel pages: forms to create, test, change, link, disable and remove channels, with errors next to fields."""

import base64
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from assent.core.errors import InvalidRequest
from assent.db.transaction import Transaction
from assent.delivery.channels.registry import KINDS
from assent.delivery.pages.channel_forms import FORMS, Field, asked, form_of, values
from assent.delivery.pages.channels import health
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.links import Links
from assent.delivery.usecases.channels import ChannelService
from assent.kernel.settings import Settings
from tests.delivery.usecases import delegating
from tests.support.nodes import ManualClock, Node, running_node
from tests.support.receiver import Answer, receiving
from tests.web.corpus import XSS
from tests.web.reading import Page
from tests.web.visitors import Visitor, person, signed_in

SECRET = "whsec_" + base64.b64encode(b"a secret of 24 bytes or so").decode()
SECONDS = 1_000_000


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    return found


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    monkeypatch.setenv("OTHER_SECRET", SECRET)
    monkeypatch.setenv("SLACK_TOKEN", "xoxb-1")


@pytest.fixture
async def node(settings: Settings, clock: ManualClock) -> AsyncIterator[Node]:
    """A node that is allowed to send to localhost."""
    near = settings.model_copy(update={"outbound_allow": ("127.0.0.0/8",), "channel_secrets": ("env:*",)})
    async with running_node(near, clock=clock) as running:
        yield running


async def admin(node: Node) -> Visitor:
    return await signed_in(node, "mia", "admin")


async def set_up(browser: Visitor, kind: str = "webhook", name: str = "ops", **typed: str) -> str:
    """Create a channel with its form, and return the path of its page."""
    given = {"set-url": "https://example.org/hook", "set-secrets": "env:HOOK_SECRET"} if kind == "webhook" else {}
    answer = await browser.send(f"/admin/channels/new?type={kind}", "/admin/channels", name=name, **(given | typed))
    assert answer.status_code == 303, Page(answer.text).text
    address: str = answer.headers["location"]
    return address.partition("?")[0]


async def stored(node: Node) -> StoredChannel:
    (found,) = await node.assent.database.read(lambda tx: tx[Channels].every())
    return found


async def test_a_channel_can_be_created_changed_disabled_and_removed(node: Node) -> None:
    browser = await admin(node)
    assert "No channels yet" in (await browser.page("/admin/channels")).text
    one = await set_up(browser, **{"set-events": "created, released"})
    found = await stored(node)
    assert (found.name, found.type, found.created_by, found.enabled) == ("ops", "webhook", "person:mia", True)
    assert found.settings == {
        "url": "https://example.org/hook", "secrets": ["env:HOOK_SECRET"], "events": ["created", "released"],
    }  # fmt: skip
    page = await browser.page(one)
    assert f"/callbacks/{found.id}" in page.text
    typed = {"name": "hooks", "set-url": "https://example.org/new", "set-secrets": "env:HOOK_SECRET\nenv:OTHER_SECRET"}
    form = page.form(one)
    answer = await browser.post(one, form.fields | typed)
    assert answer.status_code == 303, Page(answer.text).text
    found = await stored(node)
    assert found.name == "hooks"
    assert found.settings == {
        "url": "https://example.org/new", "secrets": ["env:HOOK_SECRET", "env:OTHER_SECRET"],
    }, "what was left empty is gone"  # fmt: skip

    assert (await browser.send(one, "/switch")).headers["location"].endswith("?done=off")
    assert not (await stored(node)).enabled
    assert "disabled" in (await browser.page("/admin/channels")).text
    await browser.send(one, "/switch")
    assert (await stored(node)).enabled

    assert "No more messages are sent through it" in (await browser.page(f"{one}/remove")).text
    assert (await browser.send(f"{one}/remove", "/remove")).headers["location"] == "/admin/channels?done=removed"
    assert await node.assent.database.read(lambda tx: tx[Channels].every()) == []
    assert (await browser.get(one)).status_code == 404


@pytest.mark.parametrize(
    ("typed", "control", "said"),
    [
        ({"set-url": "ftp://example.org"}, "set-url", "URL:"),
        ({"set-secrets": SECRET}, "set-secrets", "not the secret itself"),
        ({"set-secrets": "env:NOT_THERE"}, "set-secrets", "NOT_THERE"),
        ({"name": "No Spaces"}, "name", "Name: must start with"),
        ({"set-answersAs": "nobody"}, "set-answersAs", "person nobody not found in this project"),
        ({"others": "{"}, "others", "Others:"),
        ({"others": '{"colour": "red"}'}, "others", "colour: is not one of"),
        ({"others": '{"url": "https://example.org"}'}, "others", "has its own field above; set it there"),
    ],
)
async def test_an_invalid_channel_is_not_saved_and_the_error_is_next_to_its_field(
    node: Node, typed: dict[str, str], control: str, said: str
) -> None:
    browser = await admin(node)
    given = {"name": "ops", "set-url": "https://example.org/hook", "set-secrets": "env:HOOK_SECRET"} | typed
    answer = await browser.send("/admin/channels/new?type=webhook", "/admin/channels", **given)
    assert answer.status_code == 422
    page = Page(answer.text)
    assert said in page.text
    assert f"#{control}" in page.links()
    (wrong,) = [attributes for _, attributes in page.elements if attributes.get("aria-invalid") == "true"]
    assert wrong["id"] == control
    kept = [attributes.get("value") for attributes in page.all("input") if attributes.get("id") == "set-url"]
    assert kept == [given["set-url"]], "what was typed is still there"
    assert await node.assent.database.read(lambda tx: tx[Channels].every()) == []


async def test_an_outdated_channel_form_is_rejected(node: Node) -> None:
    browser, other = await admin(node), await signed_in(node, "max", "admin")
    one = await set_up(browser)
    mine = (await browser.page(one)).form(one)
    await other.send(one, "/switch")
    typed = {"name": "mine", "set-url": "https://evil.example", "set-secrets": "env:HOOK_SECRET"}
    answer = await browser.post(one, mine.fields | typed)
    assert answer.status_code == 412
    assert "This channel has changed since you opened the page" in answer.text
    found = await stored(node)
    assert (found.name, found.settings["url"], found.enabled) == ("ops", "https://example.org/hook", False)


def test_settings_without_a_form_field_are_kept_and_can_be_changed() -> None:
    """A newer version or the API can store settings for which the form does not have a field."""
    form = form_of("webhook")
    before = {"url": "https://example.org", "later": {"deep": [1]}, "gone": 1}
    shown = values(form, before, {})
    assert '"later"' in shown["others"]
    typed = {"set-url": "https://example.org", "others": '{"later": {"deep": [2]}}'}
    found = asked(form, typed, before)
    assert found["later"] == {"deep": [2]}
    assert found["gone"] is None


@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_every_form_field_is_a_setting_of_its_channel_type(node: Node, kind: str) -> None:
    browser = await admin(node)
    page = await browser.page(f"/admin/channels/new?type={kind}")
    assert FORMS[kind].title in page.text
    assert FORMS[kind].about in page.text
    assert KINDS[kind].secrets <= {each.name for each in FORMS[kind].fields}
    for field in FORMS[kind].fields:
        assert "is not one of" not in _refused(node, kind, field), field


def _refused(node: Node, kind: str, field: Field) -> str:
    """Return the channel's error about this field, ignoring errors about other fields that are missing."""
    try:
        node.assent[ChannelService].check(
            kind, {field.name: field.read({field.id: "1" if field.shape == "number" else "env:HOOK_SECRET"})}
        )
    except InvalidRequest as error:
        pointer, _, said = error.message.partition(": ")
        return said if pointer == f"/settings/{field.name}" and field.shape != "choice" else ""
    return ""


async def test_testing_a_channel_shows_the_result_and_its_health(node: Node) -> None:
    browser = await admin(node)
    with receiving() as hook:
        one = await set_up(browser, **{"set-url": hook.url("/hook")})
        assert "not used yet" in (await browser.page(one)).text
        answer = await browser.send(one, "/test", do="check")
        assert "Check passed." in answer.text
        assert "accepts connections" in answer.text
        assert hook.calls == []
        answer = await browser.send(one, "/test", do="send")
        assert "Test message sent." in answer.text
        (call,) = hook.calls
        assert "This is a test message for this channel" in call.body.decode()
        assert "last success" in (await browser.page("/admin/channels")).text
        hook.answer("/hook", Answer(500))
        answer = await browser.send(one, "/test", do="send")
    assert "Test failed." in answer.text
    assert "500" in answer.text
    page = await browser.page("/admin/channels")
    assert "failing" in page.text
    assert "last attempt" in page.text


async def test_accounts_can_be_linked_and_unlinked(node: Node) -> None:
    browser = await admin(node)
    await person(node, "ann", "reviewer", password=None)
    one = await set_up(browser, "slack", "chat", **{"set-token": "env:SLACK_TOKEN"})
    assert "No linked accounts yet" in (await browser.page(one)).text
    answer = await browser.send(one, "/links", identity="T1:U2", person="ann")
    assert answer.headers["location"] == f"{one}?done=linked"
    assert "T1:U2" in (await browser.page(one)).text
    channel_id = one.rpartition("/")[2]
    found = await node.assent.database.read(lambda tx: tx[Links].person_of(channel_id, "T1:U2"))
    assert found is not None
    assert found.name == "ann"
    refused = await browser.send(one, "/links", identity="T1:U3", person="nobody")
    assert refused.status_code == 404
    assert "T1:U3" in refused.text, "what was typed is still there"
    assert (await browser.send(one, "/unlink")).headers["location"] == f"{one}?done=unlinked"
    assert await node.assent.database.read(lambda tx: tx[Links].of_channel(channel_id)) == []


async def test_the_slack_form_shows_the_app_manifest(node: Node) -> None:
    browser = await admin(node)
    page = await browser.page("/admin/channels/new?type=slack")
    assert '"socket_mode_enabled": true' in page.text
    assert "connections:write" in page.text
    one = await set_up(browser, "slack", "chat", **{"set-token": "env:SLACK_TOKEN"})
    page = await browser.page(one)
    assert '"socket_mode_enabled": false' in page.text
    assert f"/callbacks/{one.rpartition('/')[2]}" in page.text


async def test_a_channel_from_assent_yaml_is_shown_but_cannot_be_changed(node: Node) -> None:
    browser = await admin(node)
    channel_id = await delegating.channel(node, "mail", "email")

    def from_file(tx: Transaction) -> None:
        found = tx[Channels].get(channel_id)
        tx[Channels].remove(channel_id, now=tx.now())
        tx[Channels].add(_again(found, id=f"{channel_id}f", source="file", removed_at=None))

    await node.assent.database.write(from_file)
    one = f"/admin/channels/{channel_id}f"
    page = await browser.page(one)
    assert "is defined in assent.yaml" in page.text
    assert "127.0.0.1" in page.text
    actions = {form.action for form in page.forms}
    assert not {one, f"{one}/switch"} & actions
    assert f"{one}/remove" not in page.links()
    key = page.form("/sign-out").fields
    shown = {"shown": str((await stored(node)).updated_at), "name": "other"}
    for path in (one, f"{one}/switch", f"{one}/remove"):
        answer = await browser.post(path, key | shown)
        assert answer.status_code == 409, path
        assert "assent.yaml" in answer.text
    assert (await stored(node)).name == "mail"


def _again(channel: StoredChannel, **changes: Any) -> StoredChannel:
    fields = {name: getattr(channel, name) for name in StoredChannel.__slots__}
    return StoredChannel(**(fields | changes))


@pytest.mark.parametrize("role", ["viewer", "reviewer", "rule-admin", "auditor"])
async def test_only_admins_can_see_and_change_channels(node: Node, role: str) -> None:
    browser, other = await admin(node), await signed_in(node, "val", role)
    one = await set_up(browser)
    key = (await other.page("/account")).form("/sign-out").fields
    for path in ("/admin/channels", "/admin/channels/new?type=webhook", one, f"{one}/remove"):
        assert (await other.get(path)).status_code == 403, path
    typed = {"name": "x", "type": "webhook", "identity": "x", "person": "val", "enabled": "no", "do": "check"}
    for path in (
        "/admin/channels",
        one,
        *(f"{one}/{each}" for each in ("test", "switch", "links", "unlink", "remove")),
    ):
        assert (await other.post(path, key | typed)).status_code == 403, path
        assert (await browser.post(path, typed)).status_code == 403, "without the form's key"
    assert (await stored(node)).enabled


async def test_channel_error_messages_are_escaped(node: Node) -> None:
    browser = await admin(node)
    one = await set_up(browser)
    plain = (await browser.page(one)).structure
    channel_id = one.rpartition("/")[2]
    for text in XSS[:30]:
        await node.assent.database.write(partial(failed, channel_id=channel_id, error=text))
        page = await browser.page(one)
        assert len(page.elements) == len(plain) + 2, "the line that says it, and the time beside it"
        assert not [each for _, attributes in page.elements for each in attributes if each.startswith("on")]


def failed(tx: Transaction, *, channel_id: str, error: str) -> None:
    tx[Channels].note_failed(channel_id, error, tx.now())


def channel(**changes: Any) -> StoredChannel:
    return StoredChannel(**({"id": "ch_1", "project": "p", "name": "n", "type": "webhook", "settings": {}} | changes))


SOCKET = {"type": "slack", "settings": {"token": "env:A", "appToken": "env:B"}}


@pytest.mark.parametrize(
    ("found", "problem", "state", "said"),
    [
        (channel(), None, "new", ["not used yet"]),
        (channel(ok_at=5), None, "well", ["last success"]),
        (channel(ok_at=5, heard_at=6), None, "well", ["last success", "last contact"]),
        (channel(ok_at=5, failed_at=6, last_error="No."), None, "failing", ["last attempt", "last success"]),
        (channel(ok_at=5), "No secret.", "failing", ["invalid settings", "last success"]),
        (channel(enabled=False, disabled_because="410"), None, "off", []),
        (channel(**SOCKET), None, "lost", ["never connected"]),
        (channel(**SOCKET, heard_at=1_000 * SECONDS), None, "connected", ["last contact"]),
        (channel(**SOCKET, heard_at=1_000 * SECONDS, ok_at=5), None, "connected", ["last contact", "last success"]),
        (channel(**SOCKET, heard_at=800 * SECONDS), None, "lost", ["last contact"]),
    ],
)
def test_the_health_of_a_channel_is_described_in_words(
    found: StoredChannel, problem: str | None, state: str, said: list[str]
) -> None:
    seen = health(found, problem, 1_012 * SECONDS)
    assert (seen.state, [each.text for each in seen.signs]) == (state, said)
