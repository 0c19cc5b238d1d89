"""The routes and preferences API: changing and ordering routes, and dry runs."""

from typing import Any

import httpx2
import pytest

from assent.core.timestamps import from_iso
from assent.db.transaction import Transaction
from assent.delivery.store.channels import Channels, StoredChannel
from tests.support.nodes import ManualClock, Node

ROUTE = {"pattern": "deploy.*", "channels": ["hook"]}
WHOLE = {
    "pattern": "deploy.*",
    "channels": ["hook"],
    "to": ["group:ops", "owner"],
    "fallback": ["mail"],
    "remind": ["30m", "2h"],
    "escalate": [{"after": "1h", "to": ["person:bo"], "channels": ["mail"]}],
    "timeout": {"after": "1d", "then": "reject"},
    "quiet": False,
    "note": "To production.",
}


@pytest.fixture
async def world(node: Node) -> Node:
    """A project with two channels, a group and some people."""
    for name in ("ann", "bo", "cy"):
        await node.person(name, "reviewer")
    await admin(node, "PUT", "/api/groups/ops", {"members": ["ann", "cy"]})

    def use_case(tx: Transaction) -> None:
        for name, kind in (("hook", "webhook"), ("mail", "slack")):
            stored = StoredChannel(id=tx.new_id("ch"), project="default", name=name, type=kind, settings={})
            tx[Channels].add(stored)

    await node.assent.database.write(use_case)
    return node


async def admin(node: Node, method: str, path: str, body: Any = None) -> httpx2.Response:
    return await node.call(method, path, await node.token("admin"), json=body)


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def pointer(answer: httpx2.Response) -> str:
    assert answer.status_code == 422, answer.text
    found: str = answer.json()["errors"][0]["pointer"]
    return found


async def test_a_route_can_be_created_changed_and_removed(world: Node) -> None:
    made = await admin(world, "POST", "/api/routes", WHOLE)
    assert made.status_code == 201, made.text
    route = made.json()
    assert {name: route[name] for name in WHOLE} == WHOLE
    assert (route["enabled"], route["source"], route["createdBy"]) == (True, "api", "person:owner")
    path = f"/api/routes/{route['id']}"
    changed = (await admin(world, "PATCH", path, {"remind": ["1h"], "timeout": None, "enabled": False})).json()
    assert (changed["remind"], changed["enabled"], "timeout" in changed) == (["1h"], False, False)
    assert changed["escalate"] == WHOLE["escalate"]
    assert (await admin(world, "GET", "/api/routes")).json() == {"items": [changed]}
    assert (await admin(world, "DELETE", path)).status_code == 204
    assert code(await admin(world, "DELETE", path)) == (404, "not_found")


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"channels": ["pigeon"]}, "/channels/0"),
        ({"fallback": ["pigeon"]}, "/fallback/0"),
        ({"to": ["group:nobody"]}, "/to/0"),
        ({"to": ["experts", "person:nobody"]}, "/to/1"),
        ({"escalate": [{"after": "1h", "to": ["group:none"]}]}, "/escalate/0/to/0"),
        ({"escalate": [{"after": "1h", "to": ["owner"], "channels": ["none"]}]}, "/escalate/0/channels/0"),
        ({"timeout": {"after": "1h", "then": "approve"}}, "/timeout/then"),
        ({"remind": ["2h", "1h"]}, "/remind/1"),
        ({"colour": "red"}, "/colour"),
    ],
)
async def test_a_route_with_unknown_channels_or_recipients_is_rejected(
    world: Node, changes: dict[str, Any], where: str
) -> None:
    assert pointer(await admin(world, "POST", "/api/routes", ROUTE | changes)) == where
    made = (await admin(world, "POST", "/api/routes", ROUTE)).json()
    assert pointer(await admin(world, "PATCH", f"/api/routes/{made['id']}", changes)) == where


async def test_a_route_with_an_invalid_pattern_is_rejected(world: Node) -> None:
    refused = await admin(world, "POST", "/api/routes", ROUTE | {"pattern": "deploy.*(risk ="})
    assert code(refused) == (422, "invalid_pattern")


async def test_routes_can_be_reordered(world: Node) -> None:
    ids = [(await admin(world, "POST", "/api/routes", ROUTE | {"pattern": f"a{n}"})).json()["id"] for n in range(3)]
    turned = [ids[2], ids[0], ids[1]]
    answer = (await admin(world, "PUT", "/api/routes/order", {"ids": turned})).json()
    assert [each["id"] for each in answer["items"]] == turned
    assert [each["id"] for each in (await admin(world, "GET", "/api/routes")).json()["items"]] == turned
    for wrong in (ids[:2], [*ids, ids[0]], [*ids[:2], "rt_0"]):
        assert pointer(await admin(world, "PUT", "/api/routes/order", {"ids": wrong})) == "/ids"


async def test_a_route_check_returns_recipients_channels_and_times(world: Node, clock: ManualClock) -> None:
    route = (await admin(world, "POST", "/api/routes", WHOLE | {"to": ["group:ops"], "channels": ["mail"]})).json()
    supposed = {"agentId": "a", "payload": {"question": "?", "breakpointId": "deploy.web"}}
    found = (await admin(world, "POST", "/api/routes/check", {"breakpoint": supposed})).json()
    assert (found["routeId"], found["pattern"], found["warnings"]) == (route["id"], "deploy.*", [])
    steps = [(each["kind"], (from_iso(each["at"]) - clock.at) // 1_000_000) for each in found["steps"]]
    assert steps == [("ask", 0), ("remind", 1800), ("escalate", 3600), ("remind", 7200), ("time-out", 86400)]
    told = [{(each["channel"], each["person"]) for each in step["told"]} for step in found["steps"]]
    assert told[0] == {("mail", "ann"), ("mail", "cy")}
    assert told[2] == {("mail", "bo")}
    assert found["steps"][-1]["then"] == "reject"
    assert (await admin(world, "GET", "/api/breakpoints")).json()["items"] == []
    assert (await admin(world, "GET", "/api/deliveries")).json()["items"] == []


async def test_a_route_check_for_a_pending_breakpoint_uses_the_first_match(world: Node) -> None:
    await admin(world, "POST", "/api/routes", ROUTE | {"pattern": "other.*"})
    first = (await admin(world, "POST", "/api/routes", ROUTE | {"pattern": "deploy.*"})).json()
    await admin(world, "POST", "/api/routes", ROUTE | {"pattern": "*"})
    created = await world.create(payload={"question": "?", "breakpointId": "deploy.web"})
    found = (await admin(world, "POST", "/api/routes/check", {"breakpointId": created["id"]})).json()
    assert found["routeId"] == first["id"]
    assert found["steps"][0]["told"] == [{"channel": "hook"}]


async def test_a_route_check_warns_if_no_one_would_be_notified(world: Node) -> None:
    supposed = {"breakpoint": {"agentId": "a", "payload": {"question": "?", "breakpointId": "x"}}}
    assert "No route matches" in (await admin(world, "POST", "/api/routes/check", supposed)).json()["warnings"][0]
    await admin(world, "PUT", "/api/groups/empty", {"members": []})
    await admin(world, "POST", "/api/routes", {"pattern": "*", "channels": ["mail"], "to": ["group:empty"]})
    warned = (await admin(world, "POST", "/api/routes/check", supposed)).json()
    assert warned["warnings"] == ["The ask step would not notify any recipients."]
    await admin(world, "POST", "/api/rules", {"pattern": "*", "action": "auto-approve"})
    approved = (await admin(world, "POST", "/api/routes/check", supposed)).json()
    assert approved["steps"] == []
    assert approved["warnings"] == ["A rule approves this breakpoint; no notifications are sent."]


@pytest.mark.parametrize("body", [{}, {"breakpointId": "bp_1", "breakpoint": {"agentId": "a", "payload": {}}}])
async def test_a_route_check_requires_either_an_id_or_a_breakpoint(world: Node, body: dict[str, Any]) -> None:
    assert (await admin(world, "POST", "/api/routes/check", body)).status_code == 422


async def test_people_can_set_their_own_preferences(world: Node, clock: ManualClock) -> None:
    dora = await world.person("dora", "reviewer")
    path = "/api/people/dora/preferences"
    assert (await world.call("GET", path, dora)).json() == {"channels": [], "quiet": None, "away": None}
    wishes = {
        "channels": ["mail"],
        "quiet": {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin"},
        "away": {"deputy": "bo", "from": None, "until": "2099-01-01T00:00:00.000000Z"},
    }
    assert (await world.call("PUT", path, dora, json=wishes)).json() == wishes
    assert (await world.call("GET", path, dora)).json() == wishes
    await admin(world, "POST", "/api/routes", {"pattern": "*", "channels": ["mail"], "to": ["person:dora"]})
    supposed = {"breakpoint": {"agentId": "a", "payload": {"question": "?"}}}
    found = (await admin(world, "POST", "/api/routes/check", supposed)).json()
    assert found["steps"][0]["told"] == [{"channel": "mail", "person": "bo"}]
    at_home = {"quiet": wishes["quiet"]}
    await world.call("PUT", path, dora, json=at_home)
    clock.at = from_iso("2027-01-15T21:30:00Z")
    late = (await admin(world, "POST", "/api/routes/check", supposed)).json()
    assert late["steps"][0]["told"][0]["notBefore"] == "2027-01-16T06:00:00.000000Z"


async def test_only_admins_can_read_and_set_other_peoples_preferences(world: Node) -> None:
    dora = await world.person("dora", "reviewer")
    for method, body in (("GET", None), ("PUT", {})):
        answer = await world.call(method, "/api/people/ann/preferences", dora, json=body)
        assert code(answer) == (403, "forbidden")
    assert (await admin(world, "PUT", "/api/people/ann/preferences", {"channels": ["mail"]})).status_code == 200
    assert code(await admin(world, "GET", "/api/people/nobody/preferences")) == (404, "not_found")
    agent = await world.call("GET", "/api/people/ann/preferences", await world.token("agent"))
    assert code(agent) == (403, "forbidden")


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"channels": ["pigeon"]}, "/channels/0"),
        ({"away": {"deputy": "dora"}}, "/away/deputy"),
        ({"away": {"deputy": "nobody"}}, "/away/deputy"),
        ({"away": {"deputy": "vi"}}, "/away/deputy"),
        ({"quiet": {"from": "22:00", "to": "22:00", "timezone": "UTC"}}, "/quiet/to"),
        ({"quiet": {"from": "22:00", "to": "07:00", "timezone": "Mars/Olympus"}}, "/quiet/timezone"),
        ({"colour": "red"}, "/colour"),
    ],
)
async def test_invalid_preferences_are_rejected(world: Node, body: dict[str, Any], where: str) -> None:
    dora = await world.person("dora", "reviewer")
    await world.person("vi", "viewer")
    assert pointer(await world.call("PUT", "/api/people/dora/preferences", dora, json=body)) == where


async def test_no_rule_approves_a_breakpoint_that_requires_a_ticket(world: Node) -> None:
    policy = {"ticketTags": ["audit"]}
    assert (await admin(world, "PUT", "/api/policy", policy)).json() == policy
    assert (await admin(world, "GET", "/api/policy")).json() == policy
    await admin(world, "POST", "/api/rules", {"pattern": "*", "action": "auto-approve"})
    asked = {"breakpointId": "deploy.web"}
    assert (await admin(world, "POST", "/api/rules/check", asked)).json()["recommended"] is True
    assert (await admin(world, "POST", "/api/rules/check", asked | {"tags": ["audit"]})).json()["recommended"] is False
    created = await world.create(tags=["audit"])
    assert created["status"] == "waiting"
