"""Compares Assent on SQLite with the original service: the same load generator, in alternating rounds."""

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from assent.kernel.settings import Settings
from bench.load import Load, http_load
from bench.million import fill, filled_ids
from bench.original_service import (
    AGENT,
    HUMAN,
    SERVICE,
    THEIR_RELEASE,
    NotInstalled,
    Original,
    environment,
    install,
    node_command,
    original,
)
from bench.original_service import fill as fill_original
from bench.report import Report
from bench.throughput import BODY
from bench.waiters import metric
from tests.support.nodes import Process, prepared, server

GOAL = 10.0
SIZES = (1_000, 20_000)
ROUNDS = 3
READERS = 16
CROWD = 8
WAITING = 6
POLL_SECONDS = 3.0
"""The default polling interval of `breakpoints breakpoint wait`."""
STARTING_SECONDS = 6.0


@dataclass(frozen=True)
class Side:
    """One of the two services, as a client sees it."""

    url: str
    agent: str
    reviewer: str
    ids: list[str]
    release: dict[str, Any]
    """The request body that releases a breakpoint."""

    def load(self, token: str, requests: list[tuple[str, str, Any]], *, connections: int, seconds: float) -> Load:
        return http_load(self.url, token, requests, connections=connections, seconds=seconds)


def against_the_original(settings: Settings, report: Report, options: argparse.Namespace) -> None:
    try:
        install()
    except (NotInstalled, subprocess.SubprocessError) as error:
        report.fact("original", "sqlite", "the original service", "could not be installed", str(error))
        return
    for rows in SIZES:
        with _both(settings.data_dir / str(rows), rows) as (ours, theirs, _, running):
            _reads(report, rows, ours, theirs, options.seconds / 2)
            _creates(report, rows, ours, theirs, options.seconds / 2)
            _crowd(report, rows, ours, theirs, running)
    with _both(settings.data_dir / "waits", 0) as (ours, theirs, process, _):
        asyncio.run(_learning(report, ours, theirs, process))


@contextmanager
def _both(folder: Path, rows: int) -> Iterator[tuple[Side, Side, Process, Original]]:
    folder.mkdir()
    settings = Settings(data_dir=folder)
    agent, reviewer = prepared(settings, "agent", "reviewer")
    with ExitStack() as stack:
        if rows:
            fill(settings, rows)
        process = stack.enter_context(server(settings, creates_per_minute="0", waits_per_token="0"))
        running = stack.enter_context(original(folder))
        httpx2.get(f"{running.url}/api/breakpoints", headers={"authorization": f"Bearer {HUMAN}"})
        theirs = Side(running.url, AGENT, HUMAN, fill_original(running.database, rows) if rows else [], THEIR_RELEASE)
        ours = Side(process.url, agent, reviewer, filled_ids(rows, rows) if rows else [], {"release": True})
        yield ours, theirs, process, running


def _by_turns(ours: Side, theirs: Side, ask: Callable[[Side], Load]) -> tuple[float, float]:
    """Return the median rates of both services."""
    rates: tuple[list[float], list[float]] = ([], [])
    for turn in range(ROUNDS):
        sides = ((ours, rates[0]), (theirs, rates[1]))
        for side, found in sides if turn % 2 else reversed(sides):
            load = ask(side)
            assert not load.failed, f"{load.failed} requests failed at {side.url}"
            found.append(load.rate)
    return statistics.median(rates[0]), statistics.median(rates[1])


def _reads(report: Report, rows: int, ours: Side, theirs: Side, seconds: float) -> None:
    kinds: dict[str, Callable[[Side], list[str]]] = {
        "get": lambda side: [f"/{each}" for each in side.ids[:2_000]],
        "status": lambda side: [f"/{each}/status" for each in side.ids[:2_000]],
        "list of 50": lambda _: ["?limit=50"],
        "lists of 35 to 50": lambda _: [f"?limit={limit}" for limit in range(35, 51)],
        "list of 50 with a tag": lambda _: ["?tag=prod&limit=50"],
    }
    for what, paths in kinds.items():

        def ask(side: Side, paths: Callable[[Side], list[str]] = paths) -> Load:
            requests: list[tuple[str, str, Any]] = [("GET", f"/api/breakpoints{path}", None) for path in paths(side)]
            return side.load(side.reviewer, requests, connections=READERS, seconds=seconds)

        found = _by_turns(ours, theirs, ask)
        report.rate("sqlite", _line(what, rows, READERS), *found, against="original", goal=GOAL, part="original")


def _line(what: str, rows: int, connections: int) -> str:
    return f"{what}, {rows:,} rows, {connections} client{'s' if connections > 1 else ''}"


def _creates(report: Report, rows: int, ours: Side, theirs: Side, seconds: float) -> None:
    """Create from one agent at a time, because the original service may crash with more."""
    requests = [("POST", "/api/breakpoints", BODY)]
    found = _by_turns(ours, theirs, lambda side: side.load(side.agent, requests, connections=1, seconds=seconds))
    report.rate("sqlite", _line("create", rows, 1), *found, against="original", goal=GOAL, part="original")


def _crowd(report: Report, rows: int, ours: Side, theirs: Side, running: Original) -> None:
    requests = [("POST", "/api/breakpoints", BODY)]
    mine = ours.load(ours.agent, requests, connections=CROWD, seconds=2.0)
    other = theirs.load(theirs.agent, requests, connections=CROWD, seconds=2.0)
    assert not mine.failed
    what = _line("create", rows, CROWD)
    if running.alive and not other.failed:
        report.rate("sqlite", what, mine.rate, other.rate, against="original", goal=GOAL, part="original")
        return
    said = f"Assent {mine.rate:,.0f}/s; the original crashed after {other.count - other.failed} responses"
    report.fact("original", "sqlite", what, said, running.last_words())


async def _learning(report: Report, ours: Side, theirs: Side, process: Process) -> None:
    """Measure with each service's own client: the original polls every three seconds, and ours is notified."""

    async def starting() -> None:
        await asyncio.sleep(STARTING_SECONDS)

    async def parked() -> None:
        deadline = time.monotonic() + 60
        # Poll, because another process counts the waiters.
        while metric(process.url, "assent_waiters") < WAITING and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.1)

    wait = node_command(SERVICE / "bin" / "breakpoints.js", "breakpoint", "wait")
    theirs_env = environment() | {"BREAKPOINT_API_URL": theirs.url}
    mine_env = os.environ | {"ASSENT_URL": ours.url, "ASSENT_TOKEN": ours.agent}
    mine: list[float] = []
    looking: dict[str, list[float]] = {"every 3 s (default)": [], "every 0.1 s (configured)": []}
    for _ in range(ROUNDS):
        client = [sys.executable, "-m", "assent", "wait", "--json"]
        mine += await _learned(ours, client, (), mine_env, parked)
        for how, options in zip(looking, ((), ("--interval", "0.1")), strict=True):
            looking[how] += await _learned(theirs, wait, options, theirs_env, starting)
    for how, found in looking.items():
        goal = GOAL if "default" in how else None
        what = f"release → agent notified, p50 of {len(found)}, original polls {how}"
        middle = statistics.median(mine), statistics.median(found)
        report.sooner("original", "sqlite", what, *middle, against="original", goal=goal)


async def _learned(
    side: Side,
    command: list[str],
    options: tuple[str, ...],
    environment: dict[str, str],
    waiting: Callable[[], Any],
) -> list[float]:
    """Start several waiting clients, release each at a random moment within three seconds, and return their delays."""
    chosen = random.Random(1)
    async with httpx2.AsyncClient(base_url=side.url, trust_env=False, timeout=30) as http:
        body = {"agentId": "agent-1", "payload": {"question": "Continue?"}}
        asked = [await http.post("/api/breakpoints", json=body, headers=_bearer(side.agent)) for _ in range(WAITING)]
        ids = [answer.json().get("breakpointId") or answer.json()["id"] for answer in asked]
        clients = [
            await asyncio.create_subprocess_exec(
                *command, each, *options, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            for each in ids
        ]
        await waiting()

        async def one(breakpoint_id: str, client: asyncio.subprocess.Process, after: float) -> float:
            assert client.stdout is not None
            await asyncio.sleep(after)
            released = time.perf_counter()
            path = f"/api/breakpoints/{breakpoint_id}/feedback"
            (await http.post(path, json=side.release, headers=_bearer(side.reviewer))).raise_for_status()
            assert await asyncio.wait_for(client.stdout.read(1), 30)
            took = time.perf_counter() - released
            await client.communicate()
            return took

        moments = [chosen.uniform(0, POLL_SECONDS) for _ in ids]
        return await asyncio.gather(*map(one, ids, clients, moments))


def _bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}
