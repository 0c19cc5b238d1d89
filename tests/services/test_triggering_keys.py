"""Once and debounce keys: similar events are not confused, and no key fires twice."""

import pytest

from assent.domain.errors import Conflict
from tests.services.triggering import (
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
from tests.support.nodes import ManualClock, Node


async def die(node: Node, clock: ManualClock) -> None:
    """Let time pass until a firing that cannot start is dead."""
    for _ in range(6):
        clock.advance(3_600)
        await settle(node)


async def test_events_without_what_once_names_are_not_taken_for_the_same(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, once="{{ event.repo }}@{{ event.sha }}")
    await come(node, ci, arrived(repo="a/b", title="first"), arrived(repo="a/b", title="second"))
    await settle(node)
    assert await stood(node) == [("started", None), ("started", None)]


async def test_long_once_keys_that_differ_at_their_end_are_two(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, once="{{ event.title }}{{ event.sha }}")
    await come(node, ci, arrived(title="x" * 600, sha="1"), arrived(title="x" * 600, sha="2"))
    await settle(node)
    assert await stood(node) == [("started", None), ("started", None)]


async def test_what_was_skipped_because_others_ran_has_not_fired(node: Node) -> None:
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


async def test_a_dead_firing_is_not_tried_again_after_another_has_fired_for_its_key(
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
        await node.assent.database.write(lambda tx: node.assent.triggering.retry(tx, dead.id, by=RITA))


async def test_skips_by_once_do_not_count_as_firings_that_break(node: Node, clock: ManualClock) -> None:
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


async def test_gathering_does_not_forget_how_deep_an_event_was(node: Node, clock: ManualClock) -> None:
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


async def test_a_trace_says_where_once_does_not_count(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, once="{{ event.repo }}@{{ event.sha }}")
    [event_id] = await come(node, ci, arrived(repo="a/b"))
    await settle(node)
    trace = (await event(node, event_id)).trace
    assert [each["note"] for each in trace] == [
        "started; once is ignored because the event does not have every field that the key uses"
    ]


async def test_what_is_discarded_or_replaced_has_not_fired(node: Node) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, once="{{ event.sha }}", concurrency={"limit": 1, "when_full": "replace"})
    await come(node, ci, *(arrived(sha=each) for each in "123"))
    await settle(node)
    assert await stood(node) == [("started", None), ("skipped", "replaced"), ("held", "room")]
    [*_, waiting] = await firings(node)
    await node.assent.database.write(lambda tx: node.assent.triggering.discard(tx, waiting.id, by=RITA))
    assert [each.once_key for each in await firings(node)] == ["1", None, None]


async def test_what_was_gathered_into_one_that_came_to_nothing_has_not_fired_either(
    node: Node, clock: ManualClock
) -> None:
    await process(node)
    ci = await source(node)
    await trigger(node, once="{{ event.sha }}", debounce="5s")
    await come(node, ci, arrived(sha="1"), arrived(sha="2"))
    await settle(node)
    [_, gathered] = await firings(node)
    assert [each.once_key for each in await firings(node)] == ["1", "2"]
    await node.assent.database.write(lambda tx: node.assent.triggering.discard(tx, gathered.id, by=RITA))
    assert [each.once_key for each in await firings(node)] == [None, None]
    await come(node, ci, arrived(sha="1"))
    await settle(node)
    clock.advance(6)
    await settle(node)
    assert len(await runs(node)) == 1


async def test_a_dead_firing_that_is_tried_again_takes_its_key_up_again(node: Node, clock: ManualClock) -> None:
    ci = await source(node)
    await trigger(node, once="{{ event.sha }}")
    await come(node, ci, arrived(sha="1"))
    await settle(node)
    await die(node, clock)
    [dead] = await firings(node)
    assert (dead.state.value, dead.once_key) == ("dead", None)
    await process(node)
    await node.assent.database.write(lambda tx: node.assent.triggering.retry(tx, dead.id, by=RITA))
    await come(node, ci, arrived(sha="1"))
    await settle(node)
    assert await stood(node) == [("started", None), ("skipped", "once")]


async def test_an_event_that_is_sent_again_has_its_dead_firing_tried_again(node: Node, clock: ManualClock) -> None:
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


async def test_an_event_that_is_sent_again_starts_nothing_where_another_has_fired_for_its_key(
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
