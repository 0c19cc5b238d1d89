"""Waiting agents learn of their answer whatever happens to nodes, connections and notifications."""

import asyncio
import contextlib
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
import psycopg
import pytest

from assent.settings import Settings
from tests.support.nodes import Process, free_port, prepared, running_node, server, start_server

WAITERS = 500
CYCLES = 24
PATIENCE = 120
"""Seconds after which a test gives up; nothing is asserted about anything shorter."""


def headers(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@dataclass
class Agents:
    """Clients that wait as an SDK would: on a lost connection or a node that is leaving, they go to the other one."""

    urls: list[str]
    agent: str
    reviewer: str
    seen: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def client(self) -> httpx2.AsyncClient:
        limits = httpx2.Limits(max_connections=2 * WAITERS, max_keepalive_connections=2 * WAITERS)
        return httpx2.AsyncClient(timeout=60, limits=limits, headers=headers(self.agent))

    async def somewhere(self, ask: Callable[[str], Awaitable[httpx2.Response]], first: int = 0) -> httpx2.Response:
        """Ask one node after the other until one of them answers."""
        for attempt in range(10_000):
            try:
                answer = await ask(self.urls[(first + attempt) % len(self.urls)])
            except httpx2.TransportError as error:
                self.seen[type(error).__name__] += 1
            else:
                self.seen[str(answer.status_code)] += 1
                if answer.status_code != 503:
                    return answer
            await asyncio.sleep(0.05)  # what a client does between two attempts
        msg = "no node ever answered"
        raise AssertionError(msg)

    async def create(self, client: httpx2.AsyncClient, number: int = 0) -> str:
        body = {"agentId": "a", "payload": {"question": "Go?"}}
        key = {"idempotency-key": f"create-{number}"}
        answer = await self.somewhere(
            lambda url: client.post(f"{url}/api/breakpoints", json=body, headers=key), first=number
        )
        assert answer.status_code == 201, answer.text
        created: str = answer.json()["id"]
        return created

    async def approve(self, client: httpx2.AsyncClient, breakpoint_id: str, first: int = 0) -> None:
        path = f"/api/breakpoints/{breakpoint_id}/feedback"
        key = headers(self.reviewer) | {"idempotency-key": f"approve-{breakpoint_id}"}
        answer = await self.somewhere(
            lambda url: client.post(url + path, json={"approved": True}, headers=key), first=first
        )
        assert answer.status_code == 200, answer.text

    async def wait(self, client: httpx2.AsyncClient, breakpoint_id: str, first: int) -> str:
        """Wait until there is a decision, however often it takes."""
        path = f"/api/breakpoints/{breakpoint_id}/status?wait=30"
        while True:
            answer = await self.somewhere(lambda url: client.get(url + path), first=first)
            if answer.status_code != 200:
                self.wrong.append(f"{answer.status_code} {answer.text}")
                return "failed"
            status = answer.json()
            if status["status"] != "waiting":
                return str(status.get("decision"))
            first += 1


async def parked(urls: list[str], count: int) -> None:
    """Return when so many waiters are parked on these nodes."""
    with anyio.fail_after(PATIENCE):
        async with httpx2.AsyncClient(timeout=PATIENCE) as client:
            # The servers' own gauge is the signal; it can only be asked.
            while sum([await waiters(client, url) for url in urls]) < count:
                pass


async def waiters(client: httpx2.AsyncClient, url: str) -> float:
    answer = await client.get(f"{url}/metrics")
    assert answer.status_code == 200, answer.text
    return sum(float(line.split()[1]) for line in answer.text.splitlines() if line.startswith("assent_waiters "))


def silence(settings: Settings, *, like: str) -> int:
    """Cut the connections whose last statement looks like this, past all of our code."""
    assert settings.database_url is not None, "needs PostgreSQL"
    with psycopg.connect(settings.database_url, autocommit=True) as admin:
        row = admin.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND query ILIKE %s",
            [like],
        ).fetchone()
    return int(row[0]) if row else 0


async def ready(settings: Settings) -> Agents:
    agent, reviewer = await asyncio.to_thread(prepared, settings, "agent", "reviewer")
    return Agents([], agent, reviewer)


@pytest.mark.timeout(PATIENCE)
async def test_a_release_on_one_node_wakes_the_waiter_on_the_other(postgres_settings: Settings) -> None:
    agents = await ready(postgres_settings)
    with server(postgres_settings) as one, server(postgres_settings) as other:
        async with agents.client() as client:
            agents.urls = [one.url]
            ids = [await agents.create(client, n) for n in range(10)]
            agents.urls = [other.url]
            waits = [asyncio.create_task(agents.wait(client, each, 0)) for each in ids]
            await parked([other.url], len(ids))
            agents.urls = [one.url]
            for each in ids:
                await agents.approve(client, each)
            assert await asyncio.gather(*waits) == ["approved"] * len(ids)


@pytest.mark.timeout(PATIENCE)
async def test_a_wait_ends_although_its_notification_is_lost(postgres_settings: Settings) -> None:
    agents = await ready(postgres_settings)
    with server(postgres_settings) as one, server(postgres_settings) as other:
        async with agents.client() as client:
            agents.urls = [one.url]
            ids = [await agents.create(client, n) for n in range(10)]
            agents.urls = [other.url]
            waits = [asyncio.create_task(agents.wait(client, each, 0)) for each in ids]
            await parked([other.url], len(ids))
            agents.urls = [one.url]
            for each in ids:
                # Whoever listens is cut off now, and needs longer to come back than the decision takes.
                silence(postgres_settings, like="%clock_timestamp%")
                silence(postgres_settings, like="LISTEN%")
                await agents.approve(client, each)
            assert await asyncio.gather(*waits) == ["approved"] * len(ids)


@pytest.mark.timeout(PATIENCE)
async def test_nodes_talk_to_each_other_again_after_their_connections_were_cut(postgres_settings: Settings) -> None:
    async with running_node(postgres_settings) as one, running_node(postgres_settings) as other:
        inbox = other.assent.hub.open_inbox("default", "a session")
        await one.create()
        with anyio.fail_after(PATIENCE):
            await inbox.ready.wait()
        assert silence(postgres_settings, like="%pg_notify%") >= 1
        silence(postgres_settings, like="%clock_timestamp%")
        silence(postgres_settings, like="LISTEN%")
        inbox.ready.clear()
        # A hint that was lost does not come again: ask for another one until one comes through.
        while not inbox.ready.is_set():
            await one.create()
            with anyio.move_on_after(1):
                await inbox.ready.wait()


@pytest.mark.timeout(PATIENCE)
async def test_a_node_serves_again_after_postgresql_cut_every_connection(postgres_settings: Settings) -> None:
    async with running_node(postgres_settings) as node:
        agent, reviewer = await node.token("agent"), await node.token("reviewer")
        created = await node.create()
        for _ in range(3):
            assert silence(postgres_settings, like="%") >= 1
            codes = list[int]()
            while codes[-2:] != [200, 200]:
                answer = await node.call("GET", f"/api/breakpoints/{created['id']}", agent)
                written = await node.feedback(created["id"], reviewer, comment="Still there?")
                codes += [answer.status_code, written.status_code]
            assert set(codes) <= {200, 503}


@pytest.mark.timeout(400)
async def test_a_rolling_restart_fails_no_wait(postgres_settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    agents = await ready(postgres_settings)
    nodes = [await asyncio.to_thread(start_server, postgres_settings) for _ in range(2)]
    agents.urls = [node.url for node in nodes]
    try:
        async with agents.client() as client:
            ids = [await agents.create(client, n) for n in range(WAITERS)]
            waits = [asyncio.create_task(agents.wait(client, each, n)) for n, each in enumerate(ids)]
            await parked(agents.urls, WAITERS)
            for n in range(len(nodes)):
                restarting = asyncio.create_task(asyncio.to_thread(restarted, nodes[n], postgres_settings))
                # Decisions go on while a node is away.
                for each in ids[n * 50 : n * 50 + 50]:
                    await agents.approve(client, each, first=n + 1)
                nodes[n] = await restarting
            for each in ids[100:]:
                await agents.approve(client, each)
            with anyio.fail_after(PATIENCE):
                decisions = await asyncio.gather(*waits)
    finally:
        for node in nodes:
            if node.popen.poll() is None:
                await asyncio.to_thread(node.stop)
    with capsys.disabled():
        met = ", ".join(f"{what}: {count}" for what, count in sorted(agents.seen.items()))
        sys.stdout.write(
            f"\nrolling restart: {WAITERS} waiters over 2 nodes, {len(agents.wrong)} failed waits; met {met}\n"
        )
    assert agents.wrong == []
    assert Counter(decisions) == {"approved": WAITERS}


def restarted(node: Process, settings: Settings) -> Process:
    """SIGTERM, and start again on the same port."""
    node.stop()
    return start_server(settings, port=int(node.url.rpartition(":")[2]))


@pytest.mark.timeout(PATIENCE)
async def test_a_stopping_server_answers_its_waiters_at_once(sqlite_settings: Settings) -> None:
    agents = await ready(sqlite_settings)
    process = await asyncio.to_thread(start_server, sqlite_settings)
    agents.urls = [process.url]
    async with agents.client() as client:
        ids = [await agents.create(client, n) for n in range(50)]
        path = f"{process.url}/api/breakpoints"
        waits = [asyncio.create_task(client.get(f"{path}/{each}/status?wait=30")) for each in ids]
        await parked(agents.urls, len(ids))
        process.popen.send_signal(signal.SIGTERM)
        answers = await asyncio.gather(*waits)
    code = await asyncio.to_thread(process.popen.wait, PATIENCE)
    assert [(answer.status_code, answer.json()["status"]) for answer in answers] == [(200, "waiting")] * len(ids)
    assert code in {0, -signal.SIGTERM}


@pytest.mark.timeout(300)
async def test_what_was_acknowledged_survives_a_killed_server(
    sqlite_settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    agents = await ready(sqlite_settings)
    acknowledged: dict[str, str] = {}
    port, lost = free_port(), []
    for cycle in range(CYCLES):
        process = await asyncio.to_thread(start_server, sqlite_settings, port=port)
        agents.urls = [process.url]
        async with agents.client() as client:
            for each, status in acknowledged.items():
                answer = await client.get(f"{process.url}/api/breakpoints/{each}")
                if answer.status_code != 200 or answer.json()["status"] != status:
                    lost.append(f"{each}: {status}, now {answer.text[:200]}")
            busy = [asyncio.create_task(_until_gone(agents, client, cycle * 1000 + n)) for n in range(4)]
            created = await agents.create(client, cycle)
            acknowledged[created] = "waiting"
            if cycle % 2:
                await agents.approve(client, created)
                acknowledged[created] = "released"
            process.kill()
            for made in await asyncio.gather(*busy):
                acknowledged |= dict.fromkeys(made, "waiting")
    with contextlib.closing(sqlite3.connect(sqlite_settings.sqlite_path)) as connection:
        sound = connection.execute("PRAGMA integrity_check").fetchall()
    with capsys.disabled():
        sys.stdout.write(f"\nkill -9: {CYCLES} cycles, {len(acknowledged)} acknowledged, {len(lost)} lost\n")
    assert lost == []
    assert sound == [("ok",)]


async def _until_gone(agents: Agents, client: httpx2.AsyncClient, number: int) -> list[str]:
    """Create one after the other until the server is killed; return what it had acknowledged."""
    made: list[str] = []
    body: dict[str, Any] = {"agentId": "busy", "payload": {"question": f"{number}"}}
    for _ in range(1000):
        try:
            answer = await client.post(f"{agents.urls[0]}/api/breakpoints", json=body)
        except httpx2.TransportError:
            break
        if answer.status_code == 201:
            made.append(answer.json()["id"])
    return made
