"""The history endpoint: order, pagination, capped statistics, and limiting agents to their own breakpoints."""

from dataclasses import replace
from typing import Any

import pytest

from assent.breakpoints.store.history import SELECT_NEWEST
from assent.breakpoints.store.reading import Plan, Query, page_statement
from assent.breakpoints.usecases.history import HistoryService
from assent.breakpoints.usecases.inbox import InboxService
from tests.db.making import rows
from tests.support.nodes import ManualClock, Node

HISTORY = "/api/history"


async def past(node: Node, token: str | None = None, /, **query: Any) -> dict[str, Any]:
    answer = await node.call("GET", HISTORY, token or await node.token("viewer"), params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def asked(node: Node, gate: str = "deploy", agent: str = "ci", token: str | None = None, **more: Any) -> str:
    payload = {"question": "?", "breakpointId": gate, **more.pop("payload", {})}
    made = await node.create(*([token] if token else []), agentId=agent, payload=payload, **more)
    breakpoint_id: str = made["id"]
    return breakpoint_id


async def answered(node: Node, clock: ManualClock, *, approved: bool, seconds: float = 1, **more: Any) -> str:
    breakpoint_id = await asked(node, **more)
    clock.advance(seconds)
    given = await node.feedback(breakpoint_id, await node.token("reviewer"), approved=approved, comment="Seen.")
    assert given.status_code == 200, given.text
    return breakpoint_id


async def rule(node: Node, pattern: str, action: str = "auto-approve") -> str:
    body = {"pattern": pattern, "action": action}
    made = await node.call("POST", "/api/rules", await node.token("rule-admin"), json=body)
    rule_id: str = made.json()["id"]
    return rule_id


async def one_of_each(node: Node, clock: ManualClock) -> dict[str, str]:
    """Create a breakpoint for each kind of ending, one second apart."""
    found = {
        "approved": await answered(node, clock, approved=True, seconds=10),
        "rejected": await answered(node, clock, approved=False, seconds=30),
    }
    clock.advance(1)
    found["cancelled"] = await asked(node)
    await node.call("POST", f"/api/breakpoints/{found['cancelled']}/cancel", await node.token("agent"))
    clock.advance(1)
    found["expired"] = await asked(node, ttlSeconds=1)
    clock.advance(2)
    found["timed out"] = await asked(node, ttlSeconds=1, onTimeout="reject")
    clock.advance(2)
    found["rule"] = await rule(node, "deploy(tags contains 'routine')")
    found["auto"] = await asked(node, tags=["routine"])
    clock.advance(1)
    found["waiting"] = await asked(node)
    return found


async def test_each_history_entry_shows_its_outcome(node: Node, clock: ManualClock) -> None:
    ids = await one_of_each(node, clock)
    entries = {each["id"]: each for each in (await past(node))["items"]}
    assert entries[ids["approved"]] == {
        "id": ids["approved"],
        "breakpointId": ids["approved"],
        "gate": "deploy",
        "agentId": "ci",
        "title": "Deploy to production",
        "status": "released",
        "decision": "approved",
        "decidedBy": "person:owner",
        "auto": False,
        "createdAt": "2027-01-15T08:00:00.000000Z",
        "endedAt": "2027-01-15T08:00:10.000000Z",
        "responseSeconds": 10.0,
        "strategy": "single",
        "feedback": "Seen.",
    }
    auto = entries[ids["auto"]]
    assert (auto["auto"], auto["matchedRule"], auto["decidedBy"]) == (True, ids["rule"], f"rule:{ids['rule']}")
    assert "responseSeconds" not in auto
    assert (entries[ids["timed out"]]["decidedBy"], entries[ids["expired"]]["status"]) == ("system:timeout", "expired")
    assert {"decision", "endedAt", "decidedBy"} & set(entries[ids["waiting"]]) == set()


async def test_each_breakpoint_at_a_gate_is_counted_once(node: Node, clock: ManualClock) -> None:
    await one_of_each(node, clock)
    await asked(node, gate="another")
    assert (await past(node, gate="deploy"))["summary"] == {
        "gate": "deploy",
        "asked": 7,
        "approved": 1,
        "rejected": 2,
        "auto": 1,
        "expired": 1,
        "cancelled": 1,
        "waiting": 1,
        "medianResponseSeconds": 20.0,
        "streaks": [{"agentId": "ci", "streak": 0}],
        "countedAtMost": 2_000,
        "complete": True,
        "since": "2027-01-15T08:00:00.000000Z",
    }
    assert "summary" not in await past(node)


async def test_the_streak_counts_only_human_decisions_for_the_agent(node: Node, clock: ManualClock) -> None:
    for agent, decisions in {"ci": (False, True, True), "cd": (True,)}.items():
        for approved in decisions:
            await answered(node, clock, approved=approved, agent=agent)
    await rule(node, "deploy")
    await asked(node)
    summary = (await past(node, gate="deploy"))["summary"]
    assert summary["streaks"] == [{"agentId": "ci", "streak": 2}, {"agentId": "cd", "streak": 1}]
    assert "streak" not in summary
    one = (await past(node, gate="deploy", agentId="cd"))["summary"]
    assert (one["asked"], one["streak"], one["agentId"]) == (1, 1, "cd")
    nobody = (await past(node, gate="deploy", agentId="nobody"))["summary"]
    assert (nobody["asked"], nobody["streak"], nobody["complete"]) == (0, 0, True)
    mine = await past(node, await node.token("agent"), gate="deploy", limit=1)
    assert "summary" not in await past(node, gate="deploy", limit=1, cursor=mine["nextCursor"])
    check = await node.call(
        "POST", "/api/rules/check", await node.token("agent"), json={"breakpointId": "deploy", "agentId": "ci"}
    )
    assert check.json()["consecutiveApprovals"] == 2


async def test_pages_contain_each_breakpoint_once_newest_first(node: Node, clock: ManualClock) -> None:
    ids: list[str] = []
    for n in range(11):
        ids.append(await answered(node, clock, approved=True) if n % 3 else await asked(node))
        if n % 4 == 0:
            clock.advance(1)
    walked: list[str] = []
    query: dict[str, Any] = {"gate": "deploy", "limit": 2}
    while True:
        page = await past(node, **query)
        walked += [each["id"] for each in page["items"]]
        if "nextCursor" not in page:
            break
        query["cursor"] = page["nextCursor"]
    everything = [each["id"] for each in (await past(node, limit=200))["items"]]
    assert walked == everything
    assert sorted(walked) == sorted(ids)


async def test_statistics_based_only_on_the_newest_breakpoints_are_marked_as_incomplete(
    node: Node, clock: ManualClock
) -> None:
    service = HistoryService(node.assent.database, node.assent[InboxService], counted_at_most=3)
    query = Query(project="default", gate="deploy")
    await answered(node, clock, approved=False)
    for _ in range(3):
        await answered(node, clock, approved=True)
    found = await service.standing(query)
    assert (dict(found.counts), found.complete, found.counted_at_most) == ({"approved": 3}, False, 3)
    assert found.since == clock.now() - 3_000_000
    await answered(node, clock, approved=True, agent="rare")
    for _ in range(3):
        await asked(node)
    rare = await service.standing(replace(query, agent_id="rare"))
    assert (rare.counts.total(), rare.streaks, rare.complete) == (0, (("rare", 1),), False)


async def test_an_agent_sees_only_the_breakpoints_it_created(node: Node) -> None:
    other = await node.token("agent", name="other")
    mine, theirs = await asked(node), await asked(node, token=other)
    found = await past(node, await node.token("agent"), gate="deploy")
    assert ([each["id"] for each in found["items"]], found["summary"]["asked"]) == ([mine], 1)
    assert [each["id"] for each in (await past(node, other))["items"]] == [theirs]


async def test_the_history_contains_only_the_current_project(node: Node) -> None:
    await asked(node)
    await node.call("POST", "/api/projects", await node.token("admin"), json={"id": "elsewhere"})
    foreign = await node.person("eve", "viewer", project="elsewhere")
    found = await past(node, foreign, gate="deploy")
    assert (found["items"], found["summary"]["asked"]) == ([], 0)
    assert (await node.call("GET", HISTORY, await node.token("metrics"))).status_code == 403


@pytest.mark.parametrize(
    "query", ["gates=x", "gate=a&gate=b", "gate=", "limit=0", "limit=201", "limit=x", "cursor=x", "status=waiting"]
)
async def test_an_invalid_filter_is_rejected(node: Node, query: str) -> None:
    answer = await node.call("GET", f"{HISTORY}?{query}", await node.token("viewer"))
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


@pytest.mark.parametrize("agent", [None, "ci"])
async def test_reading_a_gate_newest_first_uses_its_index(node: Node, agent: str | None) -> None:
    """In projects of any size, the query plan neither reads rows of other gates nor sorts all rows of the gate."""
    statuses = {each: each for each in ("waiting", "released", "expired", "cancelled")}
    newest = (SELECT_NEWEST, {"project_id": "default", "gate": "deploy", "limit": 10, **statuses})
    page = page_statement(
        Query(project="default", gate="deploy", agent_id=agent, cursor=(1, "x")), Plan(), node.assent.database.dialect
    )
    for statement, params in (newest, page):
        text = await plan_of(node, statement, params)
        assert "SCAN assent_breakpoints" not in text
        assert "Seq Scan" not in text
        assert "SCAN b" not in text
        assert text.count("ix_assent_breakpoints_") >= 4, text


async def plan_of(node: Node, statement: str, params: dict[str, Any]) -> str:
    if node.assent.database.dialect == "sqlite":
        return "\n".join(str(row[3]) for row in await rows(node, f"EXPLAIN QUERY PLAN {statement}", **params))

    def explain(tx: Any) -> str:
        # By default, PostgreSQL would scan and sort a table as small as this one.
        tx.session.all("SELECT set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true)", {})
        return "\n".join(row[0] for row in tx.session.all(f"EXPLAIN {statement}", params))

    return await node.assent.database.write(explain)
