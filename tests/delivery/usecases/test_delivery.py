"""Callbacks to the agent: signed, in order, retried after failures, and recorded."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_network
from typing import Any

import pytest

from assent.db.transaction import Transaction
from assent.delivery.store.deliveries import Attempt, Deliveries, Delivery
from assent.delivery.usecases.outbox import HEAL_BATCH, LADDER, LEASE, STUCK, DeliveryService, Sent
from assent.kernel.settings import Settings
from assent.people.authenticator import Authenticator
from assent.people.usecases.secrets import SecretService
from tests.support.nodes import ManualClock, Node, running_node
from tests.support.receiver import Answer, Call, Receiver, receiving
from tests.support.until import until

LOOPBACK = str(ip_network("127.0.0.0/8"))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture
async def working(settings: Settings) -> AsyncIterator[Node]:
    allowing = settings.model_copy(update={"outbound_allow": (LOOPBACK,)})
    async with running_node(allowing, worker=True) as node:
        yield node


async def arrived(receiver: Receiver, count: int) -> list[Call]:
    assert await asyncio.to_thread(receiver.wait, lambda calls: len(calls) >= count)
    return receiver.calls


async def deliveries(node: Node, breakpoint_id: str) -> list[Delivery]:
    found = await node.assent.database.read(
        lambda tx: tx[Deliveries].page("default", {"breakpoint_id": breakpoint_id}, after="", limit=50)
    )
    return sorted(found, key=lambda each: each.seq)


async def settled(node: Node, breakpoint_id: str) -> list[Delivery]:
    return await until(
        lambda: deliveries(node, breakpoint_id),
        lambda found: all(each.state not in {"pending", "sending"} for each in found),
    )


async def log(node: Node, delivery: Delivery) -> list[Attempt]:
    return await node.assent.database.read(lambda tx: tx[Deliveries].attempts(delivery.id))


async def secret(node: Node) -> str:
    found = await node.assent.database.write(lambda tx: node.assent[SecretService].callback_secrets(tx, "default"))
    return found[0].value


async def test_every_breakpoint_event_is_signed_and_sent_in_order(working: Node, receiver: Receiver) -> None:
    reviewer = await working.token("reviewer")
    created = await working.create(callbackUrl=receiver.url("/cb"))
    answer = await working.feedback(created["id"], reviewer, approved=True)
    assert answer.status_code == 200
    calls = await arrived(receiver, 3)
    assert [call.json["type"] for call in calls] == [
        "breakpoint.created",
        "breakpoint.responded",
        "breakpoint.released",
    ]
    assert calls[-1].json["data"]["decision"] == "approved"
    key = await secret(working)
    for call in calls:
        call.verify(key)
    found = await settled(working, created["id"])
    assert [(each.type, each.state, each.attempts) for each in found] == [
        ("created", "sent", 1),
        ("responded", "sent", 1),
        ("released", "sent", 1),
    ]
    assert [call.id for call in calls] == [each.id for each in found]
    (attempt,) = await log(working, found[0])
    assert (attempt.n, attempt.status, attempt.error) == (1, 204, None)


@pytest.mark.parametrize("ending", ["cancel", "expire"])
async def test_cancellation_and_expiry_send_a_callback(working: Node, receiver: Receiver, ending: str) -> None:
    created = await working.create(callbackUrl=receiver.url("/cb"))
    await working.call("POST", f"/api/breakpoints/{created['id']}/{ending}", await working.token("admin"))
    calls = await arrived(receiver, 2)
    assert calls[-1].json["data"]["status"] == {"cancel": "cancelled", "expire": "expired"}[ending]


async def test_an_expired_deadline_sends_a_callback(working: Node, receiver: Receiver) -> None:
    await working.create(callbackUrl=receiver.url("/cb"), ttlSeconds=1)
    calls = await arrived(receiver, 2)
    assert calls[-1].json["type"] == "breakpoint.expired"


async def test_a_failed_callback_is_retried_before_the_next_one_is_sent(working: Node, receiver: Receiver) -> None:
    receiver.answer("/cb", Answer(503), Answer(204))
    created = await working.create(callbackUrl=receiver.url("/cb"))
    await working.call("POST", f"/api/breakpoints/{created['id']}/cancel", await working.token("agent"))
    calls = await arrived(receiver, 3)
    assert [call.json["type"] for call in calls] == [
        "breakpoint.created",
        "breakpoint.created",
        "breakpoint.cancelled",
    ]
    assert calls[0].id == calls[1].id
    first, second = await settled(working, created["id"])
    assert (first.state, first.attempts, second.state, second.attempts) == ("sent", 2, "sent", 1)
    assert [each.status for each in await log(working, first)] == [503, 204]


async def test_a_receiver_that_returns_410_gets_no_more_callbacks(working: Node, receiver: Receiver) -> None:
    receiver.answer("/cb", Answer(410))
    created = await working.create(callbackUrl=receiver.url("/cb"))
    (found,) = await settled(working, created["id"])
    assert (found.state, found.attempts) == ("dead", 1)
    assert "410" in (found.last_error or "")


async def test_an_internal_address_is_never_called(settings: Settings, receiver: Receiver) -> None:
    """A URL is checked again on every attempt, because the operator may have changed the allowed addresses."""
    allowing = settings.model_copy(update={"outbound_allow": (LOOPBACK,)})
    async with running_node(allowing) as node:
        created = await node.create(callbackUrl=receiver.url("/cb"))
    async with running_node(settings, worker=True) as node:
        (found,) = await settled(node, created["id"])
    assert found.state == "dead"
    assert receiver.calls == []


async def test_a_dead_callback_can_be_retried(working: Node, receiver: Receiver) -> None:
    receiver.answer("/cb", Answer(410), Answer(204))
    created = await working.create(callbackUrl=receiver.url("/cb"))
    (dead,) = await settled(working, created["id"])
    admin = await working.assent[Authenticator].principal(f"Bearer {await working.token('admin')}")
    await working.assent.database.write(lambda tx: working.assent[DeliveryService].retry(tx, dead.id, by=admin))
    (found,) = await settled(working, created["id"])
    assert (found.state, found.attempts) == ("sent", 2)
    # Programs deduplicate messages by their ID, so a callback can be resent.
    await working.assent.database.write(lambda tx: working.assent[DeliveryService].retry(tx, dead.id, by=admin))
    (found,) = await settled(working, created["id"])
    assert (found.state, found.attempts, {call.id for call in receiver.calls}) == ("sent", 3, {dead.id})


# The tests below call the services directly instead of running a worker, to control the timing.


async def line(node: Node, **options: Any) -> Delivery:
    created = await node.create(callbackUrl="https://hooks.example.com/cb", **options)
    return (await deliveries(node, created["id"]))[0]


async def claim(node: Node, delivery: Delivery, worker: str = "w") -> Any:
    service = node.assent[DeliveryService]
    return await node.assent.database.write(lambda tx: service.claim(tx, delivery.line, worker=worker))


async def fail(node: Node, claimed: Any, **how: Any) -> None:
    sent = Sent(503, "not now", 5, **how)
    await node.assent.database.write(lambda tx: node.assent[DeliveryService].record(tx, claimed, sent, jitter=0))


async def test_a_breakpoint_without_a_callback_url_queues_no_delivery(node: Node) -> None:
    created = await node.create()
    assert await deliveries(node, created["id"]) == []


async def test_a_repeated_idempotency_key_queues_no_second_delivery(node: Node) -> None:
    body = {"agentId": "a", "payload": {}, "callbackUrl": "https://hooks.example.com/cb"}
    agent = await node.token("agent")
    for _ in range(2):
        answer = await node.call("POST", "/api/breakpoints", agent, json=body, headers={"idempotency-key": "k"})
        assert answer.status_code == 201
    assert len(await deliveries(node, answer.json()["id"])) == 1


async def test_only_one_worker_at_a_time_can_claim_a_delivery_line(node: Node, clock: ManualClock) -> None:
    delivery = await line(node)
    claims = await asyncio.gather(*(claim(node, delivery, f"w{n}") for n in range(8)))
    assert sum(each is not None for each in claims) == 1
    clock.advance(LEASE / 1_000_000 - 1)
    assert await claim(node, delivery) is None
    clock.advance(2)
    assert (await claim(node, delivery)).delivery.attempts == 2


async def test_a_claimed_delivery_line_is_checked_again_when_its_lease_ends(node: Node) -> None:
    delivery = await line(node)
    assert await claim(node, delivery, "a worker that dies") is not None
    for _ in range(2):
        assert await claim(node, delivery, "one that takes over") is None
    table = "workflow_status" if node.assent.database.dialect == "sqlite" else "dbos.workflow_status"
    queued = f"SELECT status FROM {table} WHERE workflow_uuid = :key"
    rows = await node.assent.database.fetch(queued, {"key": f"deliver:{delivery.id}:1:lease"})
    assert [row[0] for row in rows] == ["DELAYED"]


async def test_a_result_recorded_after_the_lease_is_discarded(node: Node, clock: ManualClock) -> None:
    delivery = await line(node)
    slow = await claim(node, delivery)
    clock.advance(LEASE / 1_000_000 + 1)
    quick = await claim(node, delivery)
    sent = Sent(204, None, 5)
    await node.assent.database.write(lambda tx: node.assent[DeliveryService].record(tx, quick, sent, jitter=0))
    await fail(node, slow)
    (found,) = await deliveries(node, delivery.breakpoint_id)
    assert found.state == "sent"


async def test_a_delivery_is_dead_after_all_retry_delays_are_used(node: Node, clock: ManualClock) -> None:
    delivery = await line(node)
    for wait in LADDER:
        await fail(node, await claim(node, delivery))
        (found,) = await deliveries(node, delivery.breakpoint_id)
        assert (found.state, found.next_at) == ("pending", clock.now() + wait * 1_000_000)
        assert await claim(node, delivery) is None
        clock.advance(wait)
    await fail(node, await claim(node, delivery))
    (found,) = await deliveries(node, delivery.breakpoint_id)
    assert (found.state, found.attempts, found.last_error) == ("dead", len(LADDER) + 1, "not now")


async def test_retry_after_can_lengthen_but_not_shorten_the_delay(node: Node, clock: ManualClock) -> None:
    delivery = await line(node)
    await fail(node, await claim(node, delivery), retry_after=7200)
    (found,) = await deliveries(node, delivery.breakpoint_id)
    assert found.next_at == clock.now() + 7200 * 1_000_000
    clock.advance(7200)
    await fail(node, await claim(node, delivery), retry_after=1)
    (found,) = await deliveries(node, delivery.breakpoint_id)
    assert found.next_at == clock.now() + LADDER[1] * 1_000_000


async def test_crashed_workers_do_not_lengthen_the_retry_delay(node: Node, clock: ManualClock) -> None:
    delivery = await line(node)
    for _ in range(2):
        await claim(node, delivery)
        clock.advance(LEASE / 1_000_000 + 1)
    await fail(node, await claim(node, delivery))
    (found,) = await deliveries(node, delivery.breakpoint_id)
    assert (found.attempts, found.next_at) == (3, clock.now() + LADDER[0] * 1_000_000)


async def test_a_message_that_repeatedly_crashes_workers_is_marked_as_dead(node: Node, clock: ManualClock) -> None:
    delivery = await line(node)
    await node.call("POST", f"/api/breakpoints/{delivery.breakpoint_id}/cancel", await node.token("agent"))
    for _ in range(len(LADDER) + 1):
        assert (await claim(node, delivery)).delivery.seq == 1
        clock.advance(LEASE / 1_000_000 + 1)
    assert (await claim(node, delivery)).delivery.seq == 2
    assert [each.state for each in await deliveries(node, delivery.breakpoint_id)] == ["dead", "sending"]


async def test_only_the_first_delivery_in_a_stuck_line_is_reported(node: Node, clock: ManualClock) -> None:
    delivery = await line(node)
    await node.call("POST", f"/api/breakpoints/{delivery.breakpoint_id}/cancel", await node.token("agent"))

    def stuck(tx: Transaction) -> list[int]:
        return [each.seq for each in tx[Deliveries].stuck(tx.now() - STUCK, limit=HEAL_BATCH)]

    assert await node.assent.database.read(stuck) == []
    clock.advance(STUCK / 1_000_000 + 1)
    assert await node.assent.database.read(stuck) == [1]
    assert await node.assent.database.write(node.assent[DeliveryService].heal) == 1
