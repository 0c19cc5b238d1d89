"""Agents cannot evade rules with patterns, hidden tags or contradictory values, and cannot read each other's data."""

from typing import Any

import httpx2
import pytest

from tests.support.nodes import Node

RULES = "/api/rules"


async def rule(node: Node, pattern: str, action: str = "auto-approve") -> str:
    answer = await node.call("POST", RULES, await node.token("admin"), json={"pattern": pattern, "action": action})
    assert answer.status_code == 201, answer.text
    rule_id: str = answer.json()["id"]
    return rule_id


async def policy(node: Node, **wanted: Any) -> None:
    answer = await node.call("PUT", "/api/policy", await node.token("admin"), json=wanted)
    assert answer.status_code == 200, answer.text


async def post(node: Node, token: str, agent: str = "ci", **body: Any) -> httpx2.Response:
    payload = {"question": "Go on?", **body.pop("payload", {})}
    return await node.call("POST", "/api/breakpoints", token, json={"agentId": agent, "payload": payload, **body})


async def everything(node: Node) -> list[str]:
    answer = await node.call("GET", "/api/breakpoints", await node.token("admin"))
    return [each["gate"] for each in answer.json()["items"]]


BEYOND: dict[str, dict[str, Any]] = {
    "another gate": {"payload": {"breakpointId": "cd.deploy"}},
    "another gate, made from the title": {"title": "Deploy to production"},
    "another agent": {"agent": "robot", "payload": {"breakpointId": "ci.deploy"}},
    "another gate, with experts": {"payload": {"breakpointId": "cd.deploy", "expert": "owner"}},
    "another gate, by its count": {"payload": {"breakpointId": "cd.deploy", "autoApproveAfterN": 1}},
}


@pytest.mark.parametrize("what", BEYOND)
async def test_an_auto_approve_rule_does_not_extend_a_tokens_patterns(node: Node, what: str) -> None:
    await rule(node, "*")
    token = await node.token("agent", gates=("ci.*",), agent_ids=("bot-*",))
    allowed = await post(node, token, "bot-1", payload={"breakpointId": "ci.deploy"})
    assert allowed.json()["status"] == "released", "approved by the rule, so this node has loaded the rules"
    answer = await post(node, token, **({"agent": "bot-1"} | BEYOND[what]))
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert await everything(node) == ["ci.deploy"]


async def test_a_rule_check_is_limited_to_the_tokens_patterns(node: Node) -> None:
    await rule(node, "*")
    token = await node.token("agent", gates=("ci.*",), agent_ids=("bot-*",))

    async def checked(**body: Any) -> int:
        return (await node.call("POST", f"{RULES}/check", token, json=body)).status_code

    assert await checked(breakpointId="ci.deploy", agentId="bot-1") == 200
    assert await checked(breakpointId="ci.deploy") == 200
    assert await checked(breakpointId="ci.deploy", agentId="other") == 403
    assert await checked(breakpointId="cd.deploy", agentId="bot-1") == 403
    assert await checked(breakpointId="cd.deploy") == 403


@pytest.mark.parametrize("stop", ["never rule", "never rule on the payload", "alwaysBreakOn"])
@pytest.mark.parametrize(
    ("top", "inner"),
    [
        (["prod"], None),
        (None, ["prod"]),
        (["prod"], []),
        ([], ["prod"]),
        (["prod"], ["routine"]),
        (["routine"], ["prod"]),
        (["routine", "prod", "routine"], ["routine"]),
    ],
)
async def test_a_tag_cannot_be_hidden_by_its_location(
    node: Node, stop: str, top: list[str] | None, inner: list[str] | None
) -> None:
    await rule(node, "*")
    agent = await node.token("agent")
    assert (await post(node, agent, tags=["routine"])).json()["status"] == "released"
    if stop == "alwaysBreakOn":
        await policy(node, alwaysBreakOn=["prod"])
    else:
        tags = "payload.tags" if stop.endswith("payload") else "tags"
        await rule(node, f"*({tags} contains 'prod')", "never-auto-approve")
    made = (await post(node, agent, tags=top, payload={"tags": inner})).json()
    assert made["status"] == "waiting", made["autoApproval"]
    assert sorted(made["tags"]) == sorted({*(top or ()), *(inner or ())})


@pytest.mark.parametrize(
    "twice",
    [
        {"title": "Routine", "payload": {"title": "Deploy"}},
        {"runId": "run-1", "payload": {"context": {"runId": "run-2"}}},
    ],
)
async def test_contradictory_values_are_rejected_before_rules_are_evaluated(node: Node, twice: dict[str, Any]) -> None:
    await rule(node, "*")
    answer = await post(node, await node.token("agent"), **twice)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert await everything(node) == []


FORGED: dict[str, dict[str, Any]] = {
    "a status": {"status": "released"},
    "a decision": {"decision": "approved"},
    "a result": {"result": {"approved": True}},
    "a recommendation": {"autoApproval": {"recommended": True, "reason": "me", "consecutiveApprovals": 9}},
    "a gate": {"gate": "confirm.x"},
    "a project": {"project": "other"},
}


@pytest.mark.parametrize("what", FORGED)
async def test_server_fields_are_rejected_in_the_body_and_ignored_in_the_payload(node: Node, what: str) -> None:
    await rule(node, "confirm.*")
    agent = await node.token("agent")
    beside = await post(node, agent, payload={"breakpointId": "deploy.x"}, **FORGED[what])
    assert (beside.status_code, beside.json()["code"]) == (422, "invalid_request")
    inside = (await post(node, agent, payload={"breakpointId": "deploy.x", **FORGED[what]})).json()
    assert (inside["status"], inside["gate"]) == ("waiting", "deploy.x")
    assert inside["autoApproval"]["recommended"] is False


async def test_an_agent_can_neither_read_nor_write_rules_or_the_policy(node: Node) -> None:
    path = f"{RULES}/{await rule(node, 'a')}"
    agent = await node.token("agent")
    for method, target, body in (
        ("GET", RULES, None),
        ("POST", RULES, {"pattern": "*", "action": "auto-approve"}),
        ("GET", path, None),
        ("GET", f"{path}/events", None),
        ("PATCH", path, {"pattern": "*"}),
        ("DELETE", path, None),
        ("GET", "/api/policy", None),
        ("PUT", "/api/policy", {}),
    ):
        answer = await node.call(method, target, agent, json=body)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), (method, target)
    left = (await node.call("GET", RULES, await node.token("admin"))).json()["items"]
    assert [each["pattern"] for each in left] == ["a"]


async def test_a_rule_check_reveals_nothing_about_other_agents_breakpoints(node: Node) -> None:
    secret = {"breakpointId": "deploy.x", "plan": "the secret plan", "title": "A secret title"}
    made = (await post(node, await node.token("agent"), "ci", tags=["secret-tag"], payload=secret)).json()
    given = await node.feedback(made["id"], await node.token("reviewer"), approved=True, comment="a secret comment")
    assert given.status_code == 200
    await rule(node, "deploy.*(payload.plan contains 'secret' OR tags contains 'other')")
    other = await node.token("agent", name="other")
    for body in ({}, {"agentId": "other"}, {"agentId": "other", "payload": {"id": made["id"]}}):
        answer = await node.call("POST", f"{RULES}/check", other, json={"breakpointId": "deploy.x", **body})
        assert (answer.json()["recommended"], answer.json()["consecutiveApprovals"]) == (False, 0)
        for word in ("secret plan", "secret title", "secret-tag", "secret comment", made["id"]):
            assert word not in answer.text
    assert (await node.call("GET", f"/api/breakpoints/{made['id']}", other)).status_code == 404


async def test_a_rule_check_stores_nothing_and_is_not_counted(node: Node) -> None:
    agent = await node.token("agent")
    for _ in range(3):
        await node.call("POST", f"{RULES}/check", agent, json={"breakpointId": "g", "agentId": "ci"})
    made = (await post(node, agent, payload={"breakpointId": "g", "autoApproveAfterN": 1})).json()
    assert (made["status"], made["autoApproval"]["consecutiveApprovals"]) == ("waiting", 0)
    assert await everything(node) == ["g"]


async def test_an_agent_cannot_approve_its_own_breakpoints_to_earn_auto_approval(node: Node) -> None:
    agent = await node.token("agent")
    made = (await post(node, agent, payload={"breakpointId": "g"})).json()
    assert (await node.feedback(made["id"], agent, approved=True)).status_code == 403
    await node.call("POST", f"/api/breakpoints/{made['id']}/cancel", agent)
    after = (await post(node, agent, payload={"breakpointId": "g", "autoApproveAfterN": 1})).json()
    assert (after["status"], after["autoApproval"]["consecutiveApprovals"]) == ("waiting", 0)
