"""Suspended runs: their cost while they are idle, and the delay between a decision and the next step."""

import argparse
import asyncio
import statistics
import time
from datetime import datetime
from typing import Any

import httpx2

from assent.kernel.settings import Settings
from bench.report import Report
from bench.waiters import resident
from tests.support.nodes import Process, prepared, server

LANES = 16
IDLE_SECONDS = 30.0
DECIDED = 100
GOAL_MB, GOAL_CORE, GOAL_STEP = 300, 0.10, 0.5
SOURCE = """
from assent import process


async def go_on():
    return "resumed"


@process
async def waiting(inputs, ctx):
    answer = await ctx.breakpoint("Continue?", title="Continue")
    return await ctx.task(go_on) if answer.approved else None
"""


def runs(settings: Settings, report: Report, options: argparse.Namespace) -> None:
    agent, reviewer = prepared(settings, "agent", "reviewer")
    settings.process_folder.mkdir(parents=True, exist_ok=True)
    (settings.process_folder / "waiting.py").write_text(SOURCE)
    dialect = "postgresql" if settings.database_url else "sqlite"
    with server(settings, creates_per_minute="0") as process:
        started = time.monotonic()
        ids = asyncio.run(_suspended(process, agent, options.runs))
        took = time.monotonic() - started
        label = f"{len(ids):,} runs started and suspended"
        report.fact("runs", dialect, label, f"{len(ids) / took:.0f}/s", "", met=True)
        used, memory = _idle(process)
        label = f"server memory with {len(ids):,} suspended runs"
        report.fact("runs", dialect, label, f"{memory:.0f} MB", f"< {GOAL_MB} MB", met=memory < GOAL_MB)
        label = "share of a CPU core used while all runs are suspended"
        report.fact("runs", dialect, label, f"{used:.1%}", f"< {GOAL_CORE:.0%}", met=used < GOAL_CORE)
        waits = sorted(asyncio.run(_decided(process, reviewer, ids[:: max(1, len(ids) // DECIDED)][:DECIDED])))
        half, worst = statistics.median(waits), waits[int(0.95 * (len(waits) - 1))]
        label = f"delay from decision to start of the next step, {len(waits)} sequential decisions"
        goal = f"p50 < {GOAL_STEP * 1000:.0f} ms"
        report.fact(
            "runs", dialect, label, f"p50 {half * 1000:.0f} ms, p95 {worst * 1000:.0f} ms", goal, met=half < GOAL_STEP
        )


def _client(process: Process, token: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=process.url, headers={"authorization": f"Bearer {token}"}, timeout=120)


async def _suspended(process: Process, agent: str, count: int) -> list[str]:
    """Start this many runs, and wait until all of them are suspended."""
    ids: list[str] = []
    left = iter(range(count))

    async def lane(client: httpx2.AsyncClient) -> None:
        for n in left:
            answer = await client.post("/api/runs", json={"process": "waiting", "inputs": {"n": n}})
            assert answer.status_code == 201, answer.text
            ids.append(answer.json()["id"])

    async with _client(process, agent) as client:
        await asyncio.gather(*(lane(client) for _ in range(LANES)))
        for state in ("queued", "running"):
            while (await client.get(f"/api/runs?state={state}&limit=1")).json()["items"]:  # noqa: ASYNC110  # the API does not announce this
                await asyncio.sleep(0.5)
    return sorted(ids)


def _idle(process: Process) -> tuple[float, float]:
    """Leave the server idle for a while; return the share of a core that it used, and its memory in MB."""
    before, since = _cpu(process.popen.pid), time.monotonic()
    time.sleep(IDLE_SECONDS)
    used = (_cpu(process.popen.pid) - before) / (time.monotonic() - since)
    return used, resident(process.popen.pid) / 1024


def _cpu(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123  # in procfs
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


async def _decided(process: Process, reviewer: str, ids: list[str]) -> list[float]:
    """Approve one run after another; return the delay between each decision and the start of the next step."""
    waits: list[float] = []
    async with _client(process, reviewer) as client:
        for run_id in ids:
            run: dict[str, Any] = (await client.get(f"/api/runs/{run_id}")).json()
            path = f"/api/breakpoints/{run['steps'][0]['breakpointId']}/feedback"
            answer = await client.post(path, json={"approved": True})
            assert answer.status_code == 200, answer.text
            while (run := (await client.get(f"/api/runs/{run_id}")).json())["state"] != "done":  # noqa: ASYNC110  # as above
                await asyncio.sleep(0.02)
            begun = datetime.fromisoformat(run["steps"][1]["startedAt"])
            waits.append((begun - datetime.fromisoformat(run["steps"][0]["endedAt"])).total_seconds())
    return waits
