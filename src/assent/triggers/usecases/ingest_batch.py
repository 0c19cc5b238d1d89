"""Batches incoming events: events that arrive during one commit are stored together in the next."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from assent.core.errors import AssentError
from assent.db.transaction import Transaction
from assent.kernel.ports import Database
from assent.triggers.event import Arrived
from assent.triggers.store.events import Kept
from assent.triggers.store.sources import StoredSource
from assent.triggers.usecases.ingest import receive_all

MOST = 64
"""Maximum number of requests per transaction."""


@dataclass(slots=True)
class _Waiting:
    """The events of one request, and the future for their result."""

    told: list[tuple[StoredSource, Arrived]]
    kept: "asyncio.Future[list[Kept]]"

    def settle(self, kept: list[Kept]) -> None:
        if not self.kept.done():
            self.kept.set_result(kept)

    def fail(self, error: Exception) -> None:
        if not self.kept.done():
            self.kept.set_exception(error)


class Gathering:
    def __init__(self, database: Database[Transaction]) -> None:
        self._database = database
        self._waiting: list[_Waiting] = []
        self._writing: asyncio.Task[None] | None = None

    async def keep(self, source: StoredSource, arrived: Sequence[Arrived]) -> list[Kept]:
        """Store a source's events, and return after the commit."""
        kept: asyncio.Future[list[Kept]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting([(source, each) for each in arrived], kept))
        if self._writing is None:
            # Use a separate task, so that a caller that disconnects does not cancel other callers' writes.
            self._writing = asyncio.create_task(self._write())
        return await kept

    async def _write(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                await self._together(taken)
        finally:
            self._writing = None

    async def _together(self, taken: Sequence[_Waiting]) -> None:
        told = [each for waiting in taken for each in waiting.told]
        try:
            kept = iter(await self._database.write(partial(receive_all, told=told)))
        except AssentError as error:
            for waiting in taken:
                waiting.fail(error)
        except Exception as error:  # noqa: BLE001  # every request gets the error
            await self._one_by_one(taken, error)
        else:
            for waiting in taken:
                waiting.settle([next(kept) for _ in waiting.told])

    async def _one_by_one(self, taken: Sequence[_Waiting], error: Exception) -> None:
        """Store each request separately, in case one of them caused the failure. Events already stored count as
        duplicates.
        """
        if len(taken) == 1:
            taken[0].fail(error)
            return
        for waiting in taken:
            await self._together([waiting])
