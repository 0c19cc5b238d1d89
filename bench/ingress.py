"""Inbound webhooks: how many are accepted per second without losses, compared with plain inserts of the same row."""

import argparse
import asyncio
import json
import os
import time
from typing import Any

from assent.db.transaction import Transaction
from assent.kernel.ids import TimeOrderedIds
from assent.kernel.ports import Incoming
from assent.kernel.settings import Settings, resolve
from assent.triggers.event import TriggerEvent
from assent.triggers.sources.github import make
from assent.triggers.sources.tools import SourceTools
from assent.triggers.store import events as trigger_events
from assent.triggers.store.sources import Sources, StoredSource
from bench import raw
from bench.load import Load, http_load
from bench.report import Report
from tests.faults.load import rows
from tests.support.nodes import prepared, running_node, server
from tests.triggers.sources.signing import golden, hexed

CLIENTS = 32
SECONDS = 10.0
GOAL = 1_000
INSERTS = 6_000
SECRET = "bench"
COUNT = "SELECT count(*) FROM assent_trigger_events"
UNHANDLED = f"{COUNT} WHERE state = 'received'"


def ingress(settings: Settings, report: Report, options: argparse.Namespace) -> None:
    os.environ["BENCH_SECRET"] = SECRET
    prepared(settings)
    source = asyncio.run(_set_up(settings))
    dialect = "postgresql" if settings.database_url else "sqlite"
    body = _body()
    signature = hexed(json.dumps(body).encode(), SECRET)
    headers = {
        "X-GitHub-Event": "check_suite",
        "X-GitHub-Delivery": "bench-{n}",
        "X-Hub-Signature-256": f"sha256={signature}",
        "User-Agent": "GitHub-Hookshot/bench",
    }
    requests = [("POST", "/hooks/bench", body, headers)]
    with server(settings) as process:
        http_load(process.url, "x", [("POST", "/hooks/bench", body, {**headers, "X-GitHub-Delivery": "warm-{n}"})],
                  connections=CLIENTS, seconds=1.0)  # fmt: skip
        before = _count(settings, COUNT)
        found = http_load(process.url, "x", requests, connections=CLIENTS, seconds=max(SECONDS, options.seconds))
        handled = _handled(settings)
        stored = _count(settings, COUNT) - before
    _report(report, dialect, found, stored, handled)
    bare = _bare(settings, source, body)
    against = "plain insert, asyncpg" if dialect == "postgresql" else "plain insert, sqlite3"
    report.rate(dialect, "webhook", found.rate, bare, against=against, goal=0.3, part="ingress")


def _report(report: Report, dialect: str, found: Load, stored: int, handled: float) -> None:
    accepted = found.count - found.failed
    report.fact("ingress", dialect, "signed webhooks accepted", f"{found.rate:,.0f}/s", f"≥ {GOAL:,}/s",
                met=found.rate >= GOAL)  # fmt: skip
    report.fact("ingress", dialect, "webhooks accepted and lost", f"{accepted:,} and {accepted - stored:,}", "0 lost",
                met=accepted == stored and not found.failed)  # fmt: skip
    report.time("ingress", dialect, "webhook response, p95", found.p95 * 1000, goal=200)
    report.fact("ingress", dialect, "time until all events are matched against triggers", f"{handled:.1f} s")


async def _set_up(settings: Settings) -> StoredSource:
    async with running_node(settings) as node:

        def use_case(tx: Transaction) -> StoredSource:
            given = {"secrets": ["env:BENCH_SECRET"], "per_minute": 10_000_000}
            source = StoredSource(
                id=tx.new_id("src"), project="default", name="bench", kind="github", settings=given, updated_at=tx.now()
            )
            tx[Sources].add(source)
            return source

        return await node.assent.database.write(use_case)


def _body() -> dict[str, Any]:
    """Return a payload as large as GitHub's, which consist mostly of URLs."""
    body: dict[str, Any] = golden("github", "check_suite_completed")["body"]
    addresses = {f"part_{n}_url": f"https://api.github.example/repos/acme/shop/part-{n}{{/number}}" for n in range(120)}
    return {**body, "repository": {**body["repository"], **addresses}}


def _handled(settings: Settings) -> float:
    """Return the seconds between the last response and the matching of the last event."""
    started = time.perf_counter()
    while _count(settings, UNHANDLED):
        time.sleep(0.1)
    return time.perf_counter() - started


def _count(settings: Settings, statement: str) -> int:
    return int(rows(settings, statement)[0][0])


def _bare(settings: Settings, source: StoredSource, body: dict[str, Any]) -> float:
    make_id = TimeOrderedIds()
    now = time.time_ns() // 1000
    content = json.dumps(body).encode()
    statements: list[list[raw.Statement]] = []
    hook = make({"secrets": ["env:BENCH_SECRET"]}, SourceTools(resolve, lambda: now, settings.data_dir))
    signature = hexed(content, SECRET)
    for number in range(INSERTS):
        headers = {
            "x-github-event": "check_suite",
            "x-github-delivery": f"bare-{number}",
            "x-hub-signature-256": f"sha256={signature}",
        }
        [arrived] = hook.take(Incoming(headers, content, now), key=None)
        new_id = make_id.new("evt", now + number)
        event = TriggerEvent(
            id=new_id, project="default", source_id=source.id, source=source.name, arrived=arrived,
            correlation_id=new_id, received_at=now + number,
        )  # fmt: skip
        statements.append([(trigger_events.INSERT, trigger_events._row(event))])  # noqa: SLF001  # the row that the server inserts
    if settings.database_url:
        return asyncio.run(_bare_postgres(settings.database_url, [each[0] for each in statements]))
    return asyncio.run(raw.sqlite_group_commit(settings.sqlite_path, statements, clients=CLIENTS))


async def _bare_postgres(url: str, statements: list[raw.Statement]) -> float:
    async def work(connection: Any, number: int) -> None:
        await raw.on_asyncpg(connection, statements[number])

    return await raw.postgres_rate(url, work, clients=CLIENTS, count=len(statements))
