"""Alarms for triggers that fire too often and for sources that have gone silent."""

import pytest

from assent.core.access import Principal
from assent.core.breakpoint import Breakpoint, Status
from assent.db.transaction import Transaction
from assent.triggers.model import TriggerState
from assent.triggers.store.events import TriggerEvents
from assent.triggers.store.sources import Sources
from assent.triggers.store.triggers import Triggers
from assent.triggers.usecases.alerts import BREAKER, SILENT, SilenceService
from tests.db.making import adding, person, respond, rows
from tests.db.making import stored as breakpoint_of
from tests.support.nodes import ManualClock, Node
from tests.support.until import until
from tests.triggers.usecases.triggering import arrived, come, process, runs, settle, source, stood, stored, trigger


@pytest.fixture
async def ann(node: Node) -> Principal:
    return await person(node, "ann", "reviewer")


async def look(node: Node) -> None:
    """Check for silence, and retry if the node is storing events at the same time."""

    def alone(tx: Transaction) -> bool:
        if not tx[TriggerEvents].alone():
            return False
        node.assent[SilenceService].look(tx)
        return True

    await until(lambda: node.assent.database.write(alone), bool)


async def gone_wild(node: Node, clock: ManualClock) -> Breakpoint:
    """Make a trigger fire more often than allowed, and return the alarm."""
    await process(node)
    ci = await source(node)
    await trigger(node, breaker={"limit": 3, "within": "1m"})
    for _ in range(5):
        clock.advance(1)
        await come(node, ci, arrived())
        await settle(node)
    alarm = (await stored(node)).alarm_id
    assert alarm is not None
    return await breakpoint_of(node, alarm)


async def test_a_trigger_that_fires_too_often_is_suspended_and_raises_an_alarm(node: Node, clock: ManualClock) -> None:
    alarm = await gone_wild(node, clock)
    found = await stored(node)
    assert (found.state, found.because) == (
        TriggerState.SUSPENDED,
        "Fired 4 times within 1m; the limit is 3.",
    )
    assert await stood(node) == [("started", None)] * 3 + [("held", "suspended")] * 2
    assert (alarm.status, alarm.gate) == (Status.WAITING, BREAKER)
    assert alarm.payload["question"] == "Trigger fixer fired 4 times within 1m and was suspended. Resume it?"
    assert len(await rows(node, "SELECT 1 FROM assent_breakpoints")) == 1, "there is more than one alarm"


async def test_approving_the_alarm_resumes_the_trigger_with_its_queued_events(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    alarm = await gone_wild(node, clock)
    await respond(node, alarm.id, ann)
    await settle(node)
    found = await stored(node)
    assert (found.state, found.because, found.alarm_id) == (TriggerState.ENABLED, None, None)
    assert found.updated_by == "person:ann"
    assert len(await runs(node)) == 5


async def test_a_rule_cannot_approve_an_alarm(node: Node, clock: ManualClock) -> None:
    await node.assent.database.write(adding(node, "*"))
    alarm = await gone_wild(node, clock)
    assert alarm.status is Status.WAITING
    assert alarm.auto_approval["recommended"] is False


async def test_rejecting_the_alarm_keeps_the_trigger_suspended(node: Node, clock: ManualClock, ann: Principal) -> None:
    alarm = await gone_wild(node, clock)
    await respond(node, alarm.id, ann, approved=False)
    await settle(node)
    found = await stored(node)
    assert (found.state, found.alarm_id) == (TriggerState.SUSPENDED, None)
    assert len(await runs(node)) == 3


async def test_resuming_the_trigger_cancels_its_alarm(node: Node, clock: ManualClock) -> None:
    alarm = await gone_wild(node, clock)

    def resume(tx: Transaction) -> None:
        known = tx[Triggers].get("fixer", project="default")
        tx[Triggers].set_state(known.id, TriggerState.ENABLED, because=None, alarm_id=None, now=tx.now())

    await node.assent.database.write(resume)
    await settle(node)
    assert (await breakpoint_of(node, alarm.id)).status is Status.CANCELLED
    assert (await stored(node)).alarm_id is None
    assert len(await runs(node)) == 5


async def test_a_resumed_trigger_is_suspended_again_only_by_new_events(
    node: Node, clock: ManualClock, ann: Principal
) -> None:
    alarm = await gone_wild(node, clock)
    await respond(node, alarm.id, ann)
    await settle(node)
    clock.advance(1)
    ci = await node.assent.database.read(lambda tx: tx[Sources].by_name("default", "ci"))
    assert ci is not None
    await come(node, ci, *(arrived() for _ in range(3)))
    await settle(node)
    assert (await stored(node)).state is TriggerState.ENABLED
    await come(node, ci, arrived())
    await settle(node)
    assert (await stored(node)).state is TriggerState.SUSPENDED


async def test_silence_raises_one_alarm_that_the_next_event_cancels(node: Node, clock: ManualClock) -> None:
    ci = await source(node, expect_every="1h")
    await source(node, "quiet")
    await come(node, ci, arrived())
    clock.advance(3_601)
    for _ in range(2):
        await look(node)
        clock.advance(3_601)
    [[alarm]] = await rows(node, "SELECT alarm_id FROM assent_sources WHERE alarm_id IS NOT NULL")
    asked = await breakpoint_of(node, alarm)
    assert (asked.status, asked.gate) == (Status.WAITING, SILENT)
    assert asked.payload["question"] == (
        "No events from source ci for 1h; at least one was expected every 1h. Investigate?"
    )
    assert len(await rows(node, "SELECT 1 FROM assent_breakpoints")) == 1
    await come(node, ci, arrived())
    await look(node)
    assert (await breakpoint_of(node, alarm)).status is Status.CANCELLED
    assert await rows(node, "SELECT 1 FROM assent_sources WHERE alarm_id IS NOT NULL") == []
    clock.advance(3_601)
    await look(node)
    assert len(await rows(node, "SELECT 1 FROM assent_breakpoints")) == 2, "the next silence must raise a new alarm"


async def test_a_source_that_never_sent_an_event_also_raises_an_alarm(node: Node, clock: ManualClock) -> None:
    await node.assent.database.write(adding(node, "*"))
    await source(node, expect_every="10m")
    clock.advance(601)
    await look(node)
    [[alarm]] = await rows(node, "SELECT alarm_id FROM assent_sources")
    asked = await breakpoint_of(node, alarm)
    assert asked.status is Status.WAITING
    assert "since it was configured" in str(asked.payload["question"])
