"""Lists over a million breakpoints: the first page and a deep page, by status, tag, agent and time."""

import argparse
import sqlite3
import time
from urllib.parse import quote

import httpx2
import psycopg
import sqlalchemy as sa

from assent.breakpoints.store.search_index import index_all
from assent.db.postgres import alchemy_url
from assent.db.sqlite import schema_engine
from assent.kernel.settings import Settings
from bench.load import http_load
from bench.report import Report
from tests.support.nodes import prepared, server

REPEATS, SEARCH_REPEATS = 200, 40
DAY = 86_400 * 1_000_000
SPAN = 100 * DAY
# Most breakpoints have ended. One of fifty agents created a third of them. The most frequent tag is on a third of the
# rows, and the rarest on one row in ten thousand.
COLUMNS = (
    "id, project_id, status, decision, agent_id, title, question, gate, payload, tags, seats, strategy, priority,"
    " on_timeout, digest, created_at, created_by, created_by_id, due_at, auto_approval, warnings, updated_at, ended_at,"
    " ended_by, result, version, head, comments, votes, search"
)
ROWS = """
    SELECT 'bp_' || {hex}, 'default',
        CASE WHEN n % 50 = 0 THEN 'waiting' WHEN n % 50 = 1 THEN 'cancelled'
            WHEN n % 50 < 4 THEN 'expired' ELSE 'released' END,
        CASE WHEN n % 50 >= 4 THEN 'approved' END,
        'agent-' || CASE WHEN n % 3 = 0 THEN 0 ELSE n % 50 END,
        'Deploy build ' || n,
        'Shall build ' || n || ' go to production?'
            || CASE WHEN n % 5000 = 0 THEN ' Unicorn 緊急停止' ELSE ' 本番環境' END,
        'deploy.' || (n % 200), '{{"question":"Shall build ' || n || ' go to production?"}}', '["prod"]', '[]',
        'single', 'normal', 'expire', '0', {start} + n * {step},
        'agent:bench', 'tok_bench', 4611686018427387904, '{{}}', '[]',
        {start} + n * {step},
        CASE WHEN n % 50 > 0 THEN {start} + n * {step} END,
        CASE WHEN n % 50 > 0 THEN 'person:owner' END,
        CASE WHEN n % 50 > 0 THEN '{{"approved":true,"status":"released","auto":false}}' END,
        3, '0', 0, 0, ''
    FROM {numbers}"""
LABELS = (("t:prod", "n % 3 = 0"), ("t:deploy", "n % 5 = 0"), ("t:team-7", "n % 20 = 7"), ("t:rare", "n % 10007 = 0"))
QUERIES = {
    "by status, frequent tag, frequent agent and time": "status=released&tag=prod&agentId=agent-0&createdAfter={after}",
    "by status, frequent tag, rare agent and time": "status=released&tag=prod&agentId=agent-49&createdAfter={after}",
    "by status, rare tag, frequent agent and time": "status=released&tag=rare&agentId=agent-0&createdAfter={after}",
    "by status, two tags and time": "status=released&tag=prod&tag=team-7&createdAfter={after}",
    "of pending breakpoints": "status=waiting",
    "of all breakpoints": "sort=-created",
}
SEARCHES = {
    "a rare word": "unicorn",
    "a rare prefix": "unic",
    "a frequent word": "production",
    "a frequent prefix": "prod dep",
    "a rare and a frequent word": "unicorn production",
    "a word without matches": "zebra",
    "a frequent word and a word without matches": "production zebra",
    "a rare CJK word": "緊急停止",
    "a frequent CJK word": "番環境",
    "an ID": f"bp_{500_000:026x}",
    "an ID prefix": f"bp_{500_000:026x}"[:-2],
    "a gate": "deploy.77",
    "an agent": "agent-49",
}


def million(settings: Settings, report: Report, options: argparse.Namespace) -> None:
    (reviewer,) = prepared(settings, "reviewer")
    dialect = "postgresql" if settings.database_url else "sqlite"
    start = fill(settings, options.rows)
    after = quote(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((start + 20 * DAY) // 1_000_000)))
    with server(settings) as process:

        def p95(query: str, repeats: int = REPEATS) -> float:
            request = ("GET", f"/api/breakpoints?{query}", None)
            found = http_load(process.url, reviewer, [request] * repeats, connections=1, once=True)
            assert not found.failed, query
            return found.p95 * 1000

        for what, query in QUERIES.items():
            ready = query.format(after=after)
            report.time("million", dialect, f"list {what}, first page", p95(ready), goal=50)
            cursor = _deep(process.url, reviewer, ready)
            if cursor:
                report.time("million", dialect, f"list {what}, deep page", p95(f"{ready}&cursor={cursor}"), goal=50)
        for what, q in SEARCHES.items():
            for where, status in (("all", ""), ("pending", "&status=waiting&sort=deadline")):
                label = f"search {where} breakpoints for {what}"
                report.time("million", dialect, label, p95(f"q={quote(q)}{status}", SEARCH_REPEATS), goal=50)
        for what, query in (
            ("with counts of pending breakpoints", "status=waiting&counts=true&limit=1"),
            ("with counts of all breakpoints", "counts=true&limit=1"),
        ):
            report.time("million", dialect, f"list {what}", p95(query, SEARCH_REPEATS))


def _deep(url: str, token: str, query: str) -> str | None:
    """Return the cursor after five thousand rows."""
    cursor: str | None = None
    with httpx2.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=60) as client:
        for _ in range(25):
            page = client.get(f"/api/breakpoints?{query}&limit=200" + (f"&cursor={cursor}" if cursor else "")).json()
            if "nextCursor" not in page:
                break
            cursor = page["nextCursor"]
    return cursor


def fill(settings: Settings, rows: int) -> int:
    """Insert this many breakpoints, spread over the last hundred days; return when the first of them was created."""
    started = time.perf_counter()
    start = time.time_ns() // 1000 - SPAN
    (_fill_postgres if settings.database_url else _fill_sqlite)(settings, rows, start)
    print(f"{rows:,} rows in {time.perf_counter() - started:.0f} s", flush=True)
    return start


def filled_ids(rows: int, count: int) -> list[str]:
    """Return the IDs of some of these breakpoints, spread evenly over all rows."""
    return [f"bp_{n:026x}" for n in range(1, rows + 1, max(1, rows // count))][:count]


def _fill_sqlite(settings: Settings, rows: int, start: int) -> None:
    connection = sqlite3.connect(settings.sqlite_path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -1000000")
    connection.execute("BEGIN")
    numbers = f"(WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {rows}) SELECT n FROM c)"
    values = ROWS.format(hex="printf('%026x', n)", start=start, step=SPAN // rows, numbers=numbers)
    connection.execute(f"INSERT INTO assent_breakpoints ({COLUMNS}) {values}")
    for label, condition in LABELS:
        connection.execute(
            "INSERT INTO assent_labels SELECT project_id, ?, status, created_at, id, agent_id FROM assent_breakpoints"
            f" WHERE {condition.replace('n %', 'ordinal %')}",
            (label,),
        )
    connection.execute("COMMIT")
    engine = schema_engine(settings.sqlite_path)
    with engine.begin() as words:
        index_all(words)
        words.exec_driver_sql("INSERT INTO assent_search (assent_search) VALUES ('rebuild')")
    engine.dispose()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _fill_postgres(settings: Settings, rows: int, start: int) -> None:
    assert settings.database_url is not None
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        connection.execute("SET maintenance_work_mem = '512MB'")
        numbers = f"generate_series(1, {rows}) AS s(n)"
        step = f"{SPAN // rows}::bigint"
        values = ROWS.format(hex="lpad(to_hex(n), 26, '0')", start=f"{start}::bigint", step=step, numbers=numbers)
        connection.execute(f"INSERT INTO assent_breakpoints ({COLUMNS}) {values}")
        for label, condition in LABELS:
            connection.execute(
                "INSERT INTO assent_labels SELECT project_id, %s, status, created_at, id, agent_id"
                f" FROM assent_breakpoints WHERE {condition.replace('n %', 'ordinal %%')}",
                (label,),
            )
        engine = sa.create_engine(alchemy_url(settings.database_url))
        with engine.begin() as words:
            index_all(words)
        engine.dispose()
        connection.execute("VACUUM ANALYZE assent_breakpoint_words")
        connection.execute("VACUUM ANALYZE assent_breakpoints")
        connection.execute("VACUUM ANALYZE assent_labels")
