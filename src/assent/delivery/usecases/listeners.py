"""Runs the channels that keep a connection open or poll, on every node that has a worker."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import structlog

from assent.core.errors import InvalidRequest
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.delivery.ports import Listening
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.usecases.channel_pool import Switchboard
from assent.delivery.usecases.replies import AnsweringService
from assent.kernel.ports import Clock, Database

LOOK_SECONDS = 3.0
NOTE_EVERY = 10 * SECOND
LONGEST_PAUSE = 60.0
STILL_ANSWERING = 3600 * SECOND
"""How long the channels of a removed project keep listening, to reply to late answers."""
_log = structlog.get_logger()


@dataclass(slots=True)
class _Listener:
    """A channel as it was when it started to listen."""

    stored: StoredChannel
    channel: Listening
    task: asyncio.Task[None]
    noted: int = 0

    def serves(self, stored: StoredChannel) -> bool:
        return stored.updated_at == self.stored.updated_at


class Listeners:
    """Starts, restarts and stops listeners as channels are added, changed and removed."""

    def __init__(
        self,
        database: Database[Transaction],
        switchboard: Switchboard,
        answering: AnsweringService,
        *,
        clock: Clock,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._database = database
        self._switchboard = switchboard
        self._answering = answering
        self._clock = clock
        self._pause = pause
        self._running: dict[str, _Listener] = {}

    async def run(self) -> None:
        try:
            while True:
                try:
                    await self.look()
                except Exception:  # noqa: BLE001  # the worker loop
                    _log.exception("listening_failed")
                await self._pause(LOOK_SECONDS)
        finally:
            await self.stop()

    async def look(self) -> None:
        """Start and stop listeners to match the channels that should listen."""
        since = self._clock.now() - STILL_ANSWERING
        found = await self._database.read(lambda tx: tx[Channels].listening(since=since))
        wanted = {each.id: each for each in found}
        for channel_id, listener in list(self._running.items()):
            if channel_id not in wanted or not listener.serves(wanted[channel_id]):
                await self._hang_up(channel_id)
        for channel_id, stored in wanted.items():
            if channel_id not in self._running:
                self._begin(stored)
        await self._note()

    async def stop(self) -> None:
        for channel_id in list(self._running):
            await self._hang_up(channel_id)

    def _begin(self, stored: StoredChannel) -> None:
        try:
            channel = self._switchboard.channel(stored)
        except InvalidRequest as error:
            # The channel's page also shows the problem; the next call of `look` tries again.
            _log.info("channel_unusable", channel=stored.id, type=stored.type, error=error.message)
            return
        if hasattr(channel, "listen"):
            listening = cast("Listening", channel)
            task = asyncio.create_task(self._keep_listening(stored, listening))
            self._running[stored.id] = _Listener(stored, listening, task)

    async def _hang_up(self, channel_id: str) -> None:
        listener = self._running.pop(channel_id)
        listener.task.cancel()
        await asyncio.gather(listener.task, return_exceptions=True)

    async def _keep_listening(self, stored: StoredChannel, channel: Listening) -> None:
        """Listen, and restart after each failure with increasing delays; stop if `channel.listen` returns."""
        take: Callable[[Any], Awaitable[Mapping[str, Any] | None]] = partial(self._answering.take, stored)
        wait = 1.0
        while True:
            began = _steady()
            try:
                await channel.listen(take)
            except Exception:  # noqa: BLE001  # the worker loop
                _log.exception("listening_failed", channel=stored.id, type=stored.type)
            else:
                return
            # A channel that listened for a long time had recovered, so start again with the shortest delay.
            wait = 1.0 if _steady() - began > LONGEST_PAUSE * SECOND else min(wait * 2, LONGEST_PAUSE)
            await self._pause(wait)

    async def _note(self) -> None:
        """Record when each channel was last known to be alive, at most once every NOTE_EVERY."""
        for listener in self._running.values():
            heard = listener.channel.heard_at()
            if heard is None or heard - listener.noted < NOTE_EVERY:
                continue
            listener.noted = heard
            # `heard` is measured with this machine's monotonic clock, so convert it to a timestamp.
            at = self._clock.now() - (_steady() - heard)
            await self._database.write(partial(_note_heard, channel_id=listener.stored.id, at=at))


def _note_heard(tx: Transaction, *, channel_id: str, at: int) -> None:
    tx[Channels].note_heard(channel_id, at)


def _steady() -> int:
    return time.monotonic_ns() // 1000
