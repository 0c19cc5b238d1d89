"""When each recipient is notified, and messages that must not be lost."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import Principal
from assent.core.breakpoint import Status
from assent.core.strategies import Decision
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.delivery.store.channels import Channels
from assent.delivery.store.deliveries import Delivery
from assent.delivery.usecases.outbox import PATIENCE, DeliveryService, Sent
from assent.people.store.people import People
from assent.people.store.projects import Projects
from tests.db.making import create, person, respond, rows, stored
from tests.delivery.usecases.delegating import EMAIL, channel, deliveries, kinds, route, settle, told, wishes
from tests.support.nodes import ManualClock, Node

MINUTE, HOUR = 60, 3600
MOST = 10
"""The default rate limit: emails per minute to one recipient."""
NIGHT = {"from": "07:00", "to": "19:00", "timezone": "UTC"}
"""Quiet hours that include 08:00 UTC, when the clock in these tests starts."""


@pytest.fixture
async def ann(node: Node) -> Principal:
    return await person(node, "ann", "reviewer")


@pytest.fixture
async def bob(node: Node) -> Principal:
    return await person(node, "bob", "reviewer")


async def attempt(node: Node, delivery: Delivery, **how: Any) -> None:
    """Record one attempt as a worker does, without sending anything."""
    service = node.assent[DeliveryService]
    claim = await node.assent.database.write(lambda tx: service.claim(tx, delivery.line, worker="w"))
    assert claim is not None
    sent = Sent(**({"status": None, "error": None, "milliseconds": 1, "trace": {"ts": "1"}} | how))
    await node.assent.database.write(lambda tx: service.record(tx, claim, sent, jitter=0))


async def switch_off(node: Node, channel_id: str) -> None:
    await node.assent.database.write(lambda tx: tx[Channels].disable(channel_id, because="410", now=tx.now()))


async def test_messages_delayed_by_quiet_hours_do_not_delay_urgent_ones(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    await channel(node, "email")
    await route(node, "email", pattern="loud.*", quiet=False)
    await route(node, "email")
    await wishes(node, ann.id, quiet=NIGHT)
    for _ in range(MOST + 1):
        await create(node, {"expert": "ann"})
    await settle(node)
    urgent = await create(node, {"expert": "ann", "breakpointId": "loud.x"})
    [found] = await deliveries(node, urgent)
    assert (found.next_at - clock.now()) // SECOND <= MINUTE, "the urgent message waits for the end of the quiet hours"


async def test_escalations_ignore_quiet_hours(node: Node, clock: ManualClock, ann: Principal) -> None:
    await channel(node, "email")
    await route(node, "email", to=["person:ann"], escalate=[{"after": "1h", "to": ["person:ann"]}])
    await wishes(node, ann.id, quiet=NIGHT)
    for _ in range(MOST + 1):
        await create(node)
    await settle(node)
    clock.advance(HOUR)
    found = [each for each in await deliveries(node) if each.purpose == "escalate"]
    assert len(found) == MOST + 1
    assert all((each.next_at - clock.now()) // SECOND <= MINUTE for each in found)


async def test_an_escalation_does_not_wait_for_a_question_delayed_by_quiet_hours(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    await channel(node, "email")
    await route(node, "email", to=["person:ann"], escalate=[{"after": "1h", "to": ["person:ann"]}])
    await wishes(node, ann.id, quiet=NIGHT)
    breakpoint_id = await create(node)
    await settle(node)
    clock.advance(HOUR)
    escalated = (await deliveries(node, breakpoint_id))[-1]
    assert escalated.purpose == "escalate"
    claim = await node.assent.database.write(
        lambda tx: node.assent[DeliveryService].claim(tx, escalated.line, worker="w")
    )
    assert claim is not None, "the escalation waits behind a question held by quiet hours"


async def test_a_digest_sent_during_quiet_hours_omits_messages_that_quiet_hours_delay(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    await channel(node, "email")
    await route(node, "email", pattern="loud.*", quiet=False)
    await route(node, "email")
    await wishes(node, ann.id, quiet=NIGHT)
    for _ in range(MOST + 2):
        await create(node, {"expert": "ann", "breakpointId": "loud.x"})
    await settle(node)
    for _ in range(MOST + 1):
        await create(node, {"expert": "ann"})
    held = [each for each in await deliveries(node) if each.digested]
    assert held
    clock.advance(MINUTE)
    claim = await node.assent.database.write(
        lambda tx: node.assent[DeliveryService].claim_digest(tx, held[0].channel, held[0].recipient)
    )
    assert claim is not None
    assert len(claim.taken) == 2, "only messages that may be sent in quiet hours"


async def test_breakpoints_announced_in_a_digest_get_reminders(node: Node, clock: ManualClock, ann: Principal) -> None:
    del ann
    await channel(node, "email")
    await route(node, "email", remind=["30m"])
    ids = [await create(node, {"expert": "ann"}) for _ in range(MOST + 3)]
    await settle(node)
    clock.advance(30 * MINUTE)
    await settle(node)
    assert [("reminded" in await kinds(node, each)) for each in ids] == [True] * len(ids)


async def test_the_deputy_of_an_escalation_recipient_can_answer(
    node: Node, clock: ManualClock, ann: Principal, bob: Principal
) -> None:
    del ann
    eve = await person(node, "eve", "reviewer")
    await channel(node, "email")
    await route(node, "email", escalate=[{"after": "1h", "to": ["person:bob"]}])
    await wishes(node, bob.id, away={"deputy": "eve"})
    breakpoint_id = await create(node, {"expert": "ann"})
    await settle(node)
    clock.advance(HOUR)
    assert (await told(node, breakpoint_id))[-1][:3] == ("email", "person:eve", "escalate")
    await respond(node, breakpoint_id, eve)
    assert (await stored(node, breakpoint_id)).decision is Decision.APPROVED


async def test_a_reminder_respects_quiet_hours(node: Node, clock: ManualClock, ann: Principal) -> None:
    await channel(node, "email")
    await route(node, "email", remind=["30m"])
    await wishes(node, ann.id, quiet={"from": "08:15", "to": "19:00", "timezone": "UTC"})
    breakpoint_id = await create(node, {"expert": "ann"})
    await settle(node)
    clock.advance(30 * MINUTE)
    reminder = (await deliveries(node, breakpoint_id))[-1]
    assert reminder.purpose == "remind"
    assert reminder.next_at - clock.now() > HOUR * SECOND


async def test_after_quiet_hours_the_question_is_sent_without_its_reminders(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    await channel(node, "email")
    await route(node, "email", remind=["30m", "1h", "2h"])
    await wishes(node, ann.id, quiet=NIGHT)
    breakpoint_id = await create(node, {"expert": "ann"})
    await settle(node)
    for _ in range(4):
        clock.advance(30 * MINUTE)
        await settle(node)
    clock.advance(10 * HOUR)
    first = (await deliveries(node, breakpoint_id))[0]
    service, at_once = node.assent[DeliveryService], 0
    while claim := await node.assent.database.write(lambda tx: service.claim(tx, first.line, worker="w")):
        at_once += 1
        done = partial(service.record, claim=claim, sent=Sent(250, None, 1, trace={"messageId": "1"}), jitter=0)
        await node.assent.database.write(done)
    assert at_once == 1


async def test_quiet_hours_do_not_delay_a_question_past_its_deadline(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    await channel(node, "email")
    await route(node, "email", timeout={"after": "1h", "then": "reject"})
    await wishes(node, ann.id, quiet=NIGHT)
    breakpoint_id = await create(node, {"expert": "ann"})
    [asked] = await deliveries(node, breakpoint_id)
    assert asked.next_at - clock.now() < HOUR * SECOND, "the breakpoint is rejected before anyone was asked"


async def test_an_escalation_fallback_notifies_the_escalation_recipients(
    node: Node, clock: ManualClock, ann: Principal, bob: Principal
) -> None:
    del ann, bob
    await channel(node, "email")
    room = await channel(node, "room", "email", **EMAIL, addresses=["ops@example.test"])
    levels = [{"after": "1h", "to": ["person:bob"], "channels": ["room"]}]
    await route(node, "email", fallback=["email"], escalate=levels)
    breakpoint_id = await create(node, {"expert": "ann"})
    await settle(node)
    clock.advance(HOUR)
    escalated = next(each for each in await deliveries(node, breakpoint_id) if each.purpose == "escalate")
    assert escalated.channel == room
    await attempt(node, escalated, error="No.", final=True)
    found = [each for each in await told(node, breakpoint_id) if each[:1] == ("email",) and each[2] == "escalate"]
    assert [each[1] for each in found] == ["person:bob"]


async def test_a_question_fallback_notifies_the_recipients_of_the_route(
    node: Node, ann: Principal, bob: Principal
) -> None:
    del ann, bob
    await channel(node, "email")
    await channel(node, "room", "email", **EMAIL, addresses=["ops@example.test"])
    await route(node, "room", to=["person:bob"], fallback=["email"])
    breakpoint_id = await create(node)
    [asked] = await deliveries(node, breakpoint_id)
    await attempt(node, asked, error="No.", final=True)
    assert [each[:2] for each in await told(node, breakpoint_id) if each[0] == "email"] == [("email", "person:bob")]


async def test_the_routes_channels_replace_a_disabled_preferred_channel(node: Node, ann: Principal) -> None:
    dear = await channel(node, "dear", "email", **EMAIL)
    await channel(node, "email")
    await route(node, "email")
    await wishes(node, ann.id, channels=["dear"])
    await switch_off(node, dear)
    breakpoint_id = await create(node, {"expert": "ann"})
    await settle(node)
    first = (await deliveries(node, breakpoint_id))[0]
    await node.assent.database.write(lambda tx: node.assent[DeliveryService].claim(tx, first.line, worker="w"))
    assert any(each[3] in {"pending", "sending"} for each in await told(node, breakpoint_id)), "nobody is asked"


async def test_a_reminder_falls_back_if_its_channel_was_disabled(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    del ann
    await channel(node, "email")
    hook = await channel(node, "hook", "webhook")
    await route(node, "hook", fallback=["email"], remind=["30m"])
    breakpoint_id = await create(node, {"expert": "ann"})
    [asked] = await deliveries(node, breakpoint_id)
    await attempt(node, asked)
    await switch_off(node, hook)
    clock.advance(30 * MINUTE)
    reminder = (await deliveries(node, breakpoint_id))[-1]
    await node.assent.database.write(lambda tx: node.assent[DeliveryService].claim(tx, reminder.line, worker="w"))
    assert any(each[0] == "email" for each in await told(node, breakpoint_id)), "the reminder reaches nobody"


async def test_a_closing_message_does_not_wait_for_a_failing_reminder(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    await channel(node, "email")
    await route(node, "email", remind=["30m"])
    breakpoint_id = await create(node, {"expert": "ann"})
    [asked] = await deliveries(node, breakpoint_id)
    await attempt(node, asked)
    clock.advance(30 * MINUTE)
    reminder = (await deliveries(node, breakpoint_id))[-1]
    await attempt(node, reminder, error="Busy.", retry_after=3600.0, trace=None)
    await respond(node, breakpoint_id, ann)
    closing = next(each for each in await deliveries(node, breakpoint_id) if each.purpose == "close")
    claim = await node.assent.database.write(
        lambda tx: node.assent[DeliveryService].claim(tx, closing.line, worker="w")
    )
    assert claim is not None, "the message looks open for another hour"
    assert claim.delivery.purpose == "close"


async def test_messages_are_closed_even_after_a_thousand_comments(node: Node, ann: Principal) -> None:
    await channel(node, "email")
    await route(node, "email")
    breakpoint_id = await create(node, {"expert": "ann"})
    [asked] = await deliveries(node, breakpoint_id)
    await attempt(node, asked)

    def talk(tx: Transaction) -> None:
        for n in range(1_000):
            node.assent[BreakpointService].comment(tx, breakpoint_id, f"{n}", by=ann, once=None)

    await node.assent.database.write(talk)
    await respond(node, breakpoint_id, ann)
    assert [each[2] for each in await told(node, breakpoint_id)] == ["ask", "close"]


async def test_a_delivery_without_a_fallback_stays_pending_when_its_digest_fails(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    del ann
    mail = await channel(node, "email")
    await channel(node, "hook", "webhook")
    await route(node, "email", pattern="rich.*", fallback=["hook"])
    await route(node, "email")
    for _ in range(MOST + 1):
        await create(node, {"expert": "ann", "breakpointId": "rich.x"})
    await settle(node)
    clock.advance(1)  # A digest has the ID of its first delivery, which must not be the one below.
    poor = await create(node, {"expert": "ann"})
    await settle(node)
    service = node.assent[DeliveryService]
    for _ in range(6):
        clock.advance(2 * HOUR)
        claim = await node.assent.database.write(lambda tx: service.claim_digest(tx, mail, "person:ann"))
        if claim is not None:
            failed = partial(service.record_digest, claim=claim, sent=Sent(451, "Later.", 1), jitter=0)
            await node.assent.database.write(failed)
    [left] = await deliveries(node, poor)
    assert (await stored(node, poor)).status is Status.WAITING
    assert left.state == "pending", "the delivery was given up although it has no fallback"


async def test_unreadable_preferences_do_not_prevent_notifications(
    node: Node, clock: ManualClock, ann: Principal, bob: Principal
) -> None:
    await person(node, "eve", "reviewer")
    await channel(node, "email")
    await route(node, "email")
    await wishes(node, ann.id, away={"deputy": "eve"})
    await wishes(node, bob.id, quiet=NIGHT)

    def forget_the_zone(tx: Transaction) -> None:
        """Store a time zone that this machine does not know, as can happen after a time zone data update."""
        row = {"content": '{"quiet": {"from": "07:00", "to": "19:00", "timezone": "Europe/Kyiw"}}', "id": bob.id}
        tx.session.write("UPDATE assent_preferences SET content = :content WHERE person_id = :id", [row])

    await node.assent.database.write(forget_the_zone)
    breakpoint_id = await create(node, {"expert": ["ann", "bob"]})
    for _ in range(3):
        await settle(node)
        clock.advance(2 * MINUTE)
    assert (await kinds(node, breakpoint_id)).count("delegated") == 1, "the delegation is repeated every minute"
    assert sorted(each[1] for each in await told(node, breakpoint_id)) == ["person:bob", "person:eve"]


async def test_retrying_a_delivery_whose_workers_crashed_sends_it_again(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    await channel(node, "email")
    await route(node, "email")
    breakpoint_id = await create(node, {"expert": "ann"})
    [asked] = await deliveries(node, breakpoint_id)
    service = node.assent[DeliveryService]
    for _ in range(12):
        await node.assent.database.write(lambda tx: service.claim(tx, asked.line, worker="w"))
        clock.advance(MINUTE)
    assert (await deliveries(node, breakpoint_id))[0].state == "dead"
    admin = replace(ann, roles=frozenset((await person(node, "adm", "admin")).roles))
    await node.assent.database.write(partial(service.retry, delivery_id=asked.id, by=admin))
    assert await node.assent.database.write(lambda tx: service.claim(tx, asked.line, worker="w")) is not None


async def test_a_breakpoint_created_before_the_first_channel_can_still_get_a_ticket(node: Node) -> None:
    def demand(tx: Transaction) -> None:
        project = tx[Projects].get("default")
        tx[Projects].save(replace(project, policy={**project.policy, "ticketTags": ["audit"]}))

    await node.assent.database.write(demand)
    breakpoint_id = await create(node, {"tags": ["audit"]})
    await channel(node, "email")
    await settle(node)
    assert await rows(node, "SELECT 1 FROM assent_routings WHERE breakpoint_id = :id", id=breakpoint_id)


@pytest.mark.parametrize(
    ("how", "state"),
    [
        ({"error": "The connection broke off."}, "pending"),
        ({"error": "It answered 504.", "status": 504}, "pending"),
        ({"error": "It answered 429.", "status": 429}, "superseded"),
    ],
    ids=["reply lost", "gateway timeout", "refused"],
)
async def test_an_unconfirmed_question_is_closed_unless_it_was_refused(
    node: Node, clock: ManualClock, ann: Principal, how: dict[str, Any], state: str
) -> None:
    await channel(node, "email")
    await route(node, "email")
    breakpoint_id = await create(node, {"expert": "ann"})
    [asked] = await deliveries(node, breakpoint_id)
    await attempt(node, asked, trace=None, **how)
    await respond(node, breakpoint_id, ann)
    await settle(node)
    clock.advance(HOUR)
    claim = await node.assent.database.write(lambda tx: node.assent[DeliveryService].claim(tx, asked.line, worker="w"))
    ends = ("email", "person:ann", "close", "sending" if state == "pending" else state)
    assert await told(node, breakpoint_id) == [("email", "person:ann", "ask", "superseded"), ends]
    assert (claim and claim.note and claim.note.unconfirmed) == ((asked.id,) if state == "pending" else None)


async def test_a_dead_question_whose_response_was_lost_is_closed(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    await channel(node, "email")
    await channel(node, "other", "email", **EMAIL)
    await route(node, "email", fallback=["other"])
    breakpoint_id = await create(node, {"expert": "ann"})
    [asked] = await deliveries(node, breakpoint_id)
    for _ in range(PATIENCE + 1):
        await attempt(node, asked, trace=None, error="The connection broke off.")
        clock.advance(HOUR)
    assert ("email", "person:ann", "ask", "dead") in await told(node, breakpoint_id)
    await respond(node, breakpoint_id, ann)
    assert ("email", "person:ann", "close", "pending") in await told(node, breakpoint_id)


async def test_a_permanently_refused_question_is_not_closed(node: Node, ann: Principal) -> None:
    await channel(node, "email")
    await route(node, "email")
    breakpoint_id = await create(node, {"expert": "ann"})
    [asked] = await deliveries(node, breakpoint_id)
    await attempt(node, asked, trace=None, error="ann does not have an email address.", final=True)
    await respond(node, breakpoint_id, ann)
    assert await told(node, breakpoint_id) == [("email", "person:ann", "ask", "dead")]


async def test_an_overdue_question_whose_response_was_lost_is_closed(node: Node, clock: ManualClock) -> None:
    await person(node, "ann", "reviewer")
    await channel(node, "email")
    await route(node, "email")
    breakpoint_id = await create(node, {"expert": "ann"}, ttlSeconds=HOUR)
    [asked] = await deliveries(node, breakpoint_id)
    await attempt(node, asked, trace=None, error="The connection broke off.")
    clock.advance(2 * HOUR)
    # A worker claims the delivery before the scheduler has ended the breakpoint.
    await node.assent.database.write(lambda tx: node.assent[DeliveryService].claim(tx, asked.line, worker="w"))
    await node.assent.database.write(node.assent[BreakpointService].time_out_due)
    purposes = [(purpose, state) for _, _, purpose, state in await told(node, breakpoint_id)]
    assert purposes[0] == ("ask", "superseded")
    assert purposes[1][0] == "close"
    assert purposes[1][1] in {"pending", "sending"}


async def test_an_unconfirmed_question_is_not_closed_for_a_reviewer_without_access(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    await channel(node, "email")
    await route(node, "email")
    breakpoint_id = await create(node, {"expert": "ann"})
    [asked] = await deliveries(node, breakpoint_id)
    await attempt(node, asked, trace=None, error="The connection broke off.")
    await respond(node, breakpoint_id, ann)
    await settle(node)
    await node.assent.database.write(lambda tx: tx[People].grant(ann.id, "default", set()))
    clock.advance(HOUR)
    assert (
        await node.assent.database.write(lambda tx: node.assent[DeliveryService].claim(tx, asked.line, worker="w"))
        is None
    )
    assert ("email", "person:ann", "close", "superseded") in await told(node, breakpoint_id)
