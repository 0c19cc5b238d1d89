"""Wrong and jumping clocks: deadlines follow only the clock that governs them."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import psycopg
import pytest

from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.db.postgres import DatabaseClock
from assent.kernel.settings import Settings
from tests.api.streams import parked
from tests.db.making import create, rows
from tests.support.clocks import AHEAD, BACK, off_by
from tests.support.nodes import ManualClock, Node, prepared, running_node

HOUR = 3600
MINUTE = 60
SECOND = 1_000_000
PATIENCE = 120
"""Seconds after which a test gives up; no shorter time is asserted."""


@pytest.fixture
async def here(sqlite_settings: Settings, clock: ManualClock) -> AsyncIterator[Node]:
    async with running_node(sqlite_settings, clock=clock) as node:
        yield node


async def waiting(node: Node, breakpoint_id: str, seconds: float = 30) -> "asyncio.Task[httpx2.Response]":
    path = f"/api/breakpoints/{breakpoint_id}/status?wait={seconds}"
    return asyncio.create_task(node.call("GET", path, await node.token("agent")))


async def test_a_clock_jump_ahead_ends_exactly_the_breakpoints_then_due(here: Node, clock: ManualClock) -> None:
    soon, later = await here.create(ttlSeconds=HOUR), await here.create(ttlSeconds=HOUR + 1)
    tasks = [await waiting(here, each["id"]) for each in (soon, later)]
    await parked(here, waiters=2)
    clock.advance(HOUR)
    async with asyncio.timeout(PATIENCE):
        assert (await tasks[0]).json()["status"] == "expired"
    assert not tasks[1].done()
    clock.advance(1)
    async with asyncio.timeout(PATIENCE):
        assert (await tasks[1]).json()["status"] == "expired"


async def test_a_clock_jump_back_neither_ends_a_wait_nor_makes_it_hang(here: Node, clock: ManualClock) -> None:
    mortal, other = await here.create(ttlSeconds=1), await here.create()
    task = await waiting(here, mortal["id"])
    await parked(here)
    clock.advance(-HOUR)
    # By the end of this wait, the time at which the deadline was originally expected has passed.
    still = await waiting(here, other["id"], 1.5)
    assert (await still).json()["status"] == "waiting"
    assert not task.done()
    clock.advance(HOUR + 1)
    async with asyncio.timeout(PATIENCE):
        assert (await task).json()["status"] == "expired"


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
async def test_a_clock_jump_does_not_change_the_length_of_a_wait(here: Node, clock: ManualClock, jump: int) -> None:
    created = await here.create(ttlSeconds=2 * HOUR)
    task = await waiting(here, created["id"], 1)
    await parked(here)
    clock.advance(jump)
    async with asyncio.timeout(PATIENCE):
        assert (await task).json()["status"] == "waiting"


@pytest.mark.parametrize("seed", range(3))
async def test_a_breakpoint_ends_when_a_jumping_clock_first_reaches_its_deadline(
    node: Node, clock: ManualClock, seed: int
) -> None:
    chance = random.Random(seed)
    due: dict[str, int] = {}
    for _ in range(30):
        ttl = chance.randint(1, 3 * HOUR)
        due[await create(node, ttlSeconds=ttl)] = clock.now() + ttl * SECOND
    expected: dict[str, int] = {}
    for _ in range(20):
        clock.advance(chance.choice([-HOUR, HOUR, -MINUTE, MINUTE, 1, 0.000001]))
        await node.assent.database.write(node.assent[BreakpointService].time_out_due)
        expected |= {each: clock.now() for each, at in due.items() if at <= clock.now() and each not in expected}
        found = await rows(node, "SELECT id, ended_at FROM assent_breakpoints WHERE status = 'expired'")
        assert {row[0]: row[1] for row in found} == expected


@pytest.mark.parametrize("off", [-HOUR, HOUR])
async def test_a_node_with_a_wrong_clock_uses_postgresqls_clock(postgres_settings: Settings, off: int) -> None:
    clock = DatabaseClock(lambda: time.time_ns() + off * 1_000_000_000)
    async with running_node(postgres_settings, clock=clock) as node:
        now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        before = (await rows(node, now))[0][0]
        here = clock.now()
        after = (await rows(node, now))[0][0]
        # Using the wrong clock would cause an error of an hour. The tolerance allows for slow database queries.
        assert before - MINUTE * SECOND < here < after + MINUTE * SECOND


class Agent:
    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def create(self, ttl: int) -> str:
        body = {"agentId": "a", "ttlSeconds": ttl, "payload": {"question": "Go?"}}
        answer = await self._client.post("/api/breakpoints", json=body)
        assert answer.status_code == 201, answer.text
        created: str = answer.json()["id"]
        return created

    async def status(self, breakpoint_id: str, *, wait: int = 0) -> str:
        answer = await self._client.get(f"/api/breakpoints/{breakpoint_id}/status?wait={wait}")
        status: str = answer.json()["status"]
        return status

    async def ended(self, breakpoint_id: str) -> None:
        while await self.status(breakpoint_id, wait=30) == "waiting":
            pass


@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize("off", [-HOUR, HOUR])
async def test_a_clock_off_by_an_hour_ends_nothing_early_or_late(settings: Settings, off: int) -> None:
    (token,) = await asyncio.to_thread(prepared, settings, "agent")
    with off_by(settings, off) as process:
        headers = {"authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(base_url=process.url, headers=headers, timeout=PATIENCE) as client:
            agent = Agent(client)
            short, long = await agent.create(1), await agent.create(HOUR // 2)
            await agent.ended(short)
            assert await agent.status(long) == "waiting"
            for jump in (AHEAD, BACK, BACK, AHEAD):
                process.popen.send_signal(jump)
                another = await agent.create(1)
                await agent.ended(another)
                assert await agent.status(long) == "waiting"
            if settings.database_url is not None:
                _on_time(settings.database_url, [short, another])


def _on_time(url: str, ids: list[str]) -> None:
    """Check by PostgreSQL's clock that these were created just now and ended at or shortly after their deadlines."""
    with psycopg.connect(url) as connection:
        found: list[tuple[Any, ...]] = connection.execute(
            "SELECT created_at, due_at, ended_at, extract(epoch FROM clock_timestamp())::bigint * 1000000"
            " FROM assent_breakpoints WHERE id = ANY(%s)",
            [ids],
        ).fetchall()
    assert len(found) == len(ids)
    for created_at, due_at, ended_at, now in found:
        assert abs(now - created_at) < PATIENCE * SECOND
        assert 0 <= ended_at - due_at < PATIENCE * SECOND
