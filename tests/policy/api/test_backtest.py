"""Back-tests over HTTP: people, but not agents, see what a rule would have done before they save it."""

import json
from functools import partial
from typing import Any

import pytest

from assent.audit.usecases.retention import RetentionService
from assent.breakpoints.usecases.lifecycle import BreakpointService
from tests.policy.api.test_rules import RULES, answered, policy, raised, rule, writer
from tests.support.nodes import ManualClock, Node

BACKTEST = f"{RULES}/backtest"
COUNTS = (
    "scanned", "matched", "unknown", "stopped", "purged", "wouldApprove", "wouldStop", "approved", "rejected",
    "timedOut", "auto", "expired", "cancelled", "waiting",
)  # fmt: skip


async def backtested(node: Node, pattern: str, token: str | None = None, **more: Any) -> Any:
    sent = {"pattern": pattern, **more}
    answer = await node.call("POST", BACKTEST, token or await node.token("reviewer"), json=sent)
    assert answer.status_code == 200, answer.text
    return answer.json()


def counts(found: dict[str, Any]) -> dict[str, int]:
    return {name: found[name] for name in COUNTS if found[name]}


async def some(node: Node, clock: ManualClock) -> list[str]:
    """Create breakpoints with every outcome at `a.` gates; return the IDs of the rejected ones, newest first."""
    for approved in (True, True, False, False):
        await answered(node, "a.b", approved=approved, tags=("prod",), expert="owner" if approved else "nobody")
        clock.advance(1)
    await raised(node, "a.waits", cost=3)
    await raised(node, "a.stops", hardStop=True, cost=3)
    cancelled = await raised(node, "a.cancelled")
    await node.call("POST", f"/api/breakpoints/{cancelled['id']}/cancel", await node.token("agent"))
    for on_timeout in ("expire", "reject"):
        asked = {"question": "Go on?", "breakpointId": "a.late"}
        await node.create(agentId="ci", title=None, payload=asked, ttlSeconds=1, onTimeout=on_timeout)
    clock.advance(2)
    await node.assent.database.write(node.assent[BreakpointService].time_out_due)
    made = await rule(node, "a.auto")
    await raised(node, "a.auto")
    await node.call("DELETE", f"{RULES}/{made['id']}", await writer(node))
    await raised(node, "other")
    listed = await node.call("GET", "/api/breakpoints?gate=a.b", await node.token("reviewer"))
    return [each["id"] for each in listed.json()["items"] if each.get("decision") == "rejected"]


async def test_a_back_test_shows_what_would_be_approved_and_what_people_decided(node: Node, clock: ManualClock) -> None:
    rejected = await some(node, clock)
    found = await backtested(node, " a.* ")
    assert (found["pattern"], found["action"], found["days"]) == ("a.*", "auto-approve", 30)
    assert counts(found) == {
        "scanned": 11,
        "matched": 10,
        "stopped": 1,
        "wouldApprove": 9,
        "approved": 2,
        "rejected": 2,
        "timedOut": 1,
        "auto": 1,
        "expired": 1,
        "cancelled": 1,
        "waiting": 1,
    }
    assert [each["id"] for each in found["rejections"]] == rejected
    first = found["rejections"][0]
    assert {name: first[name] for name in ("gate", "agentId", "decision", "feedback")} == {
        "gate": "a.b",
        "agentId": "ci",
        "decision": "rejected",
        "feedback": "seen",
    }
    assert first["decidedBy"].startswith("person:")
    assert first["createdAt"] <= first["at"]
    assert [(each["gate"], each["decidedBy"], each["at"]) for each in found["waitingItems"]] == [
        ("a.waits", None, None)
    ]
    assert found["autoItems"] == []
    assert found["more"] == {"rejections": False, "waitingItems": False, "autoItems": False}


async def test_lists_contain_at_most_the_requested_number_of_breakpoints(node: Node, clock: ManualClock) -> None:
    rejected = await some(node, clock)
    found = await backtested(node, "*", limit=1)
    assert [each["id"] for each in found["rejections"]] == rejected[:1]
    assert found["more"] == {"rejections": True, "waitingItems": True, "autoItems": False}
    found = await backtested(node, "*", limit=0)
    assert (found["rejections"], found["waitingItems"]) == ([], [])
    assert found["more"]["rejections"]


async def test_back_tests_evaluate_patterns_on_tags_experts_and_content(node: Node, clock: ManualClock) -> None:
    await some(node, clock)
    assert counts(await backtested(node, "a.*(tags contains 'prod' AND expert = 'owner')")) == {
        "scanned": 11,
        "matched": 2,
        "wouldApprove": 2,
        "approved": 2,
    }
    found = await backtested(node, "a.*(payload.cost < 5)")
    assert counts(found) == {
        "scanned": 11, "matched": 2, "unknown": 8, "stopped": 1, "wouldApprove": 1, "waiting": 1,
    }  # fmt: skip


async def test_a_back_test_of_a_never_rule_shows_what_it_would_have_stopped(node: Node, clock: ManualClock) -> None:
    await some(node, clock)
    found = await backtested(node, "a.*(NOT tags contains 'prod')", action="never-auto-approve")
    assert counts(found) == {
        "scanned": 11, "matched": 6, "wouldStop": 6,
        "timedOut": 1, "auto": 1, "expired": 1, "cancelled": 1, "waiting": 2,
    }  # fmt: skip
    assert [each["gate"] for each in found["autoItems"]] == ["a.auto"]
    found = await backtested(node, "a.*(payload.cost > 5)", action="never-auto-approve")
    assert (found["wouldStop"], found["unknown"]) == (8, 8), "an unknown cost may be above five"


async def test_progress_and_the_result_are_streamed_as_json_lines(node: Node, clock: ManualClock) -> None:
    await some(node, clock)
    sent = {"pattern": "a.*(payload.cost < 5)"}
    headers = {"accept": "application/x-ndjson"}
    answer = await node.call("POST", BACKTEST, await node.token("reviewer"), json=sent, headers=headers)
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    *steps, last = [json.loads(line) for line in answer.text.splitlines()]
    assert steps[-1] == {"progress": {"scanned": 11, "total": 11}}
    assert last["result"] == await backtested(node, "a.*(payload.cost < 5)")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a pattern that cannot be read": ({"pattern": "a.*(tags contains"}, "invalid_pattern"),
    "an unknown attribute": ({"pattern": "a.*(colour = 'red')"}, "invalid_pattern"),
    "no pattern": ({}, "invalid_request"),
    "an unknown action": ({"pattern": "a", "action": "approve"}, "invalid_request"),
    "no days": ({"pattern": "a", "days": 0}, "invalid_request"),
    "too many days": ({"pattern": "a", "days": 3651}, "invalid_request"),
    "a list below nothing": ({"pattern": "a", "limit": -1}, "invalid_request"),
}


@pytest.mark.parametrize("why", REFUSED)
@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
async def test_an_invalid_back_test_is_rejected(node: Node, why: str, accept: str) -> None:
    body, code = REFUSED[why]
    answer = await node.call("POST", BACKTEST, await node.token("reviewer"), json=body, headers={"accept": accept})
    assert (answer.status_code, answer.json()["code"]) == (422, code)


async def test_people_but_not_agents_can_run_back_tests(node: Node) -> None:
    made = await raised(node, "a.b")
    shadow = await rule(node, "a.*", mode="shadow")
    for role in ("viewer", "reviewer", "rule-admin", "auditor", "admin"):
        await backtested(node, "*", await node.person(f"p-{role}", role))
    agent = await node.token("agent")
    for method, path, body in (
        ("POST", BACKTEST, {"pattern": "*"}),
        ("GET", f"{RULES}/{shadow['id']}/shadow", None),
        ("POST", f"/api/breakpoints/{made['id']}/always-approve", None),
    ):
        assert (await node.call(method, path, agent, json=body)).status_code == 403, path


async def test_back_tests_exclude_breakpoints_in_other_projects(node: Node, clock: ManualClock) -> None:
    await some(node, clock)
    made = await raised(node, "a.b")
    shadow = await rule(node, "a.*", mode="shadow")
    await node.call("POST", "/api/projects", await node.token("admin"), json={"id": "other"})
    there = await node.person("olga", "rule-admin", project="other")
    assert counts(await backtested(node, "*", there)) == {}
    assert (await node.call("GET", f"{RULES}/{shadow['id']}/shadow", there)).status_code == 404
    assert (await node.call("POST", f"/api/breakpoints/{made['id']}/always-approve", there)).status_code == 404


async def test_a_shadow_rule_is_compared_with_human_decisions(node: Node) -> None:
    made = await rule(node, "a.*", mode="shadow")
    for approved in (True, True, False):
        await answered(node, "a.b", approved=approved)
    await raised(node, "a.b")
    await raised(node, "a.b", risk="high")
    path = f"{RULES}/{made['id']}/shadow"
    found = (await node.call("GET", path, await node.token("reviewer"))).json()
    said = {name: found[name] for name in ("matched", "wouldApprove", "stopped", "agreed", "disagreed", "undecided")}
    assert said == {"matched": 5, "wouldApprove": 4, "stopped": 1, "agreed": 2, "disagreed": 1, "undecided": 1}
    assert [(each["gate"], each["decision"], each["feedback"]) for each in found["disagreements"]] == [
        ("a.b", "rejected", "seen")
    ]
    assert (found["ruleId"], found["pattern"], found["mode"], found["more"]) == (made["id"], "a.*", "shadow", False)
    cut = await node.call("GET", path, await node.token("reviewer"), params={"limit": 0, "days": 1})
    assert (cut.json()["disagreements"], cut.json()["more"], cut.json()["days"]) == ([], True, 1)
    refused = await node.call("GET", path, await node.token("reviewer"), params={"days": 0})
    assert refused.status_code == 422


async def proposed(node: Node, breakpoint_id: str, token: str, **body: Any) -> Any:
    path = f"/api/breakpoints/{breakpoint_id}/always-approve"
    return await (node.call("POST", path, token, json=body) if body else node.call("POST", path, token))


async def test_a_reviewer_sees_a_proposed_rule_that_only_a_rule_admin_can_save(node: Node) -> None:
    await answered(node, "a.b", approved=False, tags=("prod", "db"))
    await answered(node, "a.b", approved=True, tags=("db",))
    made = await raised(node, "a.b", tags=("prod", "db"))
    found = (await proposed(node, made["id"], await node.token("reviewer"))).json()
    assert (found["action"], found["maySave"]) == ("auto-approve", False)
    assert found["pattern"] == "a.b(tags contains 'prod' AND tags contains 'db')"
    assert counts(found["backtest"]) == {"scanned": 3, "matched": 2, "wouldApprove": 2, "rejected": 1, "waiting": 1}
    new = {"pattern": found["pattern"], "action": found["action"]}
    assert (await node.call("POST", RULES, await node.token("reviewer"), json=new)).status_code == 403
    assert (await node.call("GET", RULES, await writer(node))).json()["items"] == [], "nothing was saved"

    again = (await proposed(node, made["id"], await writer(node), days=7, limit=0)).json()
    assert (again["maySave"], again["pattern"], again["backtest"]["days"]) == (True, found["pattern"], 7)
    assert again["backtest"]["waitingItems"] == []
    assert (await node.call("POST", RULES, await writer(node), json=new)).status_code == 201
    assert (await raised(node, "a.b", tags=("db", "prod")))["status"] == "released"
    assert (await raised(node, "a.b", tags=("db",)))["status"] == "waiting"


async def test_no_rule_is_proposed_if_the_agent_opts_out(node: Node, clock: ManualClock) -> None:
    made = await raised(node, "a.b", presentAlwaysApprove=False)
    answer = await proposed(node, made["id"], await writer(node))
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert "presentAlwaysApprove" in answer.json()["detail"]
    await answered(node, "a.b", approved=True)
    await policy(node, retentionDays=1)
    clock.advance(2 * 24 * 3600)
    await node.assent.database.write(node.assent[RetentionService].purge_due)
    listed = await node.call("GET", "/api/breakpoints?status=released", await node.token("reviewer"))
    gone = await proposed(node, listed.json()["items"][0]["id"], await writer(node))
    assert (gone.status_code, gone.json()["code"]) == (422, "invalid_request"), "its opt-out was purged"


async def test_content_of_purged_breakpoints_is_unknown(node: Node, clock: ManualClock) -> None:
    await answered(node, "a.b", approved=False, cost=3, tags=("prod",))
    await policy(node, retentionDays=1)
    clock.advance(2 * 24 * 3600)
    await node.assent.database.write(node.assent[RetentionService].purge_due)
    assert counts(await backtested(node, "a.*(tags contains 'prod')")) == {"scanned": 1, "matched": 1, "purged": 1}
    for pattern in ("a.*(payload.cost = 3)", "a.*(NOT payload.cost exists)", "a.*(NOT title exists)"):
        assert counts(await backtested(node, pattern)) == {"scanned": 1, "unknown": 1}, pattern
    missing = partial(node.call, "POST", f"/api/breakpoints/bp_{'0' * 26}/always-approve")
    assert (await missing(await writer(node))).status_code == 404
