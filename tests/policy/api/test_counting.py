"""autoApproveAfterN counts only matching approvals; claimed agent IDs match no auto-approve rules."""

from typing import Any

import pytest

from tests.policy.api.test_backtest import proposed
from tests.support.nodes import Node

RULES = "/api/rules"


async def policy(node: Node, **fields: Any) -> None:
    answer = await node.call("PUT", "/api/policy", await node.token("admin"), json=fields)
    assert answer.status_code == 200, answer.text


async def raised(node: Node, token: str, agent: str = "ci", **payload: Any) -> dict[str, Any]:
    body = {"agentId": agent, "payload": {"question": "Read README?", "breakpointId": "tool.bash", **payload}}
    answer = await node.call("POST", "/api/breakpoints", token, json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def approved(node: Node, token: str, times: int, **payload: Any) -> list[str]:
    ids: list[str] = []
    for _ in range(times):
        ids.append((await raised(node, token, **payload))["id"])
        await node.feedback(ids[-1], await node.token("reviewer"), approved=True)
    return ids


async def rule(node: Node, pattern: str, action: str = "auto-approve", **fields: Any) -> dict[str, Any]:
    body = {"pattern": pattern, "action": action, **fields}
    answer = await node.call("POST", RULES, await node.token("admin"), json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


@pytest.mark.parametrize(("floor", "needed"), [(None, 3), (1, 1), (5, 5)])
async def test_a_requested_count_below_the_projects_floor_is_raised_to_the_floor(
    node: Node, floor: int | None, needed: int
) -> None:
    if floor is not None:
        await policy(node, autoApproveFloor=floor)
    token = await node.token("agent")
    for _ in range(needed):
        assert (await raised(node, token, autoApproveAfterN=1))["status"] == "waiting"
        await approved(node, token, 1)
    assert (await raised(node, token, autoApproveAfterN=1))["status"] == "released"
    assert (await raised(node, token, autoApproveAfterN=needed + 1))["status"] == "waiting"


async def test_another_token_with_the_same_agent_id_has_a_separate_count(node: Node) -> None:
    first, other = await node.token("agent", name="first"), await node.token("agent", name="other")
    await approved(node, first, 3)
    found = await raised(node, other, autoApproveAfterN=1)
    assert (found["status"], found["autoApproval"]["consecutiveApprovals"]) == ("waiting", 0)
    assert (await raised(node, first, autoApproveAfterN=1))["status"] == "released"


async def test_rotating_a_token_keeps_the_count(node: Node) -> None:
    admin = await node.token("admin")
    made = (await node.call("POST", "/api/tokens", admin, json={"kind": "agent", "name": "old"})).json()
    await approved(node, made["token"], 3)
    body = {"kind": "agent", "name": "new", "sameAgentAs": made["id"]}
    rotated = (await node.call("POST", "/api/tokens", admin, json=body)).json()
    assert (await raised(node, rotated["token"], autoApproveAfterN=3))["status"] == "released"


CALL: dict[str, Any] = {"tool": "Bash", "arguments": {"command": "cat README"}, "cwd": "/srv", "directory": "/srv"}
COMMAND: dict[str, Any] = {"command": ["cat", "README"], "program": "/bin/cat", "directory": "/srv"}


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({}, "released"),
        ({"arguments": {"command": "rm -rf /"}}, "waiting"),
        ({"arguments": None}, "waiting"),
        ({"cwd": "/"}, "waiting"),
        ({"cwd": None}, "waiting"),
        ({"directory": "/"}, "waiting"),
        ({"tool": "Write"}, "waiting"),
        ({"question": "Another question?"}, "released"),
    ],
)
async def test_approvals_of_a_tool_call_count_only_for_identical_arguments_and_directories(
    node: Node, asked: dict[str, Any], status: str
) -> None:
    token = await node.token("agent")
    await approved(node, token, 3, **CALL)
    assert (await raised(node, token, autoApproveAfterN=3, **{**CALL, **asked}))["status"] == status


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({}, "released"),
        ({"command": ["rm", "-rf", "/"]}, "waiting"),
        ({"program": "/tmp/cat"}, "waiting"),
        ({"directory": "/"}, "waiting"),
    ],
)
async def test_approvals_of_a_command_count_only_for_the_same_command_and_directory(
    node: Node, asked: dict[str, Any], status: str
) -> None:
    token = await node.token("agent")
    await approved(node, token, 3, **COMMAND)
    assert (await raised(node, token, autoApproveAfterN=3, **{**COMMAND, **asked}))["status"] == status


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"tool": "x", "arguments": {}, "input": "ls"}, {"tool": "x", "arguments": {}, "input": "rm -rf /"}),
        ({"tool": "x", "cmd": "ls"}, {"tool": "x", "cmd": "rm -rf /"}),
    ],
)
async def test_approvals_count_only_if_the_whole_call_is_identical(
    node: Node, first: dict[str, Any], then: dict[str, Any]
) -> None:
    token = await node.token("agent")
    await approved(node, token, 3, **first)
    assert (await raised(node, token, autoApproveAfterN=3, **then))["status"] == "waiting"
    assert (await raised(node, token, autoApproveAfterN=3, **first))["status"] == "released"


async def test_calls_with_hidden_arguments_are_never_counted_and_get_no_proposed_rule(node: Node) -> None:
    token = await node.token("agent")
    query: dict[str, Any] = {"function": "shop.query", "arguments": {"sql": "(hidden)"}, "hidden": ["sql"]}
    await approved(node, token, 3, **query)
    found = await raised(node, token, autoApproveAfterN=3, **query)
    assert found["status"] == "waiting"
    answer = await proposed(node, found["id"], await node.token("reviewer"))
    assert (answer.status_code, "hidden" in answer.text) == (422, True)


async def test_approvals_of_calls_do_not_count_for_a_payload_without_arguments(node: Node) -> None:
    token = await node.token("agent")
    await approved(node, token, 3, **CALL)
    assert (await raised(node, token, autoApproveAfterN=3))["status"] == "waiting"


async def test_rejecting_a_call_with_different_arguments_resets_the_count(node: Node) -> None:
    token = await node.token("agent")
    await approved(node, token, 3, **CALL)
    refused = await raised(node, token, **{**CALL, "arguments": {"command": "rm"}})
    await node.feedback(refused["id"], await node.token("reviewer"), approved=False)
    assert (await raised(node, token, autoApproveAfterN=3, **CALL))["autoApproval"]["consecutiveApprovals"] == 0


async def test_an_approval_with_edits_does_not_count(node: Node) -> None:
    token = await node.token("agent")
    await approved(node, token, 2, **CALL)
    edited = await raised(node, token, **CALL, editable=["command"])
    reviewer = await node.token("reviewer")
    answer = await node.feedback(edited["id"], reviewer, approved=True, edits={"command": "cat LICENSE"})
    assert answer.status_code == 200, answer.text
    found = await raised(node, token, autoApproveAfterN=3, **CALL)
    assert (found["status"], found["autoApproval"]["consecutiveApprovals"]) == ("waiting", 2)


@pytest.mark.parametrize(("counts", "status"), [(None, "released"), ("gate", "released"), ("question", "waiting")])
async def test_the_policy_determines_whether_the_question_must_be_identical(
    node: Node, counts: str | None, status: str
) -> None:
    if counts is not None:
        await policy(node, autoApproveCounts=counts)
    token = await node.token("agent")
    await approved(node, token, 3)
    other = await raised(node, token, autoApproveAfterN=3, question="Drop the table customers?")
    assert other["status"] == status
    assert (await raised(node, token, autoApproveAfterN=3))["status"] == "released"


async def test_the_release_event_lists_the_counted_approvals_and_the_fields_that_differed(node: Node) -> None:
    token = await node.token("agent")
    ids = await approved(node, token, 3, amount=1)
    released = await raised(node, token, autoApproveAfterN=3, question="Drop the table?", amount=1, force=True)
    path = f"/api/breakpoints/{released['id']}/events"
    events = (await node.call("GET", path, await node.token("reviewer"))).json()["items"]
    assert events[-1]["type"] == "released"
    assert sorted(events[-1]["metadata"]["countedApprovals"]) == sorted(ids)
    assert events[-1]["metadata"]["differed"] == ["force", "question"]


@pytest.mark.parametrize(
    "pattern",
    ["*(agentId = 'ci')", "*(agentId matches 'c*')", "*(NOT agentId = 'x')", "*(agentId exists)", "*(agentId != 'x')"],
)
async def test_an_auto_approve_rule_on_agent_id_does_not_match_a_claimed_id(node: Node, pattern: str) -> None:
    await rule(node, pattern)
    claiming, limited = await node.token("agent"), await node.token("agent", name="ci", agent_ids=("ci",))
    found = await raised(node, claiming)
    assert (found["status"], found["agentIdClaimed"]) == ("waiting", True)
    whole = await node.call("GET", f"/api/breakpoints/{found['id']}", claiming)
    assert whole.json()["agentIdClaimed"] is True
    sure = await raised(node, limited)
    assert (sure["status"], "agentIdClaimed" in sure) == ("released", False)
    check = {"breakpointId": "tool.bash", "agentId": "ci"}
    for token, recommended in ((claiming, False), (limited, True)):
        checked = (await node.call("POST", f"{RULES}/check", token, json=check)).json()
        assert checked["recommended"] is recommended


@pytest.mark.parametrize("agent_ids", [("**",), ("*", "ci"), ("c*", "*"), ("***", "x")])
async def test_an_agent_id_is_considered_claimed_if_the_tokens_patterns_match_any_agent(
    node: Node, agent_ids: tuple[str, ...]
) -> None:
    await rule(node, "tool.bash(agentId = 'ci')")
    found = await raised(node, await node.token("agent", agent_ids=agent_ids))
    assert (found["status"], found["agentIdClaimed"]) == ("waiting", True)


async def test_a_never_rule_applies_to_a_claimed_id(node: Node) -> None:
    await rule(node, "*")
    await rule(node, "*(agentId = 'ci')", "never-auto-approve")
    token = await node.token("agent")
    assert (await raised(node, token, agent="CI"))["status"] == "waiting"
    assert (await raised(node, token, agent="other"))["status"] == "released"


async def test_a_proposal_names_an_agent_only_if_its_token_is_limited_to_it(node: Node) -> None:
    for limits, pattern in (({}, "docs.publish"), ({"agent_ids": ("ci",)}, "docs.publish(agentId = 'ci')")):
        made = await raised(node, await node.token("agent", name="a", **limits), breakpointId="docs.publish")
        found = (await proposed(node, made["id"], await node.token("reviewer"))).json()
        assert found["pattern"] == pattern
        assert found["backtest"]["matched"] == found["backtest"]["scanned"] or limits


async def test_live_rules_that_depend_on_claimed_ids_are_listed(node: Node) -> None:
    path = f"{RULES}/claimed"
    resting = await rule(node, "*(agentId = 'ci')")
    await rule(node, "*(agentId = 'ci')", "never-auto-approve")
    await rule(node, "*(agentId = 'ci')", mode="shadow")
    await rule(node, "tool.*")
    reviewer = await node.token("reviewer")
    assert (await node.call("GET", path, reviewer)).json() == {"items": [], "tokens": []}
    token = await node.token("agent")
    found = (await node.call("GET", path, reviewer)).json()
    assert [each["id"] for each in found["items"]] == [resting["id"]]
    assert [set(each) for each in found["tokens"]] == [{"id", "name"}]
    assert (await node.call("GET", path, token)).status_code == 403
