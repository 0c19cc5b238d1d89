"""Waiting agents receive their answer despite failures of nodes, connections and notifications."""

import asyncio
import contextlib
import signal
import sqlite3
import sys
from typing import Any

import anyio
import httpx2
import psycopg
import pytest

from assent.kernel.settings import Settings
from tests.faults.waiting import PATIENCE, WAITERS, Agents, parked, ready, rolling_restart
from tests.support.nodes import free_port, running_node, server, start_server

CYCLES = 24


def silence(settings: Settings, *, like: str) -> int:
    """Terminate the connections whose last statement matches this pattern, without using Assent's code."""
    assert settings.database_url is not None, "requires PostgreSQL"
    with psycopg.connect(settings.database_url, autocommit=True) as admin:
        row = admin.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND query ILIKE %s",
            [like],
        ).fetchone()
    return int(row[0]) if row else 0


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
async def test_a_wait_ends_even_if_its_notification_is_lost(postgres_settings: Settings) -> None:
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
                # The listeners lose their connections now, and reconnecting takes longer than the decision.
                silence(postgres_settings, like="%clock_timestamp%")
                silence(postgres_settings, like="LISTEN%")
                await agents.approve(client, each)
            assert await asyncio.gather(*waits) == ["approved"] * len(ids)


@pytest.mark.timeout(PATIENCE)
async def test_nodes_notify_each_other_again_after_losing_their_connections(postgres_settings: Settings) -> None:
    async with running_node(postgres_settings) as one, running_node(postgres_settings) as other:
        inbox = other.assent.hub.open_inbox("default", "a session")
        await one.create()
        with anyio.fail_after(PATIENCE):
            await inbox.ready.wait()
        assert silence(postgres_settings, like="%pg_notify%") >= 1
        silence(postgres_settings, like="%clock_timestamp%")
        silence(postgres_settings, like="LISTEN%")
        inbox.ready.clear()
        # A lost hint is not sent again, so create more breakpoints until a hint arrives.
        while not inbox.ready.is_set():
            await one.create()
            with anyio.move_on_after(1):
                await inbox.ready.wait()


@pytest.mark.timeout(PATIENCE)
async def test_a_node_recovers_after_postgresql_closes_every_connection(postgres_settings: Settings) -> None:
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
async def test_no_wait_fails_during_a_rolling_restart(
    postgres_settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    agents = await ready(postgres_settings)
    decisions = await rolling_restart(agents, postgres_settings)
    with capsys.disabled():
        met = ", ".join(f"{what}: {count}" for what, count in sorted(agents.seen.items()))
        sys.stdout.write(
            f"\nrolling restart: {WAITERS} waiters over 2 nodes, {len(agents.wrong)} failed waits; met {met}\n"
        )
    assert agents.wrong == []
    assert decisions == {"approved": WAITERS}


@pytest.mark.timeout(PATIENCE)
async def test_a_stopping_server_responds_to_its_waiters_immediately(sqlite_settings: Settings) -> None:
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
async def test_acknowledged_requests_survive_a_killed_server(
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
    """Create breakpoints until the server is killed; return the ids that it acknowledged."""
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
