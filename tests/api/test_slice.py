"""The basic flow through all layers, over HTTP and on both databases: create, wait and release."""

import asyncio

from tests.api.streams import parked
from tests.support.nodes import Node


async def test_a_waiting_agent_is_notified_of_the_decision_immediately(node: Node) -> None:
    agent, reviewer = await node.token("agent"), await node.token("reviewer")
    created = await node.create(ttlSeconds=60)
    waiting = asyncio.create_task(node.call("GET", f"/api/breakpoints/{created['id']}/status?wait=30", agent))
    await parked(node)

    answer = await node.feedback(created["id"], reviewer, release=True, comment="Go ahead.")

    assert answer.json()["decision"] == "approved"
    seen = (await waiting).json()
    assert (seen["status"], seen["decision"]) == ("released", "approved")
    assert seen["result"]["approved"] is True
    assert seen["result"]["feedback"] == "Go ahead."


async def test_a_second_decision_returns_409_with_the_first_outcome(node: Node) -> None:
    created = await node.create()
    reviewer = await node.token("reviewer")
    first = await node.feedback(created["id"], reviewer, approved=False, comment="No.")
    second = await node.feedback(created["id"], reviewer, approved=True)

    assert first.json()["decision"] == "rejected"
    assert second.status_code == 409
    assert second.json()["standing"]["decision"] == "rejected"
