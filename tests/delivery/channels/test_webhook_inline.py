"""Inline answers in webhook responses count once, for the configured person, and never for high-risk breakpoints."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from assent.kernel.settings import Settings
from tests.db.making import rows
from tests.delivery.usecases.delegating import channel, deliveries, in_state, route
from tests.support.nodes import Node, running_node
from tests.support.receiver import Answer, Receiver, receiving
from tests.support.until import until

SECRET = "whsec_" + "c2VjcmV0" * 5


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture
async def working(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    allowing = settings.model_copy(update={"outbound_allow": ("127.0.0.0/8",)})
    async with running_node(allowing, worker=True) as node:
        await node.person("ann", "reviewer")
        yield node


async def hooked(node: Node, receiver: Receiver, **more: Any) -> None:
    settings = {"url": receiver.url("/hook"), "secrets": ["env:HOOK_SECRET"], "answersAs": "ann", "answersInline": True}
    await channel(node, "hook", "webhook", **settings | more)
    await route(node, "hook")


async def said(node: Node, **payload: Any) -> Answer:
    """Return a response that approves the next breakpoint with this payload; identical content has the same hash."""
    before = await node.create(payload={"question": "Deploy?", **payload})
    return Answer(200, body=json.dumps({"approved": True, "comment": "Go.", "digest": before["digest"]}).encode())


async def view(node: Node, breakpoint_id: str) -> dict[str, Any]:
    answer = await node.call("GET", f"/api/breakpoints/{breakpoint_id}", await node.token("admin"))
    found: dict[str, Any] = answer.json()
    return found


async def test_an_inline_answer_decides_the_breakpoint(working: Node, receiver: Receiver) -> None:
    receiver.answer("/hook", await said(working))
    await hooked(working, receiver)
    created = await working.create()
    ended = await until(lambda: view(working, created["id"]), lambda found: found["status"] != "waiting")
    assert (ended["decision"], ended["result"]["respondedBy"], ended["result"]["via"]) == ("approved", "ann", "webhook")
    assert await asyncio.to_thread(receiver.wait, lambda calls: len(calls) >= 3)
    found = await in_state(working, created["id"], "sent", "answered")
    assert {each.purpose: each.state for each in found}["ask"] == "answered"
    assert len(ended["responses"]) == 1


async def test_an_inline_answer_to_a_retry_counts_too(working: Node, receiver: Receiver) -> None:
    receiver.answer("/hook", Answer(503), await said(working))
    await hooked(working, receiver)
    created = await working.create()
    ended = await until(lambda: view(working, created["id"]), lambda found: found["status"] != "waiting")
    assert (ended["decision"], len(ended["responses"])) == ("approved", 1)


@pytest.mark.parametrize(
    ("payload", "more"), [({"risk": "high"}, {}), ({}, {"answersInline": False}), ({"expert": "bob"}, {})]
)
async def test_an_inline_answer_that_is_not_allowed_to_decide_is_ignored(
    working: Node, receiver: Receiver, payload: dict[str, Any], more: dict[str, Any]
) -> None:
    await working.person("bob", "reviewer")
    receiver.answer("/hook", await said(working, **payload))
    await hooked(working, receiver, **more)
    created = await working.create(payload={"question": "Deploy?", **payload})
    await until(lambda: deliveries(working, created["id"]), lambda found: [each.state for each in found] == ["sent"])
    if not more:
        # The refused answer's key is also recorded for deduplication.
        await until(lambda: rows(working, "SELECT key FROM assent_heard"), lambda found: len(found) == 1)
    found = await view(working, created["id"])
    assert (found["status"], found["responses"]) == ("waiting", [])
