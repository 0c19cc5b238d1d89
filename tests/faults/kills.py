"""kill -9 in a loop under load: of the server, of nodes over one PostgreSQL, and of PostgreSQL itself."""

import asyncio
import base64
import contextlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from assent.settings import Settings
from tests.faults.load import PATH, PEOPLE, Ledger, Load, all_of, due, judge, misdelivered, rows, stored
from tests.support.cluster import Cluster
from tests.support.nodes import Process, free_port, launch, launch_worker, ready, running_node
from tests.support.receiver import Receiver, receiving

AGENTS = 6
PATIENCE = 400.0
"""Seconds after which we no longer wait for effects; nothing is asserted about anything shorter."""
SUITE_KEY = base64.b64encode(b"k" * 32).decode()
ENVIRONMENT = {"outbound_allow": "127.0.0.0/8", "SUITE_KEY": SUITE_KEY}


Kill: TypeAlias = Callable[["Campaign", list[Process]], Awaitable[None]]

OVERDUE = "SELECT 1 FROM assent_breakpoints WHERE status = 'waiting' AND ttl_seconds > 0"


@dataclass
class Report:
    """What was killed, what came of it, and everything that must not."""

    what: str
    cycles: int = 0
    asked: int = 0
    acknowledged: int = 0
    decided: int = 0
    unacknowledged: int = 0
    effects: int = 0
    repeats: int = 0
    wrong: list[str] = field(default_factory=list[str])
    seen: Counter[str] = field(default_factory=Counter[str])

    def add(self, other: "Report") -> None:
        for name in ("cycles", "asked", "acknowledged", "decided", "unacknowledged", "effects", "repeats"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.wrong += other.wrong
        self.seen.update(other.seen)

    def told(self) -> str:
        met = ", ".join(f"{what}: {count}" for what, count in sorted(self.seen.items()))
        trials = max(1, self.acknowledged + self.decided + self.effects)
        return (
            f"kill -9 of {self.what}: {self.cycles} kills under load; {self.asked} asked, {self.acknowledged} creates"
            f" and {self.decided} decisions acknowledged, {self.unacknowledged} without an answer;"
            f" {self.effects} effects, {self.repeats} of them told again; {len(self.wrong)} wrong"
            f" (0 bounds the rate at {3 / trials:.1e} per promise, {3 / max(1, self.cycles):.1e} per kill, 95 %);"
            f" met {met}"
        )


def secured(settings: Settings) -> dict[str, Any]:
    """What a process needs besides its data: nodes that share no disk need a key for their secrets."""
    return ENVIRONMENT | ({"secret_keys": "env:SUITE_KEY"} if settings.database_url else {})


async def tokens_of(settings: Settings) -> dict[str, str]:
    async with running_node(settings) as node:
        people = {name: await node.person(name, "reviewer") for name in PEOPLE}
        return {"agent": await node.token("agent")} | people


@dataclass
class Campaign:
    """A set of processes under load, of which one is killed again and again."""

    settings: Settings
    what: str
    cycles: int
    seed: int
    log: Path | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Campaigns take turns with their kills; their waiting for effects goes on side by side."""
    until: float = math.inf
    """The moment after which nobody is killed any more."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.report = Report(self.what)

    def launch(self, port: int) -> Process:
        return launch(self.settings, port=port, log=self.log, **secured(self.settings))

    def worker(self) -> Process:
        return launch_worker(self.settings, log=self.log, **secured(self.settings))

    async def run(self, kill: Kill, *, nodes: int) -> Report:
        """Load, kill, start again, and in the end compare what was told with what is there."""
        tokens = await tokens_of(self.settings)
        processes: list[Process] = []
        try:
            with receiving() as receiver:
                async with self.turn:
                    processes += [self.launch(free_port()) for _ in range(nodes)]
                    load = Load([each.url for each in processes], tokens, receiver.url(PATH), seed=self.seed)
                    await self._loaded(load, kill, processes)
                await self._settled(receiver)
                self._judge(load.ledger, receiver)
        finally:
            for process in processes:
                end(process)
        self.report.wrong += await asyncio.to_thread(checked, self.settings, load.ledger)
        return self.report

    async def _loaded(self, load: Load, kill: Kill, processes: list[Process]) -> None:
        try:
            await self.all_ready(processes)
            load.start(AGENTS)
            while self.report.cycles < self.cycles and time.monotonic() < self.until:
                await kill(self, processes)
                self.report.cycles += 1
            await self.all_ready(processes)
        finally:
            await load.stop()

    async def all_ready(self, processes: Sequence[Process]) -> None:
        for process in processes:
            if process.url and not await asyncio.to_thread(ready, process.url, process.popen):
                said = self.log.read_text()[-4000:] if self.log else "no log kept"
                msg = f"A node did not get ready (exit code {process.popen.poll()}): {said}"
                raise AssertionError(msg)

    async def _settled(self, receiver: Receiver) -> None:
        """Wait for every deadline that is past and every effect that is queued."""
        left = PATIENCE
        while left > 0 and rows(self.settings, OVERDUE):
            await asyncio.sleep(0.5)  # the sweep tells nobody
            left -= 0.5
        wanted = due(stored(self.settings))
        await asyncio.to_thread(receiver.wait, all_of(wanted), seconds=left)

    def _judge(self, ledger: Ledger, receiver: Receiver) -> None:
        found = stored(self.settings)
        report = self.report
        report.asked = len(ledger.asks)
        report.acknowledged = len(ledger.acknowledged)
        report.decided = sum(ask.ended is not None for ask in ledger.asks)
        report.unacknowledged = report.asked - report.acknowledged
        report.effects, report.repeats = len(due(found)), receiver.repeats()
        report.seen = ledger.seen
        report.wrong += [*judge(ledger, found), *misdelivered(receiver, found)]


def end(process: Process) -> None:
    if process.popen.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.stop()
            return
        process.kill()


async def one_server(campaign: Campaign, processes: list[Process]) -> None:
    """Kill the only server: mostly while it works, sometimes while it is still getting up."""
    [victim] = processes
    if campaign.chance.random() < 0.8:
        await campaign.all_ready([victim])
        await asyncio.sleep(campaign.chance.uniform(0.1, 1.5))
    else:
        await asyncio.sleep(campaign.chance.uniform(0, 2))
    victim.popen.send_signal(signal.SIGKILL)
    await asyncio.to_thread(victim.popen.wait, 30)
    processes[0] = campaign.launch(int(victim.url.rpartition(":")[2]))


async def any_node(campaign: Campaign, processes: list[Process]) -> None:
    """Kill one of the nodes, or a worker without HTTP; the others go on."""
    if len(processes) < 3:
        processes.append(campaign.worker())
    n = campaign.chance.randrange(len(processes))
    victim = processes[n]
    await campaign.all_ready(processes)
    await asyncio.sleep(campaign.chance.uniform(0.1, 1.0))
    victim.popen.send_signal(signal.SIGKILL)
    await asyncio.to_thread(victim.popen.wait, 30)
    processes[n] = campaign.launch(int(victim.url.rpartition(":")[2])) if victim.url else campaign.worker()


def postgresql_itself(server: Cluster) -> Kill:
    async def kill(campaign: Campaign, processes: list[Process]) -> None:
        """Kill PostgreSQL under its nodes, which stay up and find it again."""
        await campaign.all_ready(processes)
        await asyncio.sleep(campaign.chance.uniform(0.2, 1.5))
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)

    return kill


def checked(settings: Settings, ledger: Ledger) -> list[str]:
    """What Assent's own checks say, and SQLite's of its file."""
    expected = settings.data_dir / "expected.jsonl"
    expected.write_text("".join(json.dumps(line) + "\n" for line in ledger.expected()))
    found = [*said(settings, "fsck", "--expect", str(expected)), *said(settings, "audit", "verify")]
    if not settings.database_url:
        found += [row[0] for row in rows(settings, "PRAGMA integrity_check") if row[0] != "ok"]
    return found


def said(settings: Settings, *command: str) -> list[str]:
    """Run a check of the command line; return what it complains about."""
    environment = os.environ | {"ASSENT_DATA_DIR": str(settings.data_dir), "SUITE_KEY": SUITE_KEY}
    if settings.database_url:
        environment |= {"ASSENT_DATABASE_URL": settings.database_url, "ASSENT_SECRET_KEYS": "env:SUITE_KEY"}
    line = [sys.executable, "-m", "assent", *command]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else [f"assent {' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"]
