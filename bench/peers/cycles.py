"""Measures cycles in the same way for every peer. Imports only the standard library, because environments differ.

In a cycle, an agent asks a question and stops, a person releases the breakpoint, and the agent resumes. The measured
time includes asking and the time between releasing and resuming, but not the time that the person takes to answer.
"""

import asyncio
import json
import random
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

Cycle = Callable[[float], float]
"""Perform one cycle with this pause before the release, and return its duration in seconds."""
AsyncCycle = Callable[[float], Awaitable[float]]


@dataclass(frozen=True)
class Plan:
    """The amount of work: a number of cycles to measure latency, then concurrent clients to measure throughput."""

    alone: int
    clients: int
    seconds: float
    pause: float = 0.02
    """The longest pause before a release; for a peer that polls, the polling interval is used instead."""
    at_once: int = 1
    """Concurrent cycles while latency is measured; more than 1 only for peers that mostly sleep."""
    database: str = ""
    poll: float = 0.0
    url: str = ""
    tokens: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    p50: float
    p95: float
    count: int
    rate: float
    version: str


def given() -> Plan:
    sent: dict[str, Any] = json.loads(sys.stdin.readline())
    return Plan(**sent | {"tokens": tuple(sent["tokens"])})


def tell(times: list[float], rate: float, version: str) -> None:
    ordered = sorted(times)
    found = Found(_at(ordered, 0.5), _at(ordered, 0.95), len(ordered), rate, version)
    print(f"\n{json.dumps(asdict(found))}", flush=True)


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _pauses(plan: Plan) -> Iterator[float]:
    chosen = random.Random(1)  # the same pauses for every peer
    return iter([chosen.uniform(plan.pause / 2, plan.pause) if plan.poll == 0 else chosen.uniform(0, plan.poll)
                 for _ in range(plan.alone)])  # fmt: skip


def in_threads(plan: Plan, cycle: Cycle, version: str) -> None:
    cycle(0.0)
    times: list[float] = []
    _threads(plan.at_once, _pauses(plan), lambda pause: times.append(cycle(pause)))
    done: list[float] = []
    started = time.perf_counter()
    _threads(plan.clients, _until(started + plan.seconds), lambda pause: done.append(cycle(pause)))
    tell(times, len(done) / (time.perf_counter() - started), version)


def _threads(count: int, pauses: Iterator[float], work: Callable[[float], None]) -> None:
    taking = threading.Lock()

    def taken() -> float | None:
        with taking:
            return next(pauses, None)

    def client() -> None:
        while (pause := taken()) is not None:
            work(pause)

    threads = [threading.Thread(target=client) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _until(deadline: float) -> Iterator[float]:
    while time.perf_counter() < deadline:
        yield 0.0


async def in_tasks(plan: Plan, cycle: AsyncCycle, version: str) -> None:
    await cycle(0.0)
    times: list[float] = []
    await _tasks(plan.at_once, _pauses(plan), cycle, times)
    done: list[float] = []
    started = time.perf_counter()
    await _tasks(plan.clients, _until(started + plan.seconds), cycle, done)
    tell(times, len(done) / (time.perf_counter() - started), version)


async def _tasks(count: int, pauses: Iterator[float], cycle: AsyncCycle, times: list[float]) -> None:
    async def client() -> None:
        for pause in pauses:
            times.append(await cycle(pause))  # noqa: PERF401  # all clients share the list

    await asyncio.gather(*(client() for _ in range(count)))
