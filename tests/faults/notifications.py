"""Nodes on a PostgreSQL server that drops every notification; all waits must still end."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
import psycopg

from assent.kernel.settings import Settings
from tests.faults.kills import secured, tokens_of
from tests.support.nodes import Process, server

# The search path of the database makes this function shadow the built-in one. A sequence counts the dropped
# notifications, because it is not affected by rollbacks.
DEAF = """
    CREATE SCHEMA deaf;
    CREATE SEQUENCE deaf.dropped;
    GRANT USAGE ON SCHEMA deaf TO PUBLIC;
    GRANT USAGE ON SEQUENCE deaf.dropped TO PUBLIC;
    CREATE FUNCTION deaf.pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT nextval(''deaf.dropped'')';
    DO $$BEGIN EXECUTE format(
        'ALTER DATABASE %I SET search_path = public, deaf, pg_catalog', current_database()); END$$
"""


def drop_notifications(settings: Settings) -> None:
    """Make pg_notify in this database do nothing, for all new connections."""
    assert settings.database_url is not None, "requires PostgreSQL"
    with psycopg.connect(settings.database_url, autocommit=True) as admin:
        admin.execute(DEAF)


@contextlib.contextmanager
def listening(settings: Settings, report: "Report") -> Iterator[None]:
    """Listen as a node does; at the end, record how many notifications were dropped and how many arrived anyway."""
    assert settings.database_url is not None, "requires PostgreSQL"
    with psycopg.connect(settings.database_url, autocommit=True) as ear:
        ear.execute("LISTEN assent")
        yield
        report.heard += len(list(ear.notifies(timeout=0.1)))
        row = ear.execute("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM deaf.dropped").fetchone()
        report.dropped += int(row[0]) if row else 0


@dataclass
class Report:
    waits: int = 0
    ended: Counter[str] = field(default_factory=Counter[str])
    dropped: int = 0
    heard: int = 0
    wrong: list[str] = field(default_factory=list[str])

    def told(self) -> str:
        ends = ", ".join(f"{how}: {count}" for how, count in sorted(self.ended.items()))
        return (
            f"notifications: {self.dropped} dropped, {self.heard} heard; {self.waits} waits over two nodes, ended"
            f" {ends}; {len(self.wrong)} wrong (0 bounds the rate at {3 / max(1, self.waits):.1e} per wait, 95 %)"
        )


@dataclass
class Pair:
    """Two nodes that cannot notify each other."""

    nodes: Sequence[Process]
    tokens: dict[str, str]
    client: httpx2.AsyncClient
    chance: random.Random

    def headers(self, who: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.tokens[who]}"}

    async def create(self, node: int) -> str:
        body = {"agentId": "deaf", "payload": {"question": "Go?"}}
        url = f"{self.nodes[node].url}/api/breakpoints"
        answer = await self.client.post(url, json=body, headers=self.headers("agent"))
        assert answer.status_code == 201, answer.text
        created: str = answer.json()["id"]
        return created

    async def decide(self, breakpoint_id: str, node: int, *, approved: bool) -> None:
        url = f"{self.nodes[node].url}/api/breakpoints/{breakpoint_id}/feedback"
        answer = await self.client.post(url, json={"approved": approved}, headers=self.headers("ann"))
        assert answer.status_code == 200, answer.text

    async def long_poll(self, breakpoint_id: str, node: int) -> str | None:
        """Wait 30 seconds at a time until there is a decision."""
        url = f"{self.nodes[node].url}/api/breakpoints/{breakpoint_id}/status?wait=30"
        while True:
            told: dict[str, Any] = (await self.client.get(url, headers=self.headers("agent"))).json()
            if told["status"] != "waiting":
                return told.get("decision")

    async def stream(self, breakpoint_id: str, node: int) -> str | None:
        """Read the stream until the server ends it, and return the decision in its last event."""
        url, last = f"{self.nodes[node].url}/api/breakpoints/{breakpoint_id}/stream", ""
        async with self.client.stream("GET", url, headers=self.headers("agent")) as events:
            async for line in events.aiter_lines():
                last = line if line.startswith("data:") else last
        return next((decision for decision in ("approved", "rejected") if f'"{decision}"' in last), None)


@contextlib.asynccontextmanager
async def deaf_pair(settings: Settings, report: Report, *, seed: int) -> AsyncIterator[Pair]:
    tokens = await tokens_of(settings)
    await asyncio.to_thread(drop_notifications, settings)
    options = secured(settings)
    with server(settings, **options) as one, server(settings, **options) as other, listening(settings, report):
        limits = httpx2.Limits(max_connections=1000, max_keepalive_connections=1000)
        async with httpx2.AsyncClient(timeout=90, limits=limits) as client:
            yield Pair([one, other], tokens, client, random.Random(seed))


async def waits(pair: Pair, report: Report, count: int) -> None:
    """Wait on one node and decide on the other, this many times concurrently."""

    async def one(number: int) -> None:
        here, approved = number % 2, pair.chance.random() < 0.5
        how = "by long-poll" if number % 4 < 2 else "by stream"
        breakpoint_id = await pair.create(here)
        wait = pair.long_poll if how == "by long-poll" else pair.stream
        waiting = asyncio.create_task(wait(breakpoint_id, here))
        # Some decisions are made before the wait begins, but most are made long afterwards.
        await asyncio.sleep(pair.chance.uniform(0, 3))
        await pair.decide(breakpoint_id, 1 - here, approved=approved)
        decision = await waiting
        report.ended[how] += 1
        if decision != ("approved" if approved else "rejected"):
            report.wrong.append(f"{breakpoint_id}: waited {how} and was told {decision}")

    report.waits += count
    await asyncio.gather(*map(one, range(count)))
