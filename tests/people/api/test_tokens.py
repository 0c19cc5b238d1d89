"""Token limits: gates, agent IDs, processes, and several tokens for one agent."""

from typing import Any

import pytest

from tests.support.nodes import Node


async def created(node: Node, **body: Any) -> dict[str, Any]:
    answer = await node.call("POST", "/api/tokens", await node.token("admin"), json={"name": "t", **body})
    assert answer.status_code == 201, answer.text
    token: dict[str, Any] = answer.json()
    return token


@pytest.mark.parametrize(
    ("limits", "processes"),
    [
        ({}, ["*"]),
        ({"gates": ["*"]}, ["*"]),
        ({"gates": ["safe.*"]}, []),
        ({"agentIds": ["ci"]}, ["*"]),
        ({"gates": ["safe.*"], "processes": ["report-*"]}, ["report-*"]),
        ({"processes": []}, []),
    ],
)
async def test_a_token_with_limited_gates_cannot_start_processes_by_default(
    node: Node, limits: dict[str, Any], processes: list[str]
) -> None:
    token = await created(node, kind="agent", **limits)
    assert token["processes"] == processes
    assert token["agentIdClaimed"] is ("agentIds" not in limits)
    listed = await node.call("GET", "/api/tokens", await node.token("admin"))
    (found,) = [each for each in listed.json()["items"] if each["id"] == token["id"]]
    assert (found["processes"], found["agent"]) == (processes, token["id"])


@pytest.mark.parametrize(
    ("agent_ids", "claimed"), [(["**"], True), (["*", "ci"], True), (["c*", "*"], True), (["c*"], False)]
)
async def test_a_token_that_can_claim_any_agent_id_is_marked(
    node: Node, agent_ids: list[str], *, claimed: bool
) -> None:
    assert (await created(node, kind="agent", agentIds=agent_ids))["agentIdClaimed"] is claimed


async def test_a_second_token_for_an_agent_inherits_the_agents_breakpoints_and_limits(node: Node) -> None:
    first = await created(node, kind="agent", gates=["safe.*"], agentIds=["ci"], processes=["report"])
    body = {"agentId": "ci", "payload": {"question": "Go?", "breakpointId": "safe.go"}}
    raised = (await node.call("POST", "/api/breakpoints", first["token"], json=body)).json()["id"]
    second = await created(node, kind="agent", sameAgentAs=first["id"])
    assert [second[name] for name in ("gates", "agentIds", "processes", "agent")] == [
        ["safe.*"], ["ci"], ["report"], first["id"],
    ]  # fmt: skip
    third = await created(node, kind="agent", sameAgentAs=second["id"], processes=[])
    assert (third["agent"], third["processes"]) == (first["id"], [])
    await node.call("DELETE", f"/api/tokens/{first['id']}", await node.token("admin"))
    stranger = await created(node, kind="agent", agentIds=["ci"])
    for token, status in ((second, 200), (third, 200), (stranger, 404)):
        found = await node.call("GET", f"/api/breakpoints/{raised}", token["token"])
        assert found.status_code == status
    assert (await node.call("POST", f"/api/breakpoints/{raised}/cancel", second["token"])).status_code == 200


@pytest.mark.parametrize("gates", [["safe.*"], ["*"]])
async def test_a_second_token_with_different_gates_requires_explicit_processes(node: Node, gates: list[str]) -> None:
    first = await created(node, kind="agent", agentIds=["ci"])
    assert first["processes"] == ["*"]
    limited = await created(node, kind="agent", sameAgentAs=first["id"], gates=gates)
    assert (limited["gates"], limited["processes"]) == (gates, [])
    named = await created(node, kind="agent", sameAgentAs=first["id"], gates=gates, processes=["report"])
    assert named["processes"] == ["report"]


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "reviewer", "processes": ["a"]},
        {"kind": "admin", "sameAgentAs": "tok_" + "0" * 26},
        {"kind": "agent", "sameAgentAs": "tok_x"},
        {"kind": "agent", "processes": [""]},
    ],
)
async def test_ineffective_limits_are_rejected(node: Node, body: dict[str, Any]) -> None:
    answer = await node.call("POST", "/api/tokens", await node.token("admin"), json={"name": "t", **body})
    assert answer.status_code == 422


async def test_a_second_token_must_refer_to_an_existing_agent_token(node: Node) -> None:
    person = await created(node, kind="reviewer")
    for token_id, status in ((person["id"], 422), ("tok_" + "0" * 26, 404)):
        body = {"kind": "agent", "name": "t", "sameAgentAs": token_id}
        answer = await node.call("POST", "/api/tokens", await node.token("admin"), json=body)
        assert answer.status_code == status
