"""Back-tests over a million past breakpoints, with patterns on the gate, tags, expert and payload."""

import argparse
import sqlite3
import time
from operator import itemgetter
from typing import Any

import httpx2
import psycopg

from assent.kernel.settings import Settings
from bench.million import COLUMNS, SPAN
from bench.report import Report
from tests.support.nodes import prepared, server

GOAL = 5_000
REPEATS = 3
# Two hundred gates and three sets of tags. One breakpoint in four asks the owner, one in fifty was rejected, and some
# offer options.
ROWS = """
    SELECT 'bp_' || {hex}, 'default',
        CASE WHEN n % 50 = 0 THEN 'waiting' WHEN n % 50 = 1 THEN 'cancelled'
            WHEN n % 50 = 2 THEN 'expired' ELSE 'released' END,
        CASE WHEN n % 50 = 3 THEN 'rejected' WHEN n % 50 > 3 THEN 'approved' END,
        'agent-' || (n % 50), 'Deploy build ' || n, 'Shall build ' || n || ' go to production?',
        CASE WHEN n % 2 = 0 THEN 'deploy.' ELSE 'review.' END || (n % 200),
        '{{"question":"Shall build ' || n || ' go to production?","cost":' || (n % 1000)
            || CASE WHEN n % 97 = 0 THEN ',"options":["now","later"]' ELSE '' END
            || CASE WHEN n % 4 = 0 THEN ',"expert":"owner"' ELSE '' END || '}}',
        CASE n % 3 WHEN 0 THEN '["prod","db"]' WHEN 1 THEN '["staging"]' ELSE '["dev"]' END,
        CASE WHEN n % 4 = 0 THEN '[["owner",[],false]]' ELSE '[]' END,
        'single', 'normal', 'expire', '0', {start} + n * {step}, 'agent:bench', 'tok_bench', 4611686018427387904,
        '{{}}', '[]', {start} + n * {step},
        CASE WHEN n % 50 > 0 THEN {start} + n * {step} END,
        CASE WHEN n % 50 > 0 THEN CASE WHEN n % 50 < 10 THEN 'person:owner' ELSE 'rule:rule-1' END END,
        CASE WHEN n % 50 > 0 THEN '{{}}' END,
        3, '0', 0, 0, ''
    FROM {numbers}"""
PATTERNS = {
    "gate, tag and expert": "deploy.*(tags contains 'prod' AND expert = 'owner')",
    "gate, without a certain tag or expert": "deploy.*(NOT tags contains 'prod' AND NOT expert = 'owner')",
    "alternative gates, tags or experts": "*.1*(tags matches 'sta*' OR expert in ('owner', 'ops'))",
    "all breakpoints": "*",
    "single gate and agent": "deploy.8(agentId = 'agent-8')",
}
CONTENT = "deploy.*(payload.cost < 10 AND tags contains 'prod')"


def backtest(settings: Settings, report: Report, options: argparse.Namespace) -> None:
    (reviewer,) = prepared(settings, "reviewer")
    dialect = "postgresql" if settings.database_url else "sqlite"
    started = time.perf_counter()
    start = time.time_ns() // 1000 - SPAN
    (_fill_postgres if settings.database_url else _fill_sqlite)(settings, options.rows, start)
    print(f"{options.rows:,} rows in {time.perf_counter() - started:.0f} s", flush=True)
    headers = {"authorization": f"Bearer {reviewer}"}
    with server(settings) as process, httpx2.Client(base_url=process.url, headers=headers, timeout=300) as client:
        for what, pattern in PATTERNS.items():
            milliseconds, found = min((_asked(client, pattern) for _ in range(REPEATS)), key=itemgetter(0))
            _print(pattern, found)
            shown = f"back-test of {options.rows:,} breakpoints, best of {REPEATS}; pattern: {what}"
            report.time("backtest", dialect, shown, milliseconds, goal=GOAL)
        milliseconds, found = _asked(client, CONTENT)
        _print(CONTENT, found)
        shown = f"back-test of {options.rows:,} breakpoints; pattern: gate, tag and payload"
        report.time("backtest", dialect, shown, milliseconds)


def _asked(client: httpx2.Client, pattern: str) -> tuple[float, dict[str, Any]]:
    started = time.perf_counter()
    answer = client.post("/api/rules/backtest", json={"pattern": pattern, "days": 3650})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return (time.perf_counter() - started) * 1000, found


def _print(pattern: str, found: dict[str, Any]) -> None:
    print(pattern, {name: value for name, value in found.items() if isinstance(value, int) and value}, flush=True)


def _fill_sqlite(settings: Settings, rows: int, start: int) -> None:
    connection = sqlite3.connect(settings.sqlite_path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -1000000")
    numbers = f"(WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {rows}) SELECT n FROM c)"
    values = ROWS.format(hex="printf('%026x', n)", start=start, step=SPAN // rows, numbers=numbers)
    connection.execute(f"INSERT INTO assent_breakpoints ({COLUMNS}) {values}")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _fill_postgres(settings: Settings, rows: int, start: int) -> None:
    assert settings.database_url is not None
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        numbers = f"generate_series(1, {rows}) AS s(n)"
        step = f"{SPAN // rows}::bigint"
        values = ROWS.format(hex="lpad(to_hex(n), 26, '0')", start=f"{start}::bigint", step=step, numbers=numbers)
        connection.execute(f"INSERT INTO assent_breakpoints ({COLUMNS}) {values}")
        connection.execute("VACUUM ANALYZE assent_breakpoints")
        connection.execute("CHECKPOINT")  # otherwise the first reads would have to write out dirty pages
