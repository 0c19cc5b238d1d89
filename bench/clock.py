"""Lone deadlines on a machine whose clock is set an hour ahead and back again while they run."""

import argparse
import asyncio
import itertools
import random
import time

import httpx2

from assent.settings import Settings
from bench.report import Report
from tests.support.clocks import AHEAD, BACK, off_by
from tests.support.nodes import Process, prepared

TRIES = 60
LANES = 4
TTL = 2


def clock(settings: Settings, report: Report, _: argparse.Namespace) -> None:
    (agent,) = prepared(settings, "agent")
    dialect = "postgresql" if settings.database_url else "sqlite"
    with off_by(settings, -3600) as process:
        off = [each - TTL for each in asyncio.run(_deadlines(process, agent))]
    for what, seconds in (("earliest", min(off)), ("latest", max(off))):
        label = f"{what} of {len(off)} deadlines, the clock set by an hour again and again"
        report.fact("clock", dialect, label, f"{seconds * 1000:+.0f} ms", "within 1 s", met=abs(seconds) < 1)


async def _deadlines(process: Process, agent: str) -> list[float]:
    """Return how long each lasted, from when it was asked for until its waiter had heard of its end."""
    lasted: list[float] = []

    async def lane(client: httpx2.AsyncClient) -> None:
        while len(lasted) < TRIES:
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
