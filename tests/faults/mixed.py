"""An ordinary workload at full speed that measures how many requests from agents, reviewers and readers succeed."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx2

from tests.faults.load import Load

READS = (
    "/api/breakpoints?status=waiting&limit=50",
    "/api/breakpoints?agentId=loaded&limit=50",
    "/api/breakpoints?q=go&limit=20",
    "/api/breakpoints?counts=true&limit=1",
    "/healthz",
)
OUTAGE = {"503", "500", "502", "504"}


@dataclass
class Day:
    """The number of responses by status, and of transport errors by type."""

    answers: Counter[str] = field(default_factory=Counter[str])

    @property
    def requests(self) -> int:
        return self.answers.total()

    @property
    def failed(self) -> int:
        """The number of requests without a response, or with one that reports an outage."""
        return sum(count for what, count in self.answers.items() if not what.isdigit() or what in OUTAGE)

    @property
    def availability(self) -> float:
        return 1 - self.failed / self.requests if self.requests else 0.0

    def told(self) -> str:
        met = ", ".join(f"{what}: {count}" for what, count in sorted(self.answers.items()))
        return f"{self.requests} requests, {self.failed} failed, availability {self.availability:.5%}; met {met}"


@dataclass
class Readers:
    """People who read pages, and agents that wait briefly, until they are stopped."""

    urls: Sequence[str]
    tokens: dict[str, str]
    seed: int
    day: Day = field(default_factory=Day)
    _stopped: bool = False

    async def read(self, readers: int) -> None:
        limits = httpx2.Limits(max_connections=64, max_keepalive_connections=64)
        async with httpx2.AsyncClient(timeout=30, limits=limits) as client:
            await asyncio.gather(*(self._reader(client, self.seed + n) for n in range(readers)))

    def stop(self) -> None:
        self._stopped = True

    async def _reader(self, client: httpx2.AsyncClient, seed: int) -> None:
        chance = random.Random(seed)
        headers = {"authorization": f"Bearer {self.tokens['ann']}"}
        while not self._stopped:
            url = chance.choice(self.urls)
            items = await self._get(client, url + chance.choice(READS), headers)
            for each in items[:3]:
                await self._get(client, f"{url}/api/breakpoints/{each}", headers)
                await self._get(client, f"{url}/api/breakpoints/{each}/status?wait=0.2", headers)

    async def _get(self, client: httpx2.AsyncClient, url: str, headers: dict[str, str]) -> list[str]:
        try:
            answer = await client.get(url, headers=headers)
        except httpx2.TransportError as error:
            self.day.answers[type(error).__name__] += 1
            return []
        self.day.answers[str(answer.status_code)] += 1
        found = answer.json() if answer.headers.get("content-type") == "application/json" else {}
        return [each["id"] for each in found.get("items", ())]


async def day(load: Load, readers: Readers, *, seconds: float, people: int = 4) -> Day:
    """Run agents and readers for this many seconds, and return the result."""
    load.start(people)
    reading = asyncio.create_task(readers.read(people))
    await asyncio.wait([reading], timeout=seconds)
    readers.stop()
    await reading
    await load.stop()
    return Day(readers.day.answers + load.ledger.seen)
