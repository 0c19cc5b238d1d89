"""Ten thousand agents waiting on one server process, and how soon a release reaches them."""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import uvloop

from assent.kernel.settings import Settings
from bench.load import encoded
from bench.report import Report
from tests.support.nodes import Process, prepared, server

WOKEN = 1_000
RELEASES = 500


def waiters(settings: Settings, report: Report, options: argparse.Namespace) -> None:
    agent, reviewer = prepared(settings, "agent", "reviewer")
    dialect = "postgresql" if settings.database_url else "sqlite"
    _raise_limit()
    limits = {"creates_per_minute": "0", "waits_per_token": "0"}
    with server(settings, **limits) as process:
        ids = _create(process.url, agent, WOKEN)
        job = {"url": process.url, "agent": agent, "reviewer": reviewer, "ids": ids, "releases": RELEASES}
        found = _client("wake", job)
        label = f"delay from release to agent, {WOKEN:,} waiting agents"
        report.time("waiters", dialect, f"{label}, p50", found["p50"] * 1000)
        report.time("waiters", dialect, f"{label}, p99", found["p99"] * 1000, goal=20)
        _parked(process, report, dialect, job | {"ids": ids[RELEASES:], "count": options.waiters})


def _parked(process: Process, report: Report, dialect: str, job: dict[str, Any]) -> None:
    before = resident(process.popen.pid)
    client = subprocess.Popen(
        [sys.executable, "-m", "bench.waiters", "park"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write(json.dumps(job).encode() + b"\n")
    client.stdin.flush()
    client.stdout.readline()
    parked = metric(process.url, "assent_waiters")
    each = (resident(process.popen.pid) - before) / max(parked, 1)
    met = parked >= job["count"]
    report.fact("waiters", dialect, "concurrent waiters", f"{parked:,.0f}", f"≥ {job['count']:,}", met=met)
    report.fact("waiters", dialect, "memory per waiter", f"{each:.1f} KB", "< 40 KB", met=each < 40)
    client.kill()
    client.wait()
    deadline = time.monotonic() + 20
    while (left := metric(process.url, "assent_waiters")) and time.monotonic() < deadline:
        time.sleep(0.1)
    label = "waiters remaining after their clients disconnect"
    report.fact("waiters", dialect, label, f"{left:.0f}", "0", met=left == 0)


def _create(url: str, token: str, count: int) -> list[str]:
    body = {"agentId": "agent-1", "payload": {"question": "Continue?"}}
    with httpx2.Client(base_url=url, headers={"authorization": f"Bearer {token}"}) as client:
        return [client.post("/api/breakpoints", json=body).json()["id"] for _ in range(count)]


def _client(role: str, job: dict[str, Any]) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.waiters", role]
    done = subprocess.run(command, input=json.dumps(job).encode() + b"\n", stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def resident(pid: int) -> float:
    """Return the resident memory of a process in kilobytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1])
    return 0.0


def metric(url: str, name: str) -> float:
    for line in httpx2.get(f"{url}/metrics", timeout=30).text.splitlines():
        if line.startswith(f"{name} "):
            return float(line.split()[1])
    return 0.0


def _raise_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Parked(asyncio.Protocol):
    """A connection that sends one request and records when the response arrives."""

    def __init__(self, request: bytes, answered: "asyncio.Future[float]") -> None:
        self._request = request
        self._answered = answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self._answered.done():
            self._answered.set_result(time.perf_counter() if b'"released"' in data else 0.0)


async def _open(job: dict[str, Any], ids: list[str]) -> list["asyncio.Future[float]"]:
    parts = urlsplit(job["url"])
    loop = asyncio.get_running_loop()
    answers: list[asyncio.Future[float]] = []
    for breakpoint_id in ids:
        request = encoded(parts.netloc, job["agent"], "GET", f"/api/breakpoints/{breakpoint_id}/status?wait=30", None)
        answer: asyncio.Future[float] = loop.create_future()
        answers.append(answer)
        await loop.create_connection(partial(Parked, request, answer), parts.hostname, parts.port)
    return answers


async def wake(job: dict[str, Any]) -> dict[str, float]:
    answers = await _open(job, job["ids"])
    async with httpx2.AsyncClient(
        base_url=job["url"], headers={"authorization": f"Bearer {job['reviewer']}"}
    ) as client:
        times: list[float] = []
        for breakpoint_id, answer in list(zip(job["ids"], answers, strict=True))[: job["releases"]]:
            asked = time.perf_counter()
            await client.post(f"/api/breakpoints/{breakpoint_id}/feedback", json={"release": True})
            times.append(await answer - asked)
    times.sort()
    return {"p50": times[len(times) // 2], "p99": times[int(len(times) * 0.99)]}


async def park(job: dict[str, Any]) -> None:
    ids = [job["ids"][n % len(job["ids"])] for n in range(job["count"])]
    answers = await _open(job, ids)
    # Poll, because another process counts the waiters.
    while _waiting(job["url"]) < job["count"] and not any(answer.done() for answer in answers):  # noqa: ASYNC110
        await asyncio.sleep(0.2)
    print("parked", flush=True)
    await asyncio.sleep(60)


def _waiting(url: str) -> float:
    return metric(url, "assent_waiters")


def main() -> None:
    _raise_limit()
    job = json.loads(sys.stdin.readline())
    if sys.argv[1] == "wake":
        print(json.dumps(uvloop.run(wake(job))))
    else:
        uvloop.run(park(job))


if __name__ == "__main__":
    main()
