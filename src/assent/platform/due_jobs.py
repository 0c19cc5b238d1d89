"""Runs named background jobs in batches when they are due, all in one loop."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from assent.core.timestamps import LAST, SECOND
from assent.db.transaction import Transaction
from assent.kernel.ports import Clock, Database

HELD = 0.02
"""Seconds until the next attempt if overdue work is locked by another transaction."""
TICK = 0.001
"""Seconds added to each wait, because the loop counts in milliseconds and may wake slightly too early."""


@dataclass(frozen=True, slots=True)
class DueJob:
    """A use case that processes one batch and returns its size; after a full batch, more work may remain."""

    name: str
    use_case: Callable[[Transaction], int]
    batch: int
    every: float = 1.0
    """Maximum seconds between checks, because clocks can jump and other nodes can add work."""
    next_due: str = ""
    """The statement that returns the next due time, for work that must not wait for the next regular check."""


class Timekeeper:
    """Runs one batch of each due job in turn, so that a long backlog of one job does not delay the others."""

    def __init__(
        self,
        database: Database[Transaction],
        clock: Clock,
        jobs: Sequence[DueJob],
        *,
        patient: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self._database = database
        self._clock = clock
        self._jobs = jobs
        self._patient = patient
        self._nudged: set[str] = set()
        self._bell = asyncio.Event()
        self.has_looked = asyncio.Event()
        """Set when every job has been checked once."""

    def nudge(self, name: str) -> None:
        """Check this job immediately, because something came due unexpectedly."""
        self._nudged.add(name)
        self._bell.set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        looks = dict.fromkeys(self._jobs, loop.time())
        while True:
            # Cleared before the names are read, so that a nudge during the batches wakes the loop again.
            self._bell.clear()
            nudged, self._nudged = self._nudged, set()
            for job, at in looks.items():
                if at <= loop.time() or job.name in nudged:
                    looks[job] = loop.time() + await self.work(job)
            self.has_looked.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(looks.values(), default=loop.time() + 1.0)):
                    await self._bell.wait()

    async def work(self, job: DueJob) -> float:
        """Run one batch; return the seconds until the next check."""
        with self._patient(job.name):
            if await self._database.write(job.use_case, locks=LAST) >= job.batch:
                return 0.0
            return min(job.every, await self._until_due(job))
        # The job failed, which `patient` has logged.
        return job.every

    async def _until_due(self, job: DueJob) -> float:
        rows = await self._database.fetch(job.next_due, {}) if job.next_due else ()
        if not rows:
            return job.every
        seconds = (rows[0][0] - self._clock.now()) / SECOND
        return seconds + TICK if seconds > 0 else HELD
