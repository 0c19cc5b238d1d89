"""Listening channels: started, restarted after changes and failures, and stopped cleanly."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.errors import InvalidRequest
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.delivery.channels.tools import Tools
from assent.delivery.ports import Channel
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.usecases.channel_pool import Switchboard
from assent.delivery.usecases.links import LinkService
from assent.delivery.usecases.listeners import LOOK_SECONDS, Listeners
from assent.delivery.usecases.replies import AnsweringService
from assent.kernel.outbound import Outbound
from assent.kernel.ports import Incoming
from assent.people.store.projects import Project, Projects
from tests.delivery.usecases.test_channel_answers import Parrot, add_channel
from tests.support.nodes import ManualClock, Node


@dataclass
class Radio(Parrot):
    """A channel that listens until the test makes it fail or stop, and logs what it does."""

    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    log: asyncio.Queue[str] = field(default_factory=asyncio.Queue[str])
    orders: asyncio.Queue[Exception | bytes | None] = field(default_factory=asyncio.Queue[Exception | bytes | None])
    alive_at: int | None = None

    async def listen(self, take: Callable[[Incoming], Awaitable[Mapping[str, Any] | None]]) -> None:
        self.log.put_nowait("on")
        try:
            while (order := await self.orders.get()) is not None:
                if isinstance(order, Exception):
                    raise order
                await take(Incoming({}, order, 0))
                self.log.put_nowait("taken")
        finally:
            self.log.put_nowait("off")

    def heard_at(self) -> int | None:
        return self.alive_at


class Shop(Switchboard):
    """Creates a radio for each channel, and a new one when its settings change; type `mute` cannot listen."""

    def __init__(self) -> None:
        super().__init__(Tools(Outbound(), str, lambda: 0, bytes, ""))
        self.radios: list[Radio] = []
        self._of: dict[str, Radio] = {}

    def channel(self, stored: StoredChannel) -> Channel:
        if stored.type == "mute":
            return object()  # type: ignore[return-value]
        if stored.settings.get("odd"):
            raise InvalidRequest.at("/settings/odd", "is odd")
        made = self._of.get(stored.id)
        if made is None or made.settings != stored.settings:
            made = self._of[stored.id] = Radio(settings=stored.settings)
            self.radios.append(made)
        return made  # type: ignore[return-value]


class Pauses:
    """A pause that lasts until the test ends it."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[float] = asyncio.Queue()
        self._go = asyncio.Semaphore(0)

    async def __call__(self, seconds: float) -> None:
        self.asked.put_nowait(seconds)
        await self._go.acquire()

    def over(self) -> None:
        self._go.release()


@dataclass
class Room:
    node: Node
    shop: Shop
    pauses: Pauses
    listeners: Listeners

    async def change(self, channel: StoredChannel, **changes: Any) -> StoredChannel:
        def save(current: StoredChannel) -> StoredChannel:
            return replace(current, **changes)

        return await self.node.assent.database.write(
            lambda tx: tx[Channels].save(save(tx[Channels].get(channel.id)), now=tx.now())
        )


@pytest.fixture
async def room(node: Node, clock: ManualClock) -> AsyncIterator[Room]:
    shop, pauses = Shop(), Pauses()
    answering = AnsweringService(
        node.assent.database,
        node.assent[BreakpointService],
        shop,
        clock=clock,
        base_url="",
        links=node.assent[LinkService],
    )
    listeners = Listeners(node.assent.database, shop, answering, clock=clock, pause=pauses)
    yield Room(node, shop, pauses, listeners)
    await listeners.stop()


async def test_only_enabled_channels_listen_and_their_messages_are_accepted(room: Room) -> None:
    await add_channel(room.node, "radio", "radio")
    await add_channel(room.node, "mute", "mute")
    await add_channel(room.node, "off", "radio", enabled=False)
    await room.listeners.look()
    (radio,) = room.shop.radios
    assert await radio.log.get() == "on"
    radio.orders.put_nowait(b"squawk")
    assert await radio.log.get() == "taken"
    assert [told.done for told in radio.told] == [True]


async def test_another_check_does_not_restart_running_listeners(room: Room) -> None:
    channel = await add_channel(room.node, "radio", "radio")
    await room.listeners.look()
    (radio,) = room.shop.radios
    assert await radio.log.get() == "on"
    await room.node.assent.database.write(lambda tx: tx[Channels].note_ok(channel.id, tx.now()))
    await room.node.assent.database.write(lambda tx: tx[Channels].note_heard(channel.id, tx.now()))
    await room.listeners.look()
    assert radio.log.empty()
    assert len(room.shop.radios) == 1


async def test_changing_the_settings_restarts_the_listener(room: Room) -> None:
    channel = await add_channel(room.node, "radio", "radio")
    await room.listeners.look()
    await room.change(channel, settings={"tune": 2})
    await room.listeners.look()
    first, second = room.shop.radios
    assert [await first.log.get(), await first.log.get()] == ["on", "off"]
    assert await second.log.get() == "on"


@pytest.mark.parametrize("end", ["disable", "remove"])
async def test_a_disabled_or_removed_channel_stops_listening(room: Room, end: str) -> None:
    channel = await add_channel(room.node, "radio", "radio")
    await room.listeners.look()
    (radio,) = room.shop.radios
    assert await radio.log.get() == "on"
    if end == "disable":
        await room.change(channel, enabled=False)
    else:
        await room.node.assent.database.write(lambda tx: tx[Channels].remove(channel.id, now=tx.now()))
    await room.listeners.look()
    assert radio.log.get_nowait() == "off"


async def test_channels_of_a_removed_project_stop_listening_after_an_hour(room: Room, clock: ManualClock) -> None:
    def open_shop(tx: Transaction) -> None:
        tx[Projects].add(Project("shop", "Shop", None, {}, tx.now()))

    await room.node.assent.database.write(open_shop)
    await add_channel(room.node, "radio", "radio", project="shop")
    await room.node.assent.database.write(lambda tx: tx[Projects].remove("shop", now=tx.now()))
    await room.listeners.look()
    (radio,) = room.shop.radios
    assert await radio.log.get() == "on"
    clock.advance(3600)
    await room.listeners.look()
    assert radio.log.get_nowait() == "off"


async def test_a_channel_starts_listening_once_its_settings_are_fixed(room: Room) -> None:
    channel = await add_channel(room.node, "radio", "radio", settings={"odd": True})
    await room.listeners.look()
    assert room.shop.radios == []
    await room.change(channel, settings={})
    await room.listeners.look()
    assert await room.shop.radios[0].log.get() == "on"


async def test_a_failing_listener_is_restarted_with_growing_delays(room: Room) -> None:
    await add_channel(room.node, "radio", "radio")
    await room.listeners.look()
    (radio,) = room.shop.radios
    waits: list[float] = []
    with capture_logs() as logs:
        for _ in range(8):
            radio.orders.put_nowait(RuntimeError("static"))
            assert [await radio.log.get(), await radio.log.get()] == ["on", "off"]
            waits.append(await room.pauses.asked.get())
            room.pauses.over()
        assert await radio.log.get() == "on"
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]
    assert {each["event"] for each in logs} == {"listening_failed"}


async def test_a_listener_that_returns_is_not_restarted(room: Room) -> None:
    await add_channel(room.node, "radio", "radio")
    await room.listeners.look()
    (radio,) = room.shop.radios
    radio.orders.put_nowait(None)
    assert [await radio.log.get(), await radio.log.get()] == ["on", "off"]
    await room.listeners.look()
    assert radio.log.empty()
    assert room.pauses.asked.empty()


async def test_a_listener_is_restarted_after_a_forged_message(room: Room) -> None:
    await add_channel(room.node, "radio", "radio")
    await room.listeners.look()
    (radio,) = room.shop.radios
    radio.orders.put_nowait(b"forged")
    assert [await radio.log.get(), await radio.log.get()] == ["on", "off"]
    await room.pauses.asked.get()
    room.pauses.over()
    assert await radio.log.get() == "on"


async def test_the_last_contact_is_stored_at_most_every_10_seconds(room: Room, clock: ManualClock) -> None:
    channel = await add_channel(room.node, "radio", "radio")
    await room.listeners.look()
    (radio,) = room.shop.radios

    async def noted() -> int | None:
        return (await room.node.assent.database.read(lambda tx: tx[Channels].get(channel.id))).heard_at

    assert await noted() is None
    radio.alive_at = time.monotonic_ns() // 1000
    await room.listeners.look()
    first = await noted()
    assert first is not None
    assert first <= clock.now()
    radio.alive_at += 9 * SECOND
    await room.listeners.look()
    assert await noted() == first
    clock.advance(60)
    radio.alive_at += SECOND
    await room.listeners.look()
    second = await noted()
    assert second is not None
    assert second > first


async def test_the_listener_loop_checks_periodically_and_stops_cleanly(room: Room) -> None:
    running = asyncio.create_task(room.listeners.run())
    assert await room.pauses.asked.get() == LOOK_SECONDS
    await add_channel(room.node, "radio", "radio")
    room.pauses.over()
    assert await room.pauses.asked.get() == LOOK_SECONDS
    (radio,) = room.shop.radios
    assert await radio.log.get() == "on"
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert radio.log.get_nowait() == "off"
