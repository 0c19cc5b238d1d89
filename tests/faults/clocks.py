"""Deadlines on a machine whose clock jumps an hour ahead and back while they are pending."""

import asyncio
import itertools
import random
import time

import httpx2

from tests.support.clocks import AHEAD, BACK
from tests.support.nodes import Process

LANES = 4
TTL = 2


async def deadlines(process: Process, agent: str, *, tries: int) -> list[float]:
    """For each breakpoint, return the seconds from its creation until the waiting client was notified of its end."""
    lasted: list[float] = []

    async def lane(client: httpx2.AsyncClient) -> None:
        while len(lasted) < tries:
            await asyncio.sleep(random.random())
            body = {"agentId": "agent-1", "ttlSeconds": TTL, "payload": {"question": "Go on?"}}
            asked = time.monotonic()
            created = (await client.post("/api/breakpoints", json=body)).json()
            path = f"/api/breakpoints/{created['id']}/status?wait=30"
            while (await client.get(path)).json()["status"] == "waiting":
                pass
            lasted.append(time.monotonic() - asked)

    async def jump() -> None:
        for each in itertools.cycle((AHEAD, BACK)):
            await asyncio.sleep(random.uniform(0.2, 1.5))
            process.popen.send_signal(each)

    async with httpx2.AsyncClient(
        base_url=process.url, headers={"authorization": f"Bearer {agent}"}, timeout=60
    ) as client:
        jumping = asyncio.create_task(jump())
        await asyncio.gather(*(lane(client) for _ in range(LANES)))
        jumping.cancel()
    return lasted
