"""Schedules on a real database: each scheduled time fires exactly once, even with several nodes and repeated checks."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from assent.core.timestamps import from_iso
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.platform.due_jobs import DueJob
from assent.triggers.event import TriggerEvent, Trust
from assent.triggers.store.events import TriggerEvents
from assent.triggers.store.sources import SELECT_NEXT_DUE, Sources, StoredSource
from assent.triggers.usecases.scheduler import TICK_BATCH, first_tick, instants, tick_due
from tests.support.nodes import ManualClock, Node, running_node
from tests.support.until import until

NEW_YORK = "America/New_York"


async def schedule(node: Node, cron: str, name: str = "nightly", **settings: Any) -> StoredSource:
    given = {"cron": cron} | settings

    def use_case(tx: Transaction) -> StoredSource:
        new_id, now = tx.new_id("src"), tx.now()
        next_at = first_tick(given, now, new_id)
        made = StoredSource(id=new_id, project="default", name=name, kind="schedule", settings=given, next_at=next_at)
        tx[Sources].add(made)
        return made

    return await node.assent.database.write(use_case)


async def look(node: Node) -> None:
    await node.assent.database.write(tick_due)


async def events(node: Node) -> list[TriggerEvent]:
    """Return the ticks with their data, ordered by scheduled time."""

    def use_case(tx: Transaction) -> list[TriggerEvent]:
        listed = tx[TriggerEvents].page("default", {"type": "schedule.tick"}, before=None, limit=1_000)
        found = [tx[TriggerEvents].get(each.id, project="default") for each in listed]
        return sorted(found, key=lambda each: (each.source, each.arrived.occurred_at))

    return await node.assent.database.read(use_case)


def told(found: Iterable[TriggerEvent]) -> list[str]:
    bodies: list[Any] = [each.arrived.data for each in found]
    return [each["scheduledFor"][:16] for each in bodies]


def at(clock: ManualClock, moment: str) -> None:
    clock.at = from_iso(moment)


async def test_a_tick_contains_its_scheduled_time(node: Node, clock: ManualClock) -> None:
    at(clock, "2027-06-01T02:29:50Z")
    source = await schedule(node, "30 2 * * *")
    await look(node)
    assert await events(node) == []
    at(clock, "2027-06-01T02:30:07Z")
    await look(node)
    await look(node)
    (event,) = await events(node)
    arrived = event.arrived
    assert (arrived.type, arrived.subject, arrived.verified) == ("schedule.tick", "nightly", "local")
    assert arrived.key == f"schedule:{source.id}:2027-06-01T02:30:00.000000Z"
    assert arrived.data == {"scheduledFor": "2027-06-01T02:30:00.000000Z", "late": 7}
    assert (arrived.trust, arrived.occurred_at) == (Trust.TRUSTED, from_iso("2027-06-01T02:30:00Z"))
    stored = await node.assent.database.read(lambda tx: tx[Sources].get(source.id))
    assert stored.next_at == from_iso("2027-06-02T02:30:00Z")
    assert stored.heard_at == clock.at


async def test_a_time_in_a_skipped_local_hour_fires_once(node: Node, clock: ManualClock) -> None:
    at(clock, "2027-03-13T12:00:00Z")
    await schedule(node, "30 2 * * *", "spring", timezone=NEW_YORK)
    for moment in ("2027-03-14T06:30:00Z", "2027-03-14T07:00:00Z", "2027-03-14T07:30:00Z", "2027-03-15T06:30:00Z"):
        at(clock, moment)
        await look(node)
    assert told(await events(node)) == ["2027-03-14T07:00", "2027-03-15T06:30"]


async def test_a_daily_schedule_fires_once_in_a_repeated_local_hour(node: Node, clock: ManualClock) -> None:
    at(clock, "2027-11-07T03:59:00Z")
    await schedule(node, "30 1 * * *", "once", timezone=NEW_YORK)
    await schedule(node, "@hourly", "hourly", timezone=NEW_YORK)
    start = from_iso("2027-11-07T04:00:00Z")
    for minutes in range(0, 25 * 60, 30):
        clock.at = start + minutes * 60_000_000
        await look(node)
    found = await events(node)
    assert told(each for each in found if each.source == "once") == ["2027-11-07T05:30"]
    assert len([each for each in found if each.source == "hourly"]) == 25


async def test_a_node_fires_schedules_automatically(node: Node, clock: ManualClock) -> None:
    at(clock, "2027-06-01T02:29:50Z")
    await schedule(node, "30 2 * * *")
    at(clock, "2027-06-01T02:30:00Z")
    node.assent.timekeeper.nudge("schedules")
    assert told(await until(lambda: events(node), bool)) == ["2027-06-01T02:30"]


async def test_times_missed_during_downtime_are_caught_up_as_configured(node: Node, clock: ManualClock) -> None:
    at(clock, "2027-06-01T00:00:00Z")
    for missed in ("skip", "last", "all"):
        await schedule(node, "0 */6 * * *", missed, missed=missed)
    at(clock, "2027-06-02T13:00:00Z")
    await look(node)
    found = await events(node)
    assert told(each for each in found if each.source == "skip") == []
    assert told(each for each in found if each.source == "last") == ["2027-06-02T12:00"]
    assert told(each for each in found if each.source == "all") == [
        "2027-06-01T06:00", "2027-06-01T12:00", "2027-06-01T18:00",
        "2027-06-02T00:00", "2027-06-02T06:00", "2027-06-02T12:00",
    ]  # fmt: skip
    at(clock, "2027-06-02T18:00:01Z")
    await look(node)
    assert len(await events(node)) == 7 + 3


async def test_enabling_a_schedule_does_not_catch_up_missed_times(node: Node, clock: ManualClock) -> None:
    at(clock, "2027-06-01T00:00:00Z")
    source = await schedule(node, "0 * * * *", missed="all")

    async def switch(*, enabled: bool) -> None:
        def use_case(tx: Transaction) -> None:
            current, now = tx[Sources].get(source.id), tx.now()
            next_at = first_tick(current.settings, now, current.id) if enabled else None
            tx[Sources].save(replace(current, enabled=enabled, next_at=next_at), now=now)

        await node.assent.database.write(use_case)

    await switch(enabled=False)
    at(clock, "2027-06-03T10:30:00Z")
    await look(node)
    await switch(enabled=True)
    await look(node)
    assert await events(node) == []
    at(clock, "2027-06-03T11:00:00Z")
    await look(node)
    assert told(await events(node)) == ["2027-06-03T11:00"]


async def test_an_invalid_schedule_is_reported_and_does_not_block_others(node: Node, clock: ManualClock) -> None:
    at(clock, "2027-06-01T00:00:00Z")
    good = await schedule(node, "0 * * * *", "good")
    bad = await schedule(node, "0 * * * *", "bad")
    settings = {"cron": "0 * * * *", "timezone": "Mars/Olympus"}
    await node.assent.database.write(
        lambda tx: tx[Sources].save(replace(tx[Sources].get(bad.id), settings=settings), now=tx.now())
    )
    at(clock, "2027-06-01T01:00:00Z")
    await look(node)
    assert {each.source_id for each in await events(node)} == {good.id}
    stored = await node.assent.database.read(lambda tx: tx[Sources].get(bad.id))
    assert stored.problem == "/settings/timezone: must be a time zone, for example Europe/Paris or UTC"
    assert stored.next_at == from_iso("2027-06-01T01:01:00Z")


async def test_a_disabled_schedule_does_not_wake_the_scheduler(node: Node, clock: ManualClock) -> None:
    source = await schedule(node, "* * * * *")
    await node.assent.database.write(
        lambda tx: tx[Sources].save(replace(tx[Sources].get(source.id), enabled=False), now=tx.now())
    )
    clock.advance(3600)
    job = DueJob("schedules", tick_due, batch=TICK_BATCH, next_due=SELECT_NEXT_DUE)
    assert await node.assent.timekeeper.work(job) == job.every
    assert await events(node) == []


async def test_two_nodes_fire_each_scheduled_time_once(settings: Settings, clock: ManualClock) -> None:
    async with running_node(settings, clock=clock) as one, running_node(settings, clock=clock) as other:
        at(clock, "2027-06-01T00:00:00Z")
        for n in range(10):
            await schedule(one, "*/5 * * * *", f"s{n}", jitter="30s", missed="all")
        for _ in range(5):
            clock.advance(300)
            await asyncio.gather(*(look(node) for node in (one, other) * 4))
        clock.advance(60)
        await look(one)
        found = await events(one)
    assert len(found) == len({each.arrived.key for each in found}) == 50
    assert [each.duplicates for each in found] == [0] * 50


async def test_a_tick_already_stored_by_another_node_is_counted_as_a_duplicate(node: Node, clock: ManualClock) -> None:
    at(clock, "2027-06-01T00:59:00Z")
    source = await schedule(node, "0 * * * *")
    at(clock, "2027-06-01T01:00:00Z")
    await look(node)
    # Simulate sources that were restored from an hour-old backup.
    await node.assent.database.write(lambda tx: tx[Sources].ticked(tx[Sources].get(source.id), next_at=clock.at))
    await look(node)
    (event,) = await events(node)
    assert event.duplicates == 1


def test_the_upcoming_times_of_a_schedule_follow_its_time_zone() -> None:
    found = instants({"cron": "0 9 * * 1-5", "timezone": "Europe/Paris"}, from_iso("2027-03-26T09:00:00Z"), 2)
    assert found == [from_iso("2027-03-29T07:00:00Z"), from_iso("2027-03-30T07:00:00Z")]
