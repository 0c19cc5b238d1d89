"""Get, status, create, decide and list over HTTP, compared with the same statements on the raw driver."""

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx2

from assent.db.sqlite import connect
from assent.kernel.ids import TimeOrderedIds
from assent.kernel.settings import Settings
from bench import raw
from bench.load import http_load
from bench.report import Report
from tests.support.nodes import free_port, prepared, server

CLIENTS = 32
SEEDED = 2_000
WRITES = 6_000
LIST = "/api/breakpoints?status=waiting&limit=50"
BODY = {
    "agentId": "agent-1",
    "title": "Deploy to production",
    "payload": {"question": "Deploy build 4812 to production?"},
    "tags": ["prod", "deploy"],
    "ttlSeconds": 3600,
}


def throughput(settings: Settings, report: Report, options: argparse.Namespace) -> None:
    agent, reviewer = prepared(settings, "agent", "reviewer")
    dialect = "postgresql" if settings.database_url else "sqlite"
    limits = {"creates_per_minute": "0"}
    with server(settings, **limits) as process:
        url = process.url

        def load(token: str, requests: list[tuple[str, str, Any]], *, once: bool = False) -> float:
            found = http_load(url, token, requests, connections=CLIENTS, seconds=options.seconds, once=once)
            assert not found.failed, f"{found.failed} requests failed: {requests[0]}"
            return found.rate

        creating = [("POST", "/api/breakpoints", BODY)]
        load(agent, creating * SEEDED, once=True)
        created = load(agent, creating * WRITES, once=True)
        ids = listed_ids(url, reviewer, SEEDED)
        gets = [("GET", f"/api/breakpoints/{each}", None) for each in ids]
        statuses = [("GET", f"/api/breakpoints/{each}/status", None) for each in ids]
        got = load(reviewer, gets)
        polled = load(reviewer, statuses)
        alike = load(reviewer, [("GET", LIST, None)])
        # Number the requests, because the server combines concurrent identical requests.
        listed = load(reviewer, [("GET", LIST + "&createdAfter=2001-01-01T00:00:00.{n}Z", None)])
        decide = [
            ("POST", f"/api/breakpoints/{each}/feedback", {"release": True})
            for each in listed_ids(url, reviewer, WRITES)
        ]
        decided = load(reviewer, decide, once=True)
        body = httpx2.get(f"{url}/api/breakpoints/{ids[0]}", headers={"authorization": f"Bearer {reviewer}"}).text
    theirs = _raw(settings, ids, dialect)
    for what, ours, goal in (
        ("get", got, 0.7),
        ("status", polled, 0.7),
        ("list of 50", listed, 0.4),
        ("list of 50, identical requests", alike, None),
        ("create", created, 0.4),
        ("decide", decided, 0.4),
    ):
        against = "asyncpg" if dialect == "postgresql" else "sqlite3"
        report.rate(dialect, what, ours, theirs[what.partition(",")[0]], against=against, goal=goal)
    for what, ours in (("get", got), ("create", created)):
        if f"bare {what}" in theirs:
            measured = f"{ours:,.0f}/s vs. {theirs[f'bare {what}']:,.0f}/s"
            report.fact("throughput", dialect, f"{what}, compared with a bare driver loop", measured)
    with _bare(body) as bare_url:
        bare = http_load(bare_url, "x", [("GET", "/x", None)], connections=CLIENTS, seconds=options.seconds).rate
    report.rate(dialect, "get", got, bare, against="bare Starlette", goal=0.3)
    report.rate(dialect, "status", polled, bare, against="bare Starlette", goal=0.3)


def listed_ids(url: str, token: str, count: int) -> list[str]:
    found: list[str] = []
    cursor = ""
    with httpx2.Client(base_url=url, headers={"authorization": f"Bearer {token}"}) as client:
        while len(found) < count:
            page = client.get(f"/api/breakpoints?status=waiting&limit=200{cursor}").json()
            found += [item["id"] for item in page["items"]]
            if "nextCursor" not in page:
                break
            cursor = f"&cursor={page['nextCursor']}"
    return found[:count]


def _raw(settings: Settings, ids: list[str], dialect: str) -> dict[str, float]:
    make = TimeOrderedIds()
    now = time.time_ns() // 1000
    new = [make.new("bp", now + n) for n in range(2 * WRITES)]
    person = owner(settings)
    creates = [raw.create_statements(each, now + n, dialect) for n, each in enumerate(new)]
    decides = [raw.decide_statements(each, person, now + n, dialect) for n, each in enumerate(new[:WRITES])]
    gets = [(raw.GET, {"id": each}) for each in ids]
    statuses = [(raw.STATUS, {"id": each}) for each in ids]
    listing = raw.page((), None, 50, dialect)
    if settings.database_url:
        return asyncio.run(_raw_postgres(settings.database_url, gets, statuses, listing, creates, decides))
    path = settings.sqlite_path
    found = {
        "get": asyncio.run(raw.sqlite_reads(path, gets, clients=CLIENTS, count=20_000)),
        "status": asyncio.run(raw.sqlite_reads(path, statuses, clients=CLIENTS, count=20_000)),
        "list of 50": asyncio.run(raw.sqlite_reads(path, [listing], clients=CLIENTS, count=4_000)),
        "bare get": raw.sqlite_bare_reads(path, gets, clients=CLIENTS, count=40_000),
    }
    found["create"] = asyncio.run(raw.sqlite_group_commit(path, creates[:WRITES], clients=CLIENTS))
    found["bare create"] = raw.sqlite_bare_writes(path, creates[WRITES:], group=CLIENTS)
    found["decide"] = asyncio.run(raw.sqlite_group_commit(path, decides, clients=CLIENTS))
    return found


async def _raw_postgres(
    url: str,
    gets: list[raw.Statement],
    statuses: list[raw.Statement],
    listing: raw.Statement,
    creates: list[list[raw.Statement]],
    decides: list[list[raw.Statement]],
) -> dict[str, float]:
    async def read(statements: list[raw.Statement], count: int) -> float:
        async def work(connection: Any, number: int) -> None:
            await raw.on_asyncpg(connection, statements[number % len(statements)])

        return await raw.postgres_rate(url, work, clients=CLIENTS, count=count)

    async def write(pieces: list[list[raw.Statement]]) -> float:
        async def work(connection: Any, number: int) -> None:
            async with connection.transaction():
                for statement in pieces[number]:
                    await raw.on_asyncpg(connection, statement)

        return await raw.postgres_rate(url, work, clients=CLIENTS, count=len(pieces))

    found = {
        "get": await read(gets, 20_000),
        "status": await read(statuses, 20_000),
        "list of 50": await read([listing], 5_000),
    }
    await write(creates[:WRITES])
    found["create"] = await write(creates[WRITES:])
    found["decide"] = await write(decides)
    return found


def owner(settings: Settings) -> str:
    statement = "SELECT id FROM assent_people LIMIT 1"
    if settings.database_url:
        import psycopg  # noqa: PLC0415  # not needed on SQLite

        with psycopg.connect(settings.database_url) as connection:
            row = connection.execute(statement).fetchone()
    else:
        row = connect(settings.sqlite_path).execute(statement).fetchone()
    assert row is not None
    return str(row[0])


@contextlib.contextmanager
def _bare(body: str) -> Iterator[str]:
    port = free_port()
    environment = os.environ | {"BARE_BODY": body, "BARE_PORT": str(port)}
    process = subprocess.Popen([sys.executable, "-m", "bench.bare"], env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(200):
            with contextlib.suppress(httpx2.TransportError):
                httpx2.get(url)
                break
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait()
