"""A hundred thousand simultaneous deadlines, their effect on API latency, and the delay of single deadlines."""

import argparse
import asyncio
import random
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psycopg
import uvloop

from assent.kernel.settings import Settings
from bench.load import encoded
from bench.report import Report
from tests.support.nodes import prepared, server

LEAD = 15
"""Seconds between filling the database and the deadline, so that the server is running before anything is due."""
FILL_RATE = 5_000
READERS, CREATORS = 8, 4
PAUSE = 0.02
LONE, LANES = 100, 10
GOAL_SECONDS = 30
COLUMNS = (
    "id, project_id, status, agent_id, title, question, gate, payload, tags, seats, strategy, priority, on_timeout,"
    " ttl_seconds, digest, created_at, created_by, created_by_id, due_at, auto_approval, warnings, updated_at, version,"
    " head, comments, votes, search"
)
ROWS = """
    SELECT 'bp_' || {hex}, 'default', 'waiting', 'agent-' || (n % 50), 'Deploy build ' || n,
        'Shall build ' || n || ' go to production?', 'deploy.' || (n % 200),
        '{{"question":"Shall build ' || n || ' go to production?","notes":"{notes}"}}', '["prod"]', '[]', 'single',
        'normal', CASE WHEN n % 4 = 0 THEN 'reject' ELSE 'expire' END, 60, '{digest}', {due} - 60000000, 'agent:bench',
        'tok_bench', {due}, '{{}}', '[]', {due} - 60000000, 1, '{digest}', 0, 0, 'Deploy build ' || n
    FROM {numbers}"""
LABELS = (
    "INSERT INTO assent_labels SELECT project_id, 't:prod', status, created_at, id, agent_id FROM assent_breakpoints"
)
WAITING = "SELECT count(*) FROM assent_breakpoints WHERE status = 'waiting' AND due_at <= {due}"


def expiry(settings: Settings, report: Report, options: argparse.Namespace) -> None:
    (agent,) = prepared(settings, "agent")
    dialect = "postgresql" if settings.database_url else "sqlite"
    due = time.time_ns() // 1000 + (LEAD + options.due // FILL_RATE) * 1_000_000
    (_fill_postgres if settings.database_url else _fill_sqlite)(settings, options.due, due)
    with server(settings, creates_per_minute="0") as process, _counter(settings, due) as left:
        seconds, reads, creates = uvloop.run(_meanwhile(process.url, agent, due, left))
        met = seconds < GOAL_SECONDS
        what = f"time to end {options.due:,} breakpoints with the same deadline"
        report.fact("expiry", dialect, what, f"{seconds:.1f} s", f"< {GOAL_SECONDS} s", met=met)
        report.fact("expiry", dialect, "breakpoints ended", f"{options.due / seconds:,.0f}/s")
        for name, times in (("status requests", reads), ("create requests", creates)):
            for share in (0.5, 0.95, 0.99):
                shown = f"latency of {len(times):,} {name} during this time, p{share * 100:.0f}"
                report.time("expiry", dialect, shown, _at(times, share) * 1000)
        late = uvloop.run(_lone(process.url, agent))
        for what, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
            label = f"delay from deadline until the waiting agent is notified, {len(late)} single deadlines, {what}"
            report.time("expiry", dialect, label, _at(late, share) * 1000)


async def _meanwhile(url: str, agent: str, due: int, left: Callable[[], int]) -> tuple[float, list[float], list[float]]:
    """Read and create breakpoints as a few busy agents would, from the deadline until nothing is overdue."""
    reads: list[float] = []
    creates: list[float] = []
    parts = urlsplit(url)
    body = {"agentId": "agent-1", "payload": {"question": "Continue?"}}
    headers = {"authorization": f"Bearer {agent}"}
    mine = httpx2.post(f"{url}/api/breakpoints", json=body, headers=headers, timeout=60).json()["id"]
    read = encoded(parts.netloc, agent, "GET", f"/api/breakpoints/{mine}/status", None)
    create = encoded(parts.netloc, agent, "POST", "/api/breakpoints", body)
    await asyncio.sleep(due / 1_000_000 - time.time())
    started = time.perf_counter()
    tasks = [asyncio.create_task(_busy(url, read, reads)) for _ in range(READERS)]
    tasks += [asyncio.create_task(_busy(url, create, creates)) for _ in range(CREATORS)]
    # Poll the tables, because another process ends the breakpoints.
    while await asyncio.to_thread(left):
        assert not any(task.done() for task in tasks), "an agent stopped waiting"
        await asyncio.sleep(0.1)
    seconds = time.perf_counter() - started
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return seconds, reads, creates


async def _busy(url: str, request: bytes, times: list[float]) -> None:
    """Send the same request repeatedly over one connection, with short random pauses."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        while True:
            asked = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            await reader.readexactly(length)
            times.append(time.perf_counter() - asked)
            assert head.startswith(b"HTTP/1.1 20"), head
            await asyncio.sleep(random.uniform(0, 2 * PAUSE))
    finally:
        writer.close()


async def _lone(url: str, agent: str) -> list[float]:
    """Return how long after its deadline each waiter was notified; a few run concurrently, with random offsets."""
    late: list[float] = []

    async def lane(client: httpx2.AsyncClient) -> None:
        while len(late) < LONE:
            await asyncio.sleep(random.random())
            body = {"agentId": "agent-1", "ttlSeconds": 1, "payload": {"question": "Continue?"}}
            created = (await client.post("/api/breakpoints", json=body)).json()
            path = f"/api/breakpoints/{created['id']}/status?wait=30"
            while (await client.get(path)).json()["status"] == "waiting":
                pass
            late.append(time.time() - datetime.fromisoformat(created["deadline"]).timestamp())

    async with httpx2.AsyncClient(base_url=url, headers={"authorization": f"Bearer {agent}"}, timeout=60) as client:
        await asyncio.gather(*(lane(client) for _ in range(LANES)))
    return late


def _at(times: list[float], share: float) -> float:
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _values(hex_digits: str, due: str, numbers: str) -> str:
    return ROWS.format(hex=hex_digits, due=due, numbers=numbers, digest="0" * 64, notes="why " * 250)


def _fill_sqlite(settings: Settings, rows: int, due: int) -> None:
    connection = sqlite3.connect(settings.sqlite_path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    numbers = f"(WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {rows}) SELECT n FROM c)"
    values = _values("printf('%026x', n)", str(due), numbers)
    connection.execute(f"INSERT INTO assent_breakpoints ({COLUMNS}) {values}")
    connection.execute(LABELS)
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _fill_postgres(settings: Settings, rows: int, due: int) -> None:
    assert settings.database_url is not None
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        values = _values("lpad(to_hex(n), 26, '0')", f"{due}::bigint", f"generate_series(1, {rows}) AS s(n)")
        connection.execute(f"INSERT INTO assent_breakpoints ({COLUMNS}) {values}".encode())
        connection.execute(LABELS)
        connection.execute("VACUUM ANALYZE assent_breakpoints")
        connection.execute("VACUUM ANALYZE assent_labels")


@contextmanager
def _counter(settings: Settings, due: int) -> Generator[Callable[[], int], None, None]:
    """Yield a function that counts the overdue breakpoints that are still pending."""
    statement = WAITING.format(due=due)
    connection: Any
    if settings.database_url:
        connection = psycopg.connect(settings.database_url, autocommit=True)
    else:
        connection = sqlite3.connect(f"file:{settings.sqlite_path}?mode=ro", uri=True, check_same_thread=False)
    try:
        yield lambda: int(connection.execute(statement).fetchone()[0])
    finally:
        connection.close()
