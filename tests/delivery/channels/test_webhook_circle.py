"""End to end over a webhook: a notification, an answer, the waiting agent, and a decision made elsewhere."""

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks import Webhook

from tests.delivery.channels.conftest import HOOK_SECRET as SECRET
from tests.delivery.usecases.delegating import channel, in_state, route
from tests.support.nodes import Node
from tests.support.receiver import Call, Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


async def hooked(node: Node, receiver: Receiver, **more: Any) -> str:
    made = await channel(node, "hook", "webhook", url=receiver.url("/hook"), secrets=["env:HOOK_SECRET"], **more)
    await route(node, "hook")
    return made


async def arrived(receiver: Receiver, count: int) -> list[Call]:
    assert await asyncio.to_thread(receiver.wait, lambda calls: len(calls) >= count)
    return receiver.calls


def signed(message_id: str, body: dict[str, Any], *, secret: str = SECRET) -> dict[str, Any]:
    encoded = json.dumps(body)
    at = datetime.fromtimestamp(int(time.time()), tz=UTC)
    headers = {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(message_id, at, encoded),
        "content-type": "application/json",
    }
    return {"headers": headers, "content": encoded.encode()}


async def test_a_webhook_answer_wakes_the_agent_and_closes_the_message(working: Node, receiver: Receiver) -> None:
    await working.person("ann", "reviewer")
    hook = await hooked(working, receiver, answersAs="ann")
    created = await working.create()
    agent = await working.token("agent")
    waiting = asyncio.create_task(working.call("GET", f"/api/breakpoints/{created['id']}/status?wait=30", agent))
    [told] = await arrived(receiver, 1)
    told.verify(SECRET)
    data = told.json["data"]
    assert (told.json["type"], data["callbackUrl"]) == (
        "breakpoint.created",
        f"{working.assent.settings.base_url}/callbacks/{hook}",
    )
    answer = {"breakpointId": created["id"], "approved": True, "comment": "Go.", "digest": data["digest"]}
    reply = await working.client.post(f"/callbacks/{hook}", **signed("msg-1", answer))
    assert reply.status_code == 200, reply.text
    assert (await waiting).json()["status"] == "released"
    result = (await working.call("GET", f"/api/breakpoints/{created['id']}", agent)).json()["result"]
    assert (result["approved"], result["respondedBy"], result["via"], result["feedback"]) == (
        *(True, "ann", "webhook"),
        "Go.",
    )
    calls = await arrived(receiver, 3)
    assert [each.json["type"] for each in calls[1:]] == ["breakpoint.responded", "breakpoint.released"]
    states = await in_state(working, created["id"], "sent", "answered")
    assert [each.purpose for each in states] == ["ask", "tell", "close"]


async def test_a_decision_made_elsewhere_is_sent_to_the_webhook(working: Node, receiver: Receiver) -> None:
    await hooked(working, receiver)
    created = await working.create()
    await arrived(receiver, 1)
    await working.feedback(created["id"], await working.token("reviewer"), approved=False, comment="No.")
    calls = await arrived(receiver, 3)
    assert calls[-1].json["data"]["decision"] == "rejected"
