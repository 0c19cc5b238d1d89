"""The channels API: creating and testing channels, linking accounts, and references to secrets."""

import base64
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from tests.support.nodes import Node, running_node
from tests.support.receiver import Answer, Receiver, receiving

SECRET = "whsec_" + base64.b64encode(b"a secret of 24 bytes or so").decode()


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    monkeypatch.setenv("OTHER_SECRET", SECRET)


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture
async def near(settings: Settings) -> AsyncIterator[Node]:
    """A node that is allowed to send requests to localhost."""
    async with running_node(settings.model_copy(update={"outbound_allow": ("127.0.0.0/8",)})) as running:
        yield running


def webhook(**changes: Any) -> dict[str, Any]:
    return {"url": "https://example.org/hook", "secrets": ["env:HOOK_SECRET"]} | changes


async def admin(node: Node, method: str, path: str, body: Any = None) -> httpx2.Response:
    return await node.call(method, path, await node.token("admin"), json=body)


async def made(node: Node, name: str = "ops", **changes: Any) -> dict[str, Any]:
    answer = await admin(
        node, "POST", "/api/channels", {"name": name, "type": "webhook", "settings": webhook(**changes)}
    )
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def pointer(answer: httpx2.Response) -> str:
    assert answer.status_code == 422, answer.text
    found: str = answer.json()["errors"][0]["pointer"]
    return found


async def test_a_channel_can_be_created_shown_changed_and_removed(node: Node) -> None:
    channel = await made(node)
    assert channel["settings"] == webhook()
    assert (channel["enabled"], channel["source"], channel["createdBy"]) == (True, "api", "person:owner")
    assert channel["callbackUrl"].endswith(f"/callbacks/{channel['id']}")
    path = f"/api/channels/{channel['id']}"
    assert (await admin(node, "GET", path)).json() == channel
    assert (await admin(node, "GET", "/api/channels")).json() == {"items": [channel]}
    changed = (await admin(node, "PATCH", path, {"enabled": False, "settings": {"answersAs": "owner"}})).json()
    assert (changed["enabled"], changed["settings"]) == (False, webhook(answersAs="owner"))
    assert changed["updatedAt"] > channel["updatedAt"]
    taken = (await admin(node, "PATCH", path, {"settings": {"answersAs": None}})).json()
    assert taken["settings"] == webhook()
    assert (await admin(node, "DELETE", path)).status_code == 204
    assert code(await admin(node, "GET", path)) == (404, "not_found")
    assert code(await admin(node, "DELETE", path)) == (404, "not_found")
    assert (await admin(node, "GET", "/api/channels")).json() == {"items": []}


async def test_a_removed_channels_name_can_be_reused(node: Node) -> None:
    first = await made(node)
    again = {"name": "ops", "type": "webhook", "settings": webhook()}
    assert code(await admin(node, "POST", "/api/channels", again)) == (409, "conflict")
    await made(node, "other")
    other = (await admin(node, "GET", "/api/channels")).json()["items"][1]
    assert code(await admin(node, "PATCH", f"/api/channels/{other['id']}", {"name": "ops"})) == (409, "conflict")
    await admin(node, "DELETE", f"/api/channels/{first['id']}")
    assert (await made(node))["id"] != first["id"]


async def test_a_plain_secret_is_rejected_and_never_stored(node: Node) -> None:
    body = {"name": "ops", "type": "webhook", "settings": webhook(secrets=[SECRET])}
    answer = await admin(node, "POST", "/api/channels", body)
    assert pointer(answer) == "/settings/secrets/0"
    assert SECRET not in answer.text
    channel = await made(node)
    path = f"/api/channels/{channel['id']}"
    assert pointer(await admin(node, "PATCH", path, {"settings": {"secrets": [SECRET]}})) == "/settings/secrets/0"

    def stored(tx: Transaction) -> str:
        return str(tx.session.all("SELECT settings FROM assent_channels", {}))

    assert SECRET not in await node.assent.database.read(stored)
    assert SECRET not in (await admin(node, "GET", path)).text


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"name": "Ops"}, "/name"),
        ({"type": "pigeon"}, "/type"),
        ({"settings": {"url": "ftp://x"}}, "/settings/url"),
        ({"settings": webhook(colour="red")}, "/settings/colour"),
        ({"settings": webhook(secrets=["env:NO_SUCH"])}, "/settings/secrets/0"),
        ({"settings": webhook(answersAs="nobody-here")}, "/settings/answersAs"),
        ({"settings": webhook(events=["x" * 30_000])}, "/settings"),
        ({"settings": webhook(secrets=["env:ASSENT_TOKEN"])}, "/settings/secrets/0"),
        ({"settings": webhook(secrets=["file:/proc/self/environ"])}, "/settings/secrets/0"),
        ({"colour": "red"}, "/colour"),
    ],
)
async def test_the_error_for_an_invalid_channel_points_to_the_field(
    node: Node, body: dict[str, Any], where: str
) -> None:
    whole = {"name": "ops", "type": "webhook", "settings": webhook()} | body
    assert pointer(await admin(node, "POST", "/api/channels", whole)) == where
    assert (await admin(node, "GET", "/api/channels")).json() == {"items": []}


async def test_the_servers_key_file_cannot_be_used_as_a_channel_secret(node: Node, tmp_path: Path) -> None:
    keys = node.assent.settings.data_dir / "assent.keys"
    keys.write_text(SECRET)
    for path in (keys, tmp_path / "x" / ".." / keys.relative_to(tmp_path)):
        body = {"name": "ops", "type": "webhook", "settings": webhook(secrets=[f"file:{path}"])}
        assert pointer(await admin(node, "POST", "/api/channels", body)) == "/settings/secrets/0"


async def test_a_project_admin_cannot_use_the_servers_secrets(node: Node) -> None:
    ann = await node.person("ann", "admin")
    body = {"name": "ops", "type": "webhook", "settings": webhook()}
    answer = await node.call("POST", "/api/channels", ann, json=body)
    assert code(answer) == (403, "forbidden")
    assert "channel_secrets" in answer.json()["detail"]
    # The admin cannot redirect an existing secret to another URL either.
    channel = await made(node)
    path = f"/api/channels/{channel['id']}"
    moved = await node.call("PATCH", path, ann, json={"settings": {"url": "https://evil.example"}})
    assert code(moved) == (403, "forbidden")
    assert (await node.call("PATCH", path, ann, json={"enabled": False})).status_code == 200


async def test_a_project_admin_can_use_secrets_that_the_operator_allows(settings: Settings) -> None:
    allowing = settings.model_copy(update={"channel_secrets": ("env:HOOK_*", "file:/run/hooks/*")})
    async with running_node(allowing) as node:
        ann = await node.person("ann", "admin")
        body = {"name": "ops", "type": "webhook", "settings": webhook()}
        assert (await node.call("POST", "/api/channels", ann, json=body)).status_code == 201
        for reference in ("env:OTHER_SECRET", "file:/run/hooks/../../etc/passwd"):
            other = {"name": "two", "type": "webhook", "settings": webhook(secrets=[reference])}
            assert code(await node.call("POST", "/api/channels", ann, json=other)) == (403, "forbidden")


async def test_only_admins_can_see_a_channels_settings(node: Node) -> None:
    channel = await made(node)
    viewer = await node.person("vi", "viewer")
    seen = (await node.call("GET", f"/api/channels/{channel['id']}", viewer)).json()
    assert "settings" not in seen
    assert (seen["name"], seen["type"], seen["enabled"]) == ("ops", "webhook", True)


async def test_a_channel_used_by_a_route_cannot_be_removed_or_renamed(node: Node) -> None:
    channel = await made(node)
    route = (await admin(node, "POST", "/api/routes", {"pattern": "*", "channels": ["ops"]})).json()
    path = f"/api/channels/{channel['id']}"
    refused = await admin(node, "DELETE", path)
    assert code(refused) == (409, "conflict")
    assert route["id"] in refused.json()["detail"]
    assert code(await admin(node, "PATCH", path, {"name": "new"})) == (409, "conflict")
    await admin(node, "DELETE", f"/api/routes/{route['id']}")
    assert (await admin(node, "PATCH", path, {"name": "new"})).json()["name"] == "new"
    assert (await admin(node, "DELETE", path)).status_code == 204


async def test_testing_a_channel_reports_the_result_and_updates_its_health(near: Node, hook: Receiver) -> None:
    channel = await made(near, url=hook.url("/hook"))
    path = f"/api/channels/{channel['id']}"
    tried = (await admin(near, "POST", f"{path}/test", {})).json()
    assert (tried["ok"], tried["sent"], hook.calls) == (True, False, [])
    sent = (await admin(near, "POST", f"{path}/test", {"send": True})).json()
    assert (sent["ok"], sent["sent"]) == (True, True)
    (call,) = hook.calls
    call.verify(SECRET)
    assert "test" in str(call.json)
    shown = (await admin(near, "GET", path)).json()
    assert shown["okAt"]
    assert "lastError" not in shown
    assert (await admin(near, "GET", "/api/breakpoints")).json()["items"] == []
    assert (await admin(near, "GET", "/api/deliveries")).json()["items"] == []


async def test_a_failed_channel_test_reports_the_reason(near: Node, hook: Receiver) -> None:
    channel = await made(near, url=hook.url("/hook"))
    hook.answer("/hook", Answer(500))
    tried = (await admin(near, "POST", f"/api/channels/{channel['id']}/test", {"send": True})).json()
    assert (tried["ok"], tried["sent"]) == (False, False)
    assert "500" in tried["detail"]
    shown = (await admin(near, "GET", f"/api/channels/{channel['id']}")).json()
    assert shown["lastError"] == tried["detail"]


async def test_an_account_can_be_linked_to_only_one_person(node: Node) -> None:
    channel = await made(node)
    await node.person("ann", "reviewer")
    await node.person("bo", "reviewer")
    path = f"/api/channels/{channel['id']}/links"
    made_link = (await admin(node, "PUT", path, {"identity": "T01:U02", "person": "ann"})).json()
    assert (made_link["identity"], made_link["person"], made_link["linkedBy"]) == ("T01:U02", "ann", "person:owner")
    again = await admin(node, "PUT", path, {"identity": "T01:U02", "person": "ann"})
    assert again.json() == made_link
    assert code(await admin(node, "PUT", path, {"identity": "T01:U02", "person": "bo"})) == (409, "conflict")
    assert code(await admin(node, "PUT", path, {"identity": "T01:U03", "person": "zoe"})) == (404, "not_found")
    assert (await admin(node, "GET", path)).json() == {"items": [made_link]}
    assert (await admin(node, "DELETE", f"{path}?identity=T01:U02")).status_code == 204
    assert code(await admin(node, "DELETE", f"{path}?identity=T01:U02")) == (404, "not_found")
    assert (await admin(node, "GET", path)).json() == {"items": []}


async def test_a_project_admin_cannot_link_a_person_who_belongs_to_several_projects(node: Node) -> None:
    channel = await made(node)
    ann = await node.person("ann", "admin")
    body = {"identity": "T01:U02", "person": "owner"}
    answer = await node.call("PUT", f"/api/channels/{channel['id']}/links", ann, json=body)
    assert code(answer) == (403, "forbidden")


async def test_a_channel_in_another_project_returns_404(node: Node) -> None:
    channel = await made(node)
    await admin(node, "POST", "/api/projects", {"id": "elsewhere"})
    foreign = await node.person("fay", "admin", project="elsewhere")
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/links")):
        answer = await node.call(method, f"/api/channels/{channel['id']}{path}", foreign)
        assert code(answer) == (404, "not_found")
    tried = await node.call("POST", f"/api/channels/{channel['id']}/test", foreign, json={"send": True})
    assert code(tried) == (404, "not_found")
    assert (await node.call("GET", "/api/channels", foreign)).json() == {"items": []}
