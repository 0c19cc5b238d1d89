"""Once and debounce keys: similar events are kept apart, and no key fires twice."""

import pytest

from assent.core.errors import Conflict
from assent.triggers.usecases.dispatch import TriggeringService
from tests.support.nodes import ManualClock, Node
from tests.triggers.usecases.triggering import (
    RITA,
    arrived,
    come,
    end,
    event,
    firings,
    process,
    runs,
    settle,
    source,
    stood,
    stored,
    trigger,
)


async def die(node: Node, clock: ManualClock) -> None:
    """Advance the clock until a firing that cannot start is dead."""
    for _ in range(6):
        clock.advance(3_600)
        await settle(node)


async def test_events_without_the_once_fields_are_not_duplicates(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, once="{{ event.repo }}@{{ event.sha }}")
    await come(node, ci, arrived(repo="a/b", title="first"), arrived(repo="a/b", title="second"))
    await settle(node)
    assert await stood(node) == [("started", None), ("started", None)]


async def test_long_once_keys_that_differ_only_at_the_end_are_distinct(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, once="{{ event.title }}{{ event.sha }}")
    await come(node, ci, arrived(title="x" * 600, sha="1"), arrived(title="x" * 600, sha="2"))
    await settle(node)
    assert await stood(node) == [("started", None), ("started", None)]


async def test_an_event_skipped_by_the_concurrency_limit_does_not_claim_its_once_key(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, once="{{ event.sha }}", concurrency={"limit": 1, "when_full": "skip"})
    await come(node, ci, arrived(sha="1"), arrived(sha="2"))
    await settle(node)
    [first] = await runs(node)
    await end(node, first.id)
    await come(node, ci, arrived(sha="2"))
    await settle(node)
    assert await stood(node) == [("started", None), ("skipped", "busy"), ("started", None)]


async def test_a_dead_firing_cannot_be_retried_after_another_has_fired_for_its_key(
    node: Node, clock: ManualClock
) -> None:
    ci = await source(node)
    await trigger(node, once="{{ event.sha }}")
    await come(node, ci, arrived(sha="1"))
    await settle(node)
    await die(node, clock)
    [dead] = await firings(node)
    assert dead.state.value == "dead"
    await process(node)
    await come(node, ci, arrived(sha="1"))
    await settle(node)
    assert len(await runs(node)) == 1
    with pytest.raises(Conflict, match="has since fired for '1'"):
        await node.assent.database.write(lambda tx: node.assent[TriggeringService].retry(tx, dead.id, by=RITA))


async def test_events_skipped_by_once_do_not_trip_the_breaker(node: Node, clock: ManualClock) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, once="{{ event.sha }}", breaker={"limit": 3, "within": "1m"})
    await come(node, ci, *(arrived(sha="1") for _ in range(5)))
    await settle(node)
    clock.advance(1)
    await come(node, ci, arrived(sha="2"))
    await settle(node)
    assert (await stored(node)).state.value == "enabled", "the trigger started only one run"
    assert len(await runs(node)) == 2


async def test_debouncing_keeps_the_depth_of_the_deepest_event(node: Node, clock: ManualClock) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node)
    await come(node, ci, arrived())
    await settle(node)
    [first] = await runs(node)
    await come(node, ci, arrived(mark=first.id))
    await settle(node)
    last = next(each.id for each in await runs(node) if each.depth == 1)
    await trigger(node, "slow", on="slow.*", debounce="5s")
    [_, newest] = await come(node, ci, arrived("slow.a", mark=last), arrived("slow.a"))
    await settle(node)
    clock.advance(6)
    await settle(node)
    [run] = [each for each in await runs(node) if each.cause and each.cause.trigger == "slow"]
    assert run.cause is not None
    assert run.cause.event_id == newest
    assert run.depth == 2, "a merged event was caused by a run"


async def test_a_trace_notes_when_once_is_ignored(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, once="{{ event.repo }}@{{ event.sha }}")
    [event_id] = await come(node, ci, arrived(repo="a/b"))
    await settle(node)
    trace = (await event(node, event_id)).trace
    assert [each["note"] for each in trace] == [
        "started; once is ignored because the event is missing a field that the key uses"
    ]


async def test_discarded_and_replaced_events_release_their_once_keys(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, once="{{ event.sha }}", concurrency={"limit": 1, "when_full": "replace"})
    await come(node, ci, *(arrived(sha=each) for each in "123"))
    await settle(node)
    assert await stood(node) == [("started", None), ("skipped", "replaced"), ("held", "room")]
    [*_, waiting] = await firings(node)
    await node.assent.database.write(lambda tx: node.assent[TriggeringService].discard(tx, waiting.id, by=RITA))
    assert [each.once_key for each in await firings(node)] == ["1", None, None]


async def test_discarding_a_firing_releases_the_once_keys_of_merged_events(node: Node, clock: ManualClock) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, once="{{ event.sha }}", debounce="5s")
    await come(node, ci, arrived(sha="1"), arrived(sha="2"))
    await settle(node)
    [_, gathered] = await firings(node)
    assert [each.once_key for each in await firings(node)] == ["1", "2"]
    await node.assent.database.write(lambda tx: node.assent[TriggeringService].discard(tx, gathered.id, by=RITA))
    assert [each.once_key for each in await firings(node)] == [None, None]
    await come(node, ci, arrived(sha="1"))
    await settle(node)
    clock.advance(6)
    await settle(node)
    assert len(await runs(node)) == 1


async def test_retrying_a_dead_firing_claims_its_key_again(node: Node, clock: ManualClock) -> None:
    ci = await source(node)
    await trigger(node, once="{{ event.sha }}")
    await come(node, ci, arrived(sha="1"))
    await settle(node)
    await die(node, clock)
    [dead] = await firings(node)
    assert (dead.state.value, dead.once_key) == ("dead", None)
    await process(node)
    await node.assent.database.write(lambda tx: node.assent[TriggeringService].retry(tx, dead.id, by=RITA))
    await come(node, ci, arrived(sha="1"))
    await settle(node)
    assert await stood(node) == [("started", None), ("skipped", "once")]


async def test_a_repeated_delivery_retries_its_dead_firing(node: Node, clock: ManualClock) -> None:
    ci = await source(node)
    await trigger(node)
    await come(node, ci, arrived(key="delivery-1"))
    await settle(node)
    await die(node, clock)
    assert await stood(node) == [("dead", None)]
    await process(node)
    await come(node, ci, arrived(key="delivery-1"))
    await settle(node)
    assert await stood(node) == [("started", None)]
    await come(node, ci, arrived(key="delivery-1"))
    await settle(node)
    assert len(await runs(node)) == 1


async def test_a_repeated_delivery_starts_no_run_if_another_event_fired_for_its_key(
    node: Node, clock: ManualClock
) -> None:
    ci = await source(node)
    await trigger(node, once="{{ event.sha }}")
    await come(node, ci, arrived(key="delivery-1", sha="1"))
    await settle(node)
    await die(node, clock)
    await process(node)
    await come(node, ci, arrived(key="delivery-2", sha="1"), arrived(key="delivery-1", sha="1"))
    await settle(node)
    assert sorted(await stood(node), key=str) == [("skipped", "once"), ("started", None)]
    assert len(await runs(node)) == 1
