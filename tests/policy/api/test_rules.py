"""Rules over HTTP: creating them, applying them to new breakpoints, and changing them without losing history."""

import asyncio
from typing import Any

import pytest

from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.policy.store.rules import Rules
from tests.support.nodes import ManualClock, Node, running_node

RULES = "/api/rules"


async def writer(node: Node) -> str:
    if "rule-writer" not in node.tokens:
        node.tokens["rule-writer"] = await node.person("rita", "rule-admin")
    return node.tokens["rule-writer"]


async def rule(node: Node, pattern: str, action: str = "auto-approve", **more: Any) -> dict[str, Any]:
    sent = {"pattern": pattern, "action": action, **more}
    answer = await node.call("POST", RULES, await writer(node), json=sent)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def raised(node: Node, gate: str, **payload: Any) -> Any:
    agent, tags = payload.pop("agent", "ci"), list(payload.pop("tags", ()))
    asked = {"question": "Go on?", "breakpointId": gate, **payload}
    return await node.create(agentId=agent, title=None, tags=tags, payload=asked)


async def answered(node: Node, gate: str, *, approved: bool, **payload: Any) -> None:
    made = await raised(node, gate, **payload)
    assert made["status"] == "waiting", made["autoApproval"]
    given = await node.feedback(made["id"], await node.token("reviewer"), approved=approved, comment="seen")
    assert given.status_code == 200, given.text


async def policy(node: Node, **wanted: Any) -> None:
    answer = await node.call("PUT", "/api/policy", await node.token("admin"), json=wanted)
    assert answer.status_code == 200, answer.text


async def test_a_rule_approves_matching_breakpoints_and_is_named_in_the_result(node: Node) -> None:
    made = await rule(node, " confirm.* ", note="Routine confirmations")
    found = await raised(node, "confirm.star-repo")
    assert (found["status"], found["decision"], found["decidedBy"]) == ("released", "approved", f"rule:{made['id']}")
    assert found["autoApproval"] == {
        "recommended": True,
        "reason": f"Matched auto-approve rule: {made['id']} (confirm.*).",
        "matchedRule": made["id"],
        "consecutiveApprovals": 0,
    }
    assert found["result"] == {
        "approved": True,
        "status": "released",
        "decision": "approved",
        "response": "approved",
        "respondedBy": f"rule:{made['id']}",
        "via": "rule",
        "auto": True,
        "allResponses": [],
    }
    events = await node.call("GET", f"/api/breakpoints/{found['id']}/events", await node.token("reviewer"))
    assert [(each["type"], each["actor"]) for each in events.json()["items"]] == [
        ("created", found["createdBy"]),
        ("released", f"rule:{made['id']}"),
    ]
    assert events.json()["items"][0]["metadata"]["autoApproval"] == found["autoApproval"]


async def test_a_breakpoint_without_a_matching_rule_waits_with_a_reason(node: Node) -> None:
    await rule(node, "confirm.*")
    found = await raised(node, "deploy.production")
    assert found["status"] == "waiting"
    assert found["autoApproval"] == {
        "recommended": False,
        "reason": "No rule matches deploy.production.",
        "consecutiveApprovals": 0,
    }


STOPS: dict[str, dict[str, Any]] = {
    "never rule": {},
    "alwaysBreakOn": {"tags": ("careful",)},
    "hardStop": {"hardStop": True},
    "risk": {"risk": "high"},
    "options": {"options": ["a", "b"]},
    "form": {"form": {"type": "object", "properties": {"why": {"type": "string"}}, "required": ["why"]}},
}


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("wish", ["auto rule", "autoApproveAfterN", "both"])
async def test_every_stop_condition_overrides_auto_approval(node: Node, stop: str, wish: str) -> None:
    await policy(node, autoApproveFloor=1)
    await answered(node, "pair.gate", approved=True)
    if wish != "autoApproveAfterN":
        await rule(node, "pair.*")
    count: dict[str, Any] = {} if wish == "auto rule" else {"autoApproveAfterN": 1}
    assert (await raised(node, "pair.gate", **count))["status"] == "released", "without the stop, it is approved"
    if stop == "never rule":
        await rule(node, "*.gate", "never-auto-approve")
    if stop == "alwaysBreakOn":
        await policy(node, alwaysBreakOn=["careful"], autoApproveFloor=1)
    found = await raised(node, "pair.gate", **count, **STOPS[stop])
    assert found["status"] == "waiting"
    assert found["autoApproval"]["recommended"] is False


async def test_the_first_matching_rule_is_named(node: Node) -> None:
    later = await rule(node, "a.*")
    await rule(node, "a.b")
    assert (await raised(node, "a.b"))["autoApproval"]["matchedRule"] == later["id"]
    first = await rule(node, "*.b", order=0)
    assert (await raised(node, "a.b"))["autoApproval"]["matchedRule"] == first["id"]


async def test_only_human_approvals_for_the_same_agent_count_as_consecutive(node: Node) -> None:
    gate: dict[str, Any] = {"autoApproveAfterN": 2}
    await policy(node, autoApproveFloor=1)
    await answered(node, "g", approved=True, **gate)
    await answered(node, "g", approved=True, agent="other", **gate)
    await answered(node, "g", approved=True, **gate)
    found = await raised(node, "g", **gate)
    assert (found["status"], found["decidedBy"]) == ("released", "rule:autoApproveAfterN")
    assert found["autoApproval"]["consecutiveApprovals"] == 2
    again = await raised(node, "g", **gate)
    assert again["autoApproval"]["consecutiveApprovals"] == 2, "approvals by rules do not count"
    assert (await raised(node, "g", agent="other", **gate))["autoApproval"]["consecutiveApprovals"] == 1
    assert (await raised(node, "other.gate", **gate))["autoApproval"]["consecutiveApprovals"] == 0
    assert (await raised(node, "g", autoApproveAfterN=3))["status"] == "waiting"
    assert (await raised(node, "g"))["status"] == "waiting", "counts apply only on request"


async def test_a_rejection_resets_the_count(node: Node) -> None:
    await policy(node, autoApproveFloor=1)
    for approved in (True, True, False):
        await answered(node, "g", approved=approved)
    found = await raised(node, "g", autoApproveAfterN=1)
    assert (found["status"], found["autoApproval"]["consecutiveApprovals"]) == ("waiting", 0)


async def test_a_rejection_at_the_deadline_resets_the_count(settings: Settings) -> None:
    clock = ManualClock()
    async with running_node(settings, clock=clock) as node:
        await policy(node, autoApproveFloor=1)
        await answered(node, "g", approved=True)
        asked = {"question": "Go on?", "breakpointId": "g"}
        await node.create(agentId="ci", title=None, payload=asked, ttlSeconds=1, onTimeout="reject")
        clock.advance(2)
        await node.assent.database.write(node.assent[BreakpointService].time_out_due)
        assert (await raised(node, "g", autoApproveAfterN=1))["status"] == "waiting"


async def test_an_agents_requested_count_has_no_effect_if_the_policy_ignores_it(node: Node) -> None:
    await answered(node, "g", approved=True)
    await policy(node, autoApproveAfterN="ignore", autoApproveFloor=1)
    found = await raised(node, "g", autoApproveAfterN=1)
    assert (found["status"], found["autoApproval"]["consecutiveApprovals"]) == ("waiting", 1)


async def test_a_changed_disabled_expired_or_removed_rule_stops_approving(settings: Settings) -> None:
    clock = ManualClock()
    async with running_node(settings, clock=clock) as node:
        token = await writer(node)
        made = await rule(node, "a")
        path = f"{RULES}/{made['id']}"

        async def approves() -> bool:
            return bool((await raised(node, "a"))["status"] == "released")

        assert await approves()
        for off, on in (({"enabled": False}, {"enabled": True}), ({"mode": "shadow"}, {"mode": "live"})):
            await node.call("PATCH", path, token, json=off)
            assert not await approves(), off
            await node.call("PATCH", path, token, json=on)
            assert await approves(), on
        await node.call("PATCH", path, token, json={"expiresAt": "2027-01-15T08:00:10Z"})
        assert await approves()
        clock.advance(11)
        assert not await approves(), "the rule has expired"
        await node.call("PATCH", path, token, json={"expiresAt": None})
        assert await approves()
        assert (await node.call("DELETE", path, token)).status_code == 204
        assert not await approves()


async def test_every_rule_change_is_recorded_with_its_author_and_reason(node: Node) -> None:
    token = await writer(node)
    made = await rule(node, "a.*", why="Asked for in the retrospective")
    path = f"{RULES}/{made['id']}"
    changed = await node.call("PATCH", path, token, json={"pattern": "b.*", "note": "b now", "why": "a was wrong"})
    assert (changed.json()["pattern"], changed.json()["version"]) == ("b.*", 2)
    same = await node.call("PATCH", path, token, json={"pattern": "b.*"})
    assert same.json()["version"] == 2, "a change without an effect creates no version"
    assert (await node.call("DELETE", path, token, params={"why": "not needed"})).status_code == 204
    events = (await node.call("GET", f"{path}/events", token)).json()["items"]
    assert [(each["type"], each["actor"], each["metadata"].get("why")) for each in events] == [
        ("rule-created", "person:rita", "Asked for in the retrospective"),
        ("rule-changed", "person:rita", "a was wrong"),
        ("rule-removed", "person:rita", "not needed"),
    ]
    assert [each["metadata"]["rule"]["pattern"] for each in events] == ["a.*", "b.*", "b.*"]
    assert (await node.call("GET", path, token)).json()["removedAt"] is not None
    assert (await node.call("GET", RULES, token)).json()["items"] == []
    for method, body in (("PATCH", {"enabled": True}), ("DELETE", None)):
        assert (await node.call(method, path, token, json=body)).status_code == 404


async def test_a_second_change_to_the_same_version_returns_412(node: Node) -> None:
    token = await writer(node)
    path = f"{RULES}/{(await rule(node, 'a'))['id']}"
    seen = (await node.call("GET", path, token)).headers["etag"]
    first = await node.call("PATCH", path, token, json={"note": "one"}, headers={"if-match": seen})
    second = await node.call("PATCH", path, token, json={"note": "two"}, headers={"if-match": seen})
    gone = await node.call("DELETE", path, token, headers={"if-match": seen})
    assert [each.status_code for each in (first, second, gone)] == [200, 412, 412]
    assert (await node.call("GET", path, token)).json()["note"] == "one"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a pattern that cannot be read": ({"pattern": "a.*(tags contains", "action": "auto-approve"}, "invalid_pattern"),
    "an unknown attribute": ({"pattern": "a.*(colour = 'red')", "action": "auto-approve"}, "invalid_pattern"),
    "an unknown action": ({"pattern": "a", "action": "approve"}, "invalid_request"),
    "an unknown mode": ({"pattern": "a", "action": "auto-approve", "mode": "ghost"}, "invalid_request"),
    "a moment that is none": ({"pattern": "a", "action": "auto-approve", "expiresAt": "soon"}, "invalid_request"),
    "a moment that UTC has no year for": (
        {"pattern": "a", "action": "auto-approve", "expiresAt": "9999-12-31T23:59:59-23:59"},
        "invalid_request",
    ),
    "a moment in the past": ({"pattern": "a", "action": "auto-approve", "expiresAt": "2001-01-01"}, "invalid_request"),
    "no pattern": ({"pattern": "", "action": "auto-approve"}, "invalid_request"),
    "an unknown field": ({"pattern": "a", "action": "auto-approve", "colour": 1}, "invalid_request"),
    "a pattern that is too long": ({"pattern": "a" * 2001, "action": "auto-approve"}, "invalid_request"),
}


@pytest.mark.parametrize("why", REFUSED)
async def test_an_invalid_rule_is_rejected_on_creation_and_on_change(node: Node, why: str) -> None:
    body, code = REFUSED[why]
    token = await writer(node)
    answer = await node.call("POST", RULES, token, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    stands = await rule(node, "stands")
    answer = await node.call("PATCH", f"{RULES}/{stands['id']}", token, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    left = (await node.call("GET", RULES, token)).json()["items"]
    assert [each["pattern"] for each in left] == ["stands"]


@pytest.mark.parametrize("role", ["viewer", "reviewer", "auditor"])
async def test_only_rule_admins_and_admins_can_write_rules(node: Node, role: str) -> None:
    made = await rule(node, "a")
    for token in (await node.person("nora", role), await node.token("agent")):
        for method, path, body in (
            ("POST", RULES, {"pattern": "*", "action": "auto-approve"}),
            ("PATCH", f"{RULES}/{made['id']}", {"pattern": "*"}),
            ("DELETE", f"{RULES}/{made['id']}", None),
        ):
            assert (await node.call(method, path, token, json=body)).status_code == 403, (method, role)
    admin = await node.call("POST", RULES, await node.token("admin"), json={"pattern": "b", "action": "auto-approve"})
    assert admin.status_code == 201


async def test_rules_apply_only_in_their_own_project(node: Node) -> None:
    made = await rule(node, "*")
    await node.call("POST", "/api/projects", await node.token("admin"), json={"id": "other"})
    agent = await node.token("agent", project="other", name="elsewhere")
    found = await node.create(agent, agentId="ci", payload={"question": "?"})
    assert found["status"] == "waiting"
    there = await node.person("olga", "rule-admin", project="other")
    assert (await node.call("GET", f"{RULES}/{made['id']}", there)).status_code == 404
    assert (await node.call("DELETE", f"{RULES}/{made['id']}", there)).status_code == 404
    assert (await node.call("GET", RULES, there)).json()["items"] == []


async def test_an_invalid_stored_rule_neither_approves_nor_blocks_others(node: Node) -> None:
    good, bad = await rule(node, "a.*"), await rule(node, "b.*")

    def corrupt(tx: Transaction) -> None:
        tx.session.change("UPDATE assent_rules SET pattern = 'b.*(((' WHERE id = :id", {"id": bad["id"]})
        tx[Rules].turn_page("default")

    await node.assent.database.write(corrupt)
    assert (await raised(node, "a.x"))["autoApproval"]["matchedRule"] == good["id"]
    assert (await raised(node, "b.x"))["status"] == "waiting"
    listed = (await node.call("GET", RULES, await writer(node))).json()["items"]
    assert [each["problem"] is None for each in listed] == [True, False]


async def test_a_check_returns_the_outcome_without_creating_a_breakpoint(node: Node) -> None:
    made = await rule(node, "*.review(tags contains 'design' AND NOT payload.cost > 10)")
    agent = await node.token("agent")

    async def check(**body: Any) -> Any:
        answer = await node.call("POST", f"{RULES}/check", agent, json={"breakpointId": "ui.review", **body})
        assert answer.status_code == 200, answer.text
        return answer.json()

    matched = await check(tags=["design"], payload={"cost": 3}, agentId="ci")
    assert (matched["recommended"], matched["matchedRule"], matched["consecutiveApprovals"]) == (True, made["id"], 0)
    assert [(each["source"], each["held"]) for each in matched["trace"]] == [("auto-approve", True)]
    assert {"part": "NOT payload.cost > 10", "held": True, "actual": 3} in matched["trace"][0]["findings"]
    assert (await check(tags=["design"]))["recommended"] is False, "an unknown cost is not at most ten"
    assert (await check(tags=["design"], payload={"cost": 3}, hardStop=True))["recommended"] is False
    assert (await check(tags=["x"]))["reason"] == "No rule matches ui.review."
    listed = await node.call("GET", "/api/breakpoints", agent)
    assert listed.json()["items"] == []


async def test_a_check_treats_a_missing_agent_id_as_unknown(node: Node) -> None:
    await rule(node, "a(agentId != 'ci')")
    await rule(node, "b", "auto-approve")
    await rule(node, "b(agentId = 'ci')", "never-auto-approve")
    agent = await node.token("agent")
    for gate in ("a", "b"):
        found = await node.call("POST", f"{RULES}/check", agent, json={"breakpointId": gate})
        assert found.json()["recommended"] is False, gate


async def test_shadow_rules_are_recorded_but_have_no_effect(node: Node) -> None:
    made = await rule(node, "a.*", mode="shadow")
    stop = await rule(node, "*.b", "never-auto-approve", mode="shadow")
    found = await raised(node, "a.b")
    assert found["status"] == "waiting"
    events = await node.call("GET", f"/api/breakpoints/{found['id']}/events", await node.token("reviewer"))
    assert events.json()["items"][0]["metadata"]["shadow"] == [
        {"rule": made["id"], "recommended": True, "version": 1},
        {"rule": stop["id"], "recommended": False, "version": 1},
    ]


async def test_retrying_an_auto_approved_creation_creates_no_second_breakpoint(node: Node) -> None:
    await rule(node, "a")
    agent = await node.token("agent")
    body = {"agentId": "ci", "payload": {"question": "?", "breakpointId": "a"}}
    headers = {"idempotency-key": "one"}
    answers = [await node.call("POST", "/api/breakpoints", agent, json=body, headers=headers) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    late = await node.feedback(answers[0].json()["id"], await node.token("reviewer"), approved=False)
    assert late.status_code == 409


async def test_concurrent_rule_changes_apply_to_all_later_breakpoints(settings: Settings) -> None:
    """After a client has created a rule, no node may make a decision without applying it."""
    async with running_node(settings) as one, running_node(settings) as two:
        two.tokens |= {"rule-writer": await writer(one), "agent": await one.token("agent")}
        wrong: list[Any] = []
        stops = 0

        async def flip(node: Node, gate: str) -> None:
            nonlocal stops
            for _ in range(6):
                made = await rule(node, gate)
                if (await raised(node, gate))["status"] != "released":
                    wrong.append(("not approved", gate))
                stop = await rule(node, gate, "never-auto-approve")
                for each in (one, two):
                    if (await raised(each, gate))["status"] != "waiting":
                        wrong.append(("approved", gate))
                    stops += 1
                for gone in (made, stop):
                    answer = await node.call("DELETE", f"{RULES}/{gone['id']}", await writer(node))
                    assert answer.status_code == 204, answer.text

        await asyncio.gather(*(flip(node, f"gate-{n}") for n, node in enumerate((one, two, one, two))))
        assert (wrong, stops) == ([], 48)
        assert (await one.call("GET", RULES, await writer(one))).json()["items"] == []
