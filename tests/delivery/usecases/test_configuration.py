"""Channels and routes in assent.yaml: validated before a node starts, and stored when it starts."""

import base64
from pathlib import Path
from typing import Any

import pytest

from assent.core.errors import AssentError
from assent.db.transaction import Transaction
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.routes import Routes, StoredRoute
from assent.kernel.settings import Settings
from assent.node import Node as ServerNode
from assent.platform.config_file import Misplaced
from assent.triggers.usecases.config_reload import Reloading
from tests.support.nodes import Node, running_node

SECRET = "whsec_" + base64.b64encode(b"a secret of 24 bytes or so").decode()
HOOK: dict[str, Any] = {
    "name": "hook",
    "type": "webhook",
    "settings": {"url": "https://example.org/hook", "secrets": ["env:HOOK_SECRET"]},
}
ROUTE: dict[str, Any] = {"pattern": "deploy.*", "channels": ["hook"], "remind": ["30m"]}


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)


def configured(settings: Settings, *, channels: Any = (HOOK,), routes: Any = (ROUTE,)) -> Settings:
    return settings.model_copy(update={"channels": channels, "routes": routes})


async def applied(node: Node, settings: Settings, **sections: Any) -> tuple[list[StoredChannel], list[StoredRoute]]:
    """Apply these sections as a starting node does, and return the stored channels and routes."""
    configuration = ServerNode(configured(settings, **sections))[Reloading].setup

    def use_case(tx: Transaction) -> tuple[list[StoredChannel], list[StoredRoute]]:
        configuration.apply(tx)
        return tx[Channels].in_project("default"), tx[Routes].in_project("default")

    return await node.assent.database.write(use_case)


async def admin(node: Node, method: str, path: str, body: Any = None) -> Any:
    return await node.call(method, path, await node.token("admin"), json=body)


async def test_channels_and_routes_in_the_file_are_stored_at_startup(settings: Settings) -> None:
    async with running_node(settings):
        pass
    async with running_node(configured(settings), worker=True) as node:
        (channel,) = (await admin(node, "GET", "/api/channels")).json()["items"]
        (route,) = (await admin(node, "GET", "/api/routes")).json()["items"]
    assert (channel["name"], channel["settings"], channel["source"]) == ("hook", HOOK["settings"], "file")
    assert {name: route[name] for name in ROUTE} == ROUTE
    assert (route["source"], route["createdBy"]) == ("file", "system:assent.yaml")


async def test_restarting_with_the_same_file_changes_nothing(node: Node, settings: Settings) -> None:
    first = await applied(node, settings)
    assert await applied(node, settings) == first


async def test_only_file_managed_entries_are_removed_with_the_file(node: Node, settings: Settings) -> None:
    await applied(node, settings)
    own = HOOK | {"name": "own"}
    await admin(node, "POST", "/api/channels", own)
    made = (await admin(node, "POST", "/api/routes", ROUTE | {"channels": ["own"]})).json()
    channels, routes = await applied(node, settings, channels=None, routes=None)
    assert [each.name for each in channels] == ["own"]
    assert [each.id for each in routes] == [made["id"]]


async def test_changes_in_the_file_are_applied(node: Node, settings: Settings) -> None:
    (before,), (old,) = await applied(node, settings)
    moved = HOOK | {"settings": HOOK["settings"] | {"url": "https://example.org/new"}}
    second = {"pattern": "*", "channels": ["hook"]}
    (after,), routes = await applied(node, settings, channels=[moved], routes=[second, ROUTE])
    assert (after.id, after.settings["url"]) == (before.id, "https://example.org/new")
    assert after.updated_at > before.updated_at
    assert [each.route.pattern for each in routes] == ["*", "deploy.*"]
    assert routes[1].id == old.id


async def test_routes_from_the_file_precede_all_others(node: Node, settings: Settings) -> None:
    await applied(node, settings)
    made = (await admin(node, "POST", "/api/routes", ROUTE | {"pattern": "first.*"})).json()
    _, routes = await applied(node, settings, routes=[ROUTE, ROUTE | {"pattern": "later.*"}])
    assert [each.route.pattern for each in routes] == ["deploy.*", "later.*", "first.*"]
    assert (await admin(node, "PUT", "/api/routes/order", {"ids": [made["id"]]})).status_code == 200


async def test_entries_from_the_file_cannot_be_changed_through_the_api(node: Node, settings: Settings) -> None:
    (channel,), (route,) = await applied(node, settings)
    for method, path, body in (
        ("PATCH", f"/api/channels/{channel.id}", {"enabled": False}),
        ("DELETE", f"/api/channels/{channel.id}", None),
        ("PATCH", f"/api/routes/{route.id}", {"quiet": False}),
        ("DELETE", f"/api/routes/{route.id}", None),
    ):
        answer = await admin(node, method, path, body)
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict"), path
        assert "assent.yaml" in answer.json()["detail"]


async def test_a_restart_does_not_enable_a_disabled_channel(node: Node, settings: Settings) -> None:
    (channel,), _ = await applied(node, settings)
    await node.assent.database.write(lambda tx: tx[Channels].disable(channel.id, because="410", now=tx.now()))
    (still,), _ = await applied(node, settings)
    assert (still.enabled, still.disabled_because) == (False, "410")
    revived = (await admin(node, "PATCH", f"/api/channels/{channel.id}", {"enabled": True})).json()
    assert (revived["enabled"], "disabledBecause" in revived) == (True, False)


async def test_changing_the_type_of_a_channel_creates_a_new_channel(node: Node, settings: Settings) -> None:
    other = StoredChannel(id="ch_old", project="default", name="hook", type="pigeon", settings={}, source="file")
    await node.assent.database.write(lambda tx: tx[Channels].add(other))
    (channel,), _ = await applied(node, settings)
    assert (channel.type, channel.id != "ch_old") == ("webhook", True)


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"channels": [HOOK, HOOK | {"colour": 1}]}, "channels[1]/colour: is not a known field"),
        ({"channels": [HOOK | {"type": "pigeon"}]}, "channels[0]/type: must be one of"),
        ({"channels": [HOOK | {"name": "Hook"}]}, "channels[0]/name: must start with a lowercase letter"),
        ({"channels": [HOOK | {"settings": {"url": "x"}}]}, "channels[0]/settings/url"),
        (
            {"channels": [HOOK | {"settings": {"secrets": [SECRET]}}]},
            "channels[0]/settings/secrets/0: must be a reference, env:",
        ),
        ({"channels": [HOOK | {"enabled": "yes"}]}, "channels[0]/enabled: must be true or false"),
        ({"channels": [HOOK, HOOK]}, "channels[1]/name: hook is already used by channels[0]"),
        ({"routes": [ROUTE, ROUTE | {"remind": ["soon"]}]}, "routes[1]/remind/0: must be a duration"),
        ({"routes": [ROUTE | {"colour": 1}]}, "routes[0]/colour: is not a known field"),
        ({"routes": [ROUTE | {"pattern": "deploy.*(risk ="}]}, "routes[0]: "),
        ({"routes": [ROUTE | {"project": 7}]}, "routes[0]/project"),
    ],
)  # fmt: skip
def test_an_invalid_file_prevents_startup_and_the_error_names_the_location(
    sqlite_settings: Settings, sections: dict[str, Any], said: str
) -> None:
    with pytest.raises(Misplaced) as refused:
        ServerNode(configured(sqlite_settings, **sections))
    assert refused.value.message.startswith(said)
    assert SECRET not in refused.value.message


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"routes": [ROUTE | {"channels": ["none"]}]}, "routes[0]/channels/0: channel none not found"),
        ({"routes": [ROUTE | {"project": "none"}]}, "routes[0]: Project none not found."),
        ({"channels": [HOOK | {"name": "own"}], "routes": []}, "channels[0]/name: a channel named own already exists"),
    ],
)
async def test_conflicts_with_stored_data_prevent_startup_and_change_nothing(
    node: Node, settings: Settings, sections: dict[str, Any], said: str
) -> None:
    await admin(node, "POST", "/api/channels", HOOK | {"name": "own"})
    with pytest.raises(Misplaced) as refused:
        await applied(node, settings, **sections)
    assert refused.value.message.startswith(said)
    (left,) = (await admin(node, "GET", "/api/channels")).json()["items"]
    assert (left["name"], left["source"]) == ("own", "api")


def test_both_sections_are_read_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "assent.yaml").write_text(
        "channels:\n"
        "  - name: hook\n"
        "    type: webhook\n"
        "    settings: {url: https://example.org/hook, secrets: [env:HOOK_SECRET]}\n"
        "routes:\n"
        "  - pattern: deploy.*\n"
        "    channels: [hook]\n"
        "    remind: [30m]\n"
    )
    monkeypatch.chdir(tmp_path)
    assert (Settings().channels, Settings().routes) == ((HOOK,), (ROUTE,))


def test_a_section_that_is_not_a_list_is_rejected(sqlite_settings: Settings) -> None:
    with pytest.raises(ValueError, match="routes"):
        Settings(data_dir=sqlite_settings.data_dir, routes={"pattern": "*"})


def test_a_configuration_error_is_a_domain_error() -> None:
    assert issubclass(Misplaced, AssentError)
