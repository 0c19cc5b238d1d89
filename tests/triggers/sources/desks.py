"""The desk that a watched source receives in tests: it stores events and memory, and signals changes."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assent.core.errors import Conflict
from assent.triggers.event import Arrived
from assent.triggers.ports import Watcher
from assent.triggers.sources.tools import SourceTools

PATIENCE = 120.0
"""Seconds after which a hanging test fails."""


def tools(base: Path = Path()) -> SourceTools:
    return SourceTools(resolve=str, now=lambda: 0, base=base)


@dataclass
class PlainDesk:
    """The events and memory of a single source, as a database would store them."""

    source_id: str = "src_1"
    kept: Any = None
    keys: set[str] = field(default_factory=set[str])
    told: asyncio.Queue[Arrived] = field(default_factory=asyncio.Queue[Arrived])
    remembered: asyncio.Queue[Any] = field(default_factory=asyncio.Queue[Any])
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    writers: dict[str, str] = field(default_factory=dict[str, str])
    stolen: int = 0
    """How many times another node will store its events first."""
    failing: Exception | None = None

    async def next(self) -> Arrived:
        """Wait for the next event, and fail if the source does not report one in time."""
        return await asyncio.wait_for(self.told.get(), PATIENCE)

    async def tell(self, arrived: Sequence[Arrived], memory: object = None) -> None:
        if self.failing is not None:
            failing, self.failing = self.failing, None
            raise failing
        if memory is not None and self.stolen:
            self.stolen -= 1
            msg = "another node was first"
            raise Conflict(msg)
        for each in arrived:
            if each.key not in self.keys:
                self.keys.add(each.key)
                self.told.put_nowait(each)
        if memory is not None:
            self.kept = memory
            self.remembered.put_nowait(memory)

    async def memory(self) -> Any:
        return self.kept

    async def written_by(self, paths: Sequence[str]) -> Mapping[str, str]:
        return {path: self.writers[path] for path in paths if path in self.writers}

    async def watching(self) -> None:
        self.begun.set()

    def now(self) -> int:
        return 1_800_000_000_000_000


@contextlib.asynccontextmanager
async def watched(watcher: Watcher, desk: PlainDesk) -> AsyncGenerator[asyncio.Task[None]]:
    """Watch until the end of the block, which is entered once the source reports that it is watching."""
    desk.begun.clear()
    task = asyncio.create_task(watcher.watch(desk))
    begun = asyncio.create_task(desk.begun.wait())
    await asyncio.wait([task, begun], return_when=asyncio.FIRST_COMPLETED)
    begun.cancel()
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
