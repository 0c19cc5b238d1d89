"""Compares ten thousand rows with a million: get, status, list, create and decide in alternating rounds."""

import argparse
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from assent.installation import migrate
from assent.kernel.settings import Settings
from bench.load import http_load
from bench.million import fill, filled_ids
from bench.report import Report
from tests.support.nodes import prepared, server
from tests.support.postgres import new_database

FEW = 10_000
GOAL = 1.3
ROUNDS = 5
CLIENTS = 16
WRITES = 400
"""Breakpoints created and then decided in each round; few enough that the small database stays small."""
AGENT = "agent-of-growth"
BODY = {"agentId": AGENT, "payload": {"question": "Deploy build 4812 to production?"}, "tags": ["prod", "deploy"]}
OPERATIONS = ("get", "status", "list of 50 pending", "create", "decide")


@dataclass(frozen=True)
class Side:
    url: str
    agent: str
    reviewer: str
    ids: list[str]


def growth(settings: Settings, report: Report, options: argparse.Namespace) -> None:
    dialect = "postgresql" if settings.database_url else "sqlite"
    with _beside(settings) as small, _side(small, FEW) as few, _side(settings, options.rows) as many:
        rates: dict[str, tuple[list[float], list[float]]] = {what: ([], []) for what in OPERATIONS}
        for turn in range(ROUNDS):
            sides = ((0, few), (1, many))
            for number, side in sides if turn % 2 else reversed(sides):
                for what, rate in _round(side, options.seconds / 4):
                    rates[what][number].append(rate)
    for what, (small_rates, large_rates) in rates.items():
        middle = statistics.median(small_rates), statistics.median(large_rates)
        report.growth(dialect, what, *middle, rows=(FEW, options.rows), goal=GOAL)


@contextmanager
def _beside(settings: Settings) -> Iterator[Settings]:
    """Yield settings for a second database of the same kind."""
    folder = settings.data_dir / "few"
    folder.mkdir()
    if settings.database_url is None:
        yield Settings(data_dir=folder)
        return
    with new_database(settings.database_url) as url:
        yield Settings(data_dir=folder, database_url=url)


@contextmanager
def _side(settings: Settings, rows: int) -> Iterator[Side]:
    migrate(settings)
    agent, reviewer = prepared(settings, "agent", "reviewer")
    fill(settings, rows)
    with server(settings, creates_per_minute="0") as process:
        yield Side(process.url, agent, reviewer, filled_ids(rows, 5_000))


def _round(side: Side, seconds: float) -> Iterator[tuple[str, float]]:
    paths = [f"/api/breakpoints/{each}" for each in side.ids]
    reads = {
        "get": paths,
        "status": [f"{path}/status" for path in paths],
        "list of 50 pending": ["/api/breakpoints?status=waiting&limit=50"],
    }
    for what, asked in reads.items():
        requests = [("GET", path, None) for path in asked]
        load = http_load(side.url, side.reviewer, requests, connections=CLIENTS, seconds=seconds)
        assert not load.failed, what
        yield what, load.rate
    creating: list[tuple[str, str, Any]] = [("POST", "/api/breakpoints", BODY)] * WRITES
    yield "create", _once(side, side.agent, creating)
    deciding: list[tuple[str, str, Any]] = [
        ("POST", f"/api/breakpoints/{each}/feedback", {"release": True}) for each in _waiting(side)
    ]
    yield "decide", _once(side, side.reviewer, deciding)


def _once(side: Side, token: str, requests: list[tuple[str, str, Any]]) -> float:
    load = http_load(side.url, token, requests, connections=CLIENTS, once=True)
    assert not load.failed, f"{load.failed} of {len(requests)} failed: {requests[0]}"
    return load.rate


def _waiting(side: Side) -> list[str]:
    """Return the breakpoints created in this round; those from earlier rounds have been decided."""
    found: list[str] = []
    query = f"/api/breakpoints?status=waiting&agentId={AGENT}&limit=200"
    headers = {"authorization": f"Bearer {side.reviewer}"}
    with httpx2.Client(base_url=side.url, headers=headers, trust_env=False, timeout=60) as client:
        cursor = ""
        while len(found) < WRITES:
            page = client.get(f"{query}{cursor}").json()
            found += [item["id"] for item in page["items"]]
            cursor = f"&cursor={page.get('nextCursor')}"
            assert page["items"], f"only {len(found)} are pending"
    return found
