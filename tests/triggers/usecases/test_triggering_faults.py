"""Failures while handling trigger events: failing events, starts that are rolled back, and concurrent nodes."""

import asyncio

import pytest

from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import Kind, Principal
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.triggers.event import EventState
from assent.triggers.model import FiringState
from assent.triggers.store.events import TriggerEvents
from assent.triggers.store.firings import Firing, Firings
from assent.triggers.usecases.dispatch import TriggeringService
from assent.triggers.usecases.ingest import receive
from tests.db.making import rows
from tests.support.nodes import ManualClock, Node, running_node
from tests.support.until import until
from tests.triggers.usecases.triggering import (
    RITA,
    arrived,
    come,
    event,
    firings,
    process,
    runs,
    settle,
    source,
    stood,
    trigger,
)


async def policy(node: Node, text: str) -> None:
    await node.assent.database.write(
        lambda tx: tx.session.write("UPDATE assent_projects SET policy = :policy", [{"policy": text}])
    )


async def test_an_event_that_fails_is_retried_and_finally_marked_as_failed(node: Node, clock: ManualClock) -> None:
    await process(node)
    ci = await source(node)
    # Simulate an event that was received but not yet handled.
    clock.advance(-100)
    [bad] = await come(node, ci, arrived(key="same"))
    await settle(node)
    await node.assent.database.write(
        lambda tx: tx.session.write(
            "UPDATE assent_trigger_events SET view = '[1]', state = 'received', next_at = :now", [{"now": clock.now()}]
        )
    )
    await trigger(node)
    [good] = await come(node, ci, arrived())
    for pause in (1, 10, 60, 300):
        await settle(node)
        found = await event(node, bad)
        assert (found.state, found.error is not None) == (EventState.RECEIVED, True)
        clock.advance(pause)
    await settle(node)
    assert (await event(node, bad)).state is EventState.FAILED
    assert [run.cause.event_id for run in await runs(node) if run.cause] == [good]
    # A repeated delivery is handled again.
    await node.assent.database.write(lambda tx: tx.session.write("UPDATE assent_trigger_events SET view = '{}'", [{}]))
    assert await come(node, ci, arrived(key="same")) == [bad]
    await settle(node)
    assert (await event(node, bad)).state is EventState.MATCHED


async def test_replaying_a_failed_event_processes_it_again(node: Node) -> None:
    ci = await source(node)
    [bad] = await come(node, ci, arrived())
    await settle(node)
    await node.assent.database.write(lambda tx: tx[TriggerEvents].put_off(bad, "It broke.", next_at=None))
    again = await node.assent.database.write(lambda tx: node.assent[TriggeringService].replay(tx, bad, by=RITA))
    assert again.id == bad
    await settle(node)
    assert (await event(node, bad)).state is EventState.UNMATCHED


async def test_an_event_that_fails_halfway_is_rolled_back_and_does_not_affect_other_events(
    node: Node, clock: ManualClock
) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, "a-plain")
    await trigger(node, "b-held", on="ci.bad", hold=True)
    # The approval request reads the policy, after the first trigger has started its run.
    await policy(node, "[]")
    came = await come(node, ci, arrived("ci.bad"), arrived("ci.good"), arrived("ci.bad"), arrived("ci.good"))
    await settle(node)
    assert [run.cause.event_id for run in await runs(node) if run.cause] == [came[1], came[3]]
    assert [(await event(node, each)).state.value for each in came] == ["received", "matched", "received", "matched"]
    await policy(node, "{}")
    clock.advance(1)
    await settle(node)
    assert [run.cause.event_id for run in await runs(node) if run.cause] == came
    assert sorted(map(str, await stood(node, state="held"))) == ["('held', 'approval')"] * 2


async def test_a_start_that_is_rolled_back_leaves_the_firing_held(node: Node, clock: ManualClock) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, debounce="1h")
    await come(node, ci, arrived())
    await settle(node)

    def dies(tx: Transaction) -> None:
        assert tx[TriggerEvents].alone()
        clock.advance(3_600)
        try:
            assert node.assent[TriggeringService].advance_due(tx) == 1
            [firing] = tx[Firings].page("default", {}, before=None, limit=9)
            assert firing.state is FiringState.STARTED
        finally:
            clock.advance(-3_600)
        msg = "The machine lost power."
        raise RuntimeError(msg)

    with pytest.raises(RuntimeError, match="lost power"):
        await node.assent.database.write(dies)
    assert await stood(node) == [("held", "debounce")]
    assert await runs(node) == []
    clock.advance(3_600)
    await settle(node)
    assert await stood(node) == [("started", None)]
    assert len(await runs(node)) == 1


async def test_a_firing_discarded_while_it_is_processed_starts_no_run(node: Node, clock: ManualClock) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, debounce="1s")
    await come(node, ci, *(arrived() for _ in range(10)))
    await settle(node)
    [firing] = await firings(node, state="held")
    clock.advance(1)

    async def discard() -> str:
        try:
            await node.assent.database.write(lambda tx: node.assent[TriggeringService].discard(tx, firing.id, by=RITA))
        except Exception as error:  # noqa: BLE001  # the loser of the race gets an error
            return type(error).__name__
        return "discarded"

    said, _ = await asyncio.gather(discard(), settle(node))
    [found] = [each for each in await firings(node) if each.id == firing.id]
    started = len(await runs(node))
    assert (said, found.state.value, started) in {("discarded", "skipped", 0), ("Conflict", "started", 1)}


async def test_two_nodes_start_each_run_once(postgres_settings: Settings) -> None:
    async with running_node(postgres_settings) as one, running_node(postgres_settings) as two:
        await process(one)
        await process(two)
        ci = await source(one)
        await trigger(one, "each")
        await trigger(one, "once", once="{{ event.sha }}")

        async def tell(node: Node, n: int) -> None:
            # Send each event to both nodes, as a provider does when it repeats a delivery.
            told = arrived(key=f"delivery-{n}", sha=f"sha-{n % 2}")
            await node.assent.database.write(lambda tx: receive(tx, ci, [told]))

        await asyncio.gather(*(tell(node, n) for n in range(20) for node in (one, two)))
        await until(lambda: _unhandled(one), lambda left: left == 0)
        found = await firings(one)
        states = [(each.trigger_name, each.state.value) for each in found]
        assert states.count(("each", "started")) == 20
        assert states.count(("once", "started")) == 2
        assert states.count(("once", "skipped")) == 18
        assert len(await runs(one)) == 22


async def _unhandled(node: Node) -> int:
    [[left]] = await rows(node, "SELECT count(*) FROM assent_trigger_events WHERE state = 'received'")
    [[kept]] = await rows(node, "SELECT count(*) FROM assent_trigger_events")
    return int(left) if kept == 20 else -1


async def test_only_one_of_twenty_concurrent_transactions_claims_a_once_key(node: Node) -> None:
    ci = await source(node)
    made = await trigger(node, enabled=False)
    [event_id] = await come(node, ci, arrived())
    await settle(node)

    def claim(tx: Transaction) -> bool:
        now = tx.now()
        return tx[Firings].add(
            Firing(
                id=tx.new_id("fir"),
                project="default",
                event_id=event_id,
                trigger_id=made.id,
                trigger_name=made.name,
                trigger_version=1,
                state=FiringState.SKIPPED,
                once_key="the same",
                first_at=now,
                created_at=now,
                updated_at=now,
            )
        )

    won = await asyncio.gather(*(node.assent.database.write(claim) for _ in range(20)))
    assert won.count(True) == 1


async def test_a_trigger_cannot_answer_its_own_approval_request(node: Node) -> None:
    await process(node)
    ci = await source(node)
    made = await trigger(node, hold=True)
    await come(node, ci, arrived())
    await settle(node)
    [firing] = await firings(node)
    by = Principal(kind=Kind.TRIGGER, id=made.id, name=made.name, project="default")
    with pytest.raises(Exception, match="lacks the “"):
        await node.assent.database.read(
            lambda tx: node.assent[BreakpointService].standing(tx, str(firing.breakpoint_id), by=by)
        )
