"""Concurrent events are stored in one batch, and an event that fails does not affect the others."""

import asyncio
from functools import partial

import pytest

from assent.db.transaction import Transaction
from assent.triggers.event import Arrived, TriggerEvent
from assent.triggers.store.events import Kept, TriggerEvents
from assent.triggers.store.sources import Sources, StoredSource
from assent.triggers.usecases.ingest_batch import MOST, Gathering
from tests.support.nodes import Node


async def added(node: Node, name: str) -> StoredSource:
    def use_case(tx: Transaction) -> StoredSource:
        source = StoredSource(id=tx.new_id("src"), project="default", name=name, kind="webhook", settings={})
        tx[Sources].add(source)
        return source

    return await node.assent.database.write(use_case)


def _event(tx: Transaction, *, event_id: str) -> TriggerEvent:
    return tx[TriggerEvents].get(event_id, project="default")


def told(key: str, *, window: int | None = None) -> Arrived:
    return Arrived(type="shop.sold", key=key, data={"key": key}, window=window)


async def test_each_caller_receives_the_result_for_its_own_event(node: Node) -> None:
    gathering = Gathering(node.assent.database)
    one, other = await added(node, "one"), await added(node, "other")
    keys = [(source, f"k-{n % (2 * MOST)}") for n in range(3 * MOST) for source in (one, other)]
    kept = await asyncio.gather(*(gathering.keep(source, [told(key)]) for source, key in keys))
    first: dict[tuple[str, str], Kept] = {}
    for (source, key), [each] in zip(keys, kept, strict=True):
        stored = await node.assent.database.read(partial(_event, event_id=each.id))
        assert (stored.source_id, stored.arrived.key) == (source.id, key)
        assert each.duplicate == ((source.id, key) in first)
        first.setdefault((source.id, key), each)
    assert len({each.id for each in first.values()}) == 4 * MOST


async def test_an_event_that_cannot_be_stored_does_not_fail_the_others(node: Node) -> None:
    gathering = Gathering(node.assent.database)
    good = await added(node, "good")
    gone = StoredSource(id="src_never", project="default", name="gone", kind="webhook", settings={})
    waiting = [gathering.keep(gone if n == 5 else good, [told(f"k-{n}")]) for n in range(10)]
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [n for n, each in enumerate(found) if isinstance(each, BaseException)] == [5]
    stored = await node.assent.database.read(
        lambda tx: tx[TriggerEvents].page("default", {}, before=None, limit=100),
    )
    assert {each.arrived.key for each in stored} == {f"k-{n}" for n in range(10) if n != 5}


async def test_a_cancelled_caller_does_not_affect_the_others(node: Node) -> None:
    gathering = Gathering(node.assent.database)
    source = await added(node, "one")
    leaving = asyncio.create_task(gathering.keep(source, [told("k-1")]))
    staying = asyncio.create_task(gathering.keep(source, [told("k-2")]))
    await asyncio.sleep(0)
    leaving.cancel()
    [kept] = await staying
    assert not kept.duplicate
    with pytest.raises(asyncio.CancelledError):
        await leaving
