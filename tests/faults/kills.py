"""Kills the server, nodes that share a PostgreSQL, and PostgreSQL itself, in a loop and under load."""

import asyncio
import base64
import contextlib
import json
import math
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from assent.kernel.settings import Settings
from assent.platform.worker import BEAT_SECONDS
from tests.faults.load import PATH, PEOPLE, Ledger, Load, all_of, due, judge, kept, misdelivered, rows, stored
from tests.support.cluster import Cluster
from tests.support.nodes import (
    Process,
    Starter,
    environment_of,
    free_port,
    interpreter,
    launch,
    launch_worker,
    ready,
    running_node,
)
from tests.support.receiver import Receiver, receiving
from tests.support.zygote import Zygote

AGENTS = 6
GLANCE = 50
"""Number of kills between checks that everything acknowledged is stored."""
PATIENCE = 900.0
"""Seconds to wait for effects before giving up; no shorter time is asserted."""
SUITE_KEY = base64.b64encode(b"k" * 32).decode()
ENVIRONMENT = {"outbound_allow": "127.0.0.0/8", "SUITE_KEY": SUITE_KEY}


Kill: TypeAlias = Callable[["Campaign", list[Process]], Awaitable[str]]
"""Kills a process, restarts it, and returns what it was doing."""

OVERDUE = "SELECT 1 FROM assent_breakpoints WHERE status = 'waiting' AND ttl_seconds > 0"


@dataclass
class Report:
    """The kills, their results, and all violations."""

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
    moments: Counter[str] = field(default_factory=Counter[str])
    """How many processes were killed at each kind of moment."""

    def add(self, other: "Report") -> None:
        for name in ("cycles", "asked", "acknowledged", "decided", "unacknowledged", "effects", "repeats"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.wrong += other.wrong
        self.seen.update(other.seen)
        self.moments.update(other.moments)

    def told(self) -> str:
        met, moments = (
            ", ".join(f"{what}: {count}" for what, count in sorted(counts.items()))
            for counts in (self.seen, self.moments)
        )
        trials = max(1, self.acknowledged + self.decided + self.effects)
        return (
            f"kill -9 of {self.what}: {self.cycles} kills ({moments}); {self.asked} asked, {self.acknowledged} creates"
            f" and {self.decided} decisions acknowledged, {self.unacknowledged} without an answer;"
            f" {self.effects} effects, {self.repeats} of them told again; {len(self.wrong)} wrong"
            f" (0 bounds the rate at {3 / trials:.1e} per promise, {3 / max(1, self.cycles):.1e} per kill, 95 %);"
            f" met {met}"
        )


def secured(settings: Settings) -> dict[str, Any]:
    """Return a process's settings other than its data location; nodes that share no disk need a secret key."""
    return ENVIRONMENT | ({"secret_keys": "env:SUITE_KEY"} if settings.database_url else {})


async def tokens_of(settings: Settings) -> dict[str, str]:
    async with running_node(settings) as node:
        people = {name: await node.person(name, "reviewer") for name in PEOPLE}
        return {"agent": await node.token("agent")} | people


@dataclass
class Campaign:
    """A set of processes under load, one of which is killed again and again."""

    settings: Settings
    what: str
    cycles: int
    seed: int
    log: Path | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Campaigns take turns killing, but wait for effects in parallel."""
    until: float = math.inf
    """Time after which no process is killed."""
    zygote: Zygote | None = None
    """Forks the processes; without it, each one starts its own interpreter."""
    told: Callable[[], None] = lambda: None
    """Called with each progress report."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.report = Report(self.what)

        self.starter: Starter = self.zygote.start if self.zygote else interpreter
        self.getting_up = 0.8 if self.zygote else 4.0
        """Approximate startup time in seconds."""

    def launch(self, port: int) -> Process:
        return launch(self.settings, port=port, log=self.log, by=self.starter, **secured(self.settings))

    def worker(self) -> Process:
        return launch_worker(self.settings, log=self.log, by=self.starter, **secured(self.settings))

    async def pause(self, least: float, most: float) -> None:
        await asyncio.sleep(self.chance.uniform(least, most))

    async def run(self, kill: Kill, *, nodes: int) -> Report:
        """Run under load, kill and restart, and finally compare what was acknowledged with what is stored."""
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
                moment = await kill(self, processes)
                self.report.cycles += 1
                self.report.moments[moment] += 1
                if self.report.cycles % GLANCE == 0:
                    await self.all_ready(processes)
                    self.report.wrong += await asyncio.to_thread(self._glance, load.ledger)
                    self.told()
            await self.all_ready(processes)
        finally:
            await load.stop()

    def _glance(self, ledger: Ledger) -> list[str]:
        """Check that everything acknowledged is stored; copy the ledger first, because clients keep adding to it."""
        told = [replace(ask, votes=list(ask.votes)) for ask in ledger.acknowledged]
        self.report.acknowledged = len(told)
        return kept(told, stored(self.settings))

    async def all_ready(self, processes: Sequence[Process]) -> None:
        for process in processes:
            if process.url and not await asyncio.to_thread(ready, process.url, process.popen):
                said = self.log.read_text()[-4000:] if self.log else "no log kept"
                msg = f"A node did not get ready (exit code {process.popen.poll()}): {said}"
                raise AssertionError(msg)

    async def _settled(self, receiver: Receiver) -> None:
        """Wait until all overdue breakpoints have ended and all queued effects have happened."""
        left = PATIENCE
        while left > 0 and rows(self.settings, OVERDUE):
            await asyncio.sleep(0.5)  # the end of the sweep is not signaled
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


async def one_server(campaign: Campaign, processes: list[Process]) -> str:
    """Kill the only server at a random kind of moment."""
    [victim] = processes
    moment = campaign.chance.choices(list(MOMENTS), [share for share, _ in MOMENTS.values()])[0]
    await MOMENTS[moment][1](campaign, victim)
    await gone(victim)
    processes[0] = campaign.launch(int(victim.url.rpartition(":")[2]))
    return moment


async def any_node(campaign: Campaign, processes: list[Process]) -> str:
    """Kill one of the nodes, or a worker without HTTP, while the others continue."""
    if len(processes) < 3:
        processes.append(campaign.worker())
    n = campaign.chance.randrange(len(processes))
    victim = processes[n]
    moment = campaign.chance.choices(["starting", "load", "draining"], [2, 5, 1])[0]
    await campaign.all_ready([each for each in processes if each is not victim])
    if victim.url or moment == "starting":
        await MOMENTS[moment][1](campaign, victim)
    else:
        await campaign.pause(0, campaign.getting_up + 1)
    await gone(victim)
    processes[n] = campaign.launch(int(victim.url.rpartition(":")[2])) if victim.url else campaign.worker()
    return f"{moment} node" if victim.url else "worker"


def postgresql_itself(server: Cluster) -> Kill:
    async def kill(campaign: Campaign, processes: list[Process]) -> str:
        """Kill PostgreSQL while the nodes keep running, and let them reconnect."""
        await campaign.all_ready(processes)
        await campaign.pause(0.1, 1.0)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        return "load"

    return kill


async def gone(victim: Process) -> None:
    victim.popen.send_signal(signal.SIGKILL)
    await asyncio.to_thread(victim.popen.wait, PATIENCE)


async def starting(campaign: Campaign, _: Process) -> None:
    """Wait until a random time between the fork and the first response; SQLite then replays the previous log."""
    await campaign.pause(0, campaign.getting_up)


async def under_load(campaign: Campaign, victim: Process) -> None:
    await campaign.all_ready([victim])
    await campaign.pause(0, 0.8)


async def at_a_checkpoint(campaign: Campaign, victim: Process) -> None:
    """Wait for a checkpoint, the only time at which SQLite changes its main file, so that the kill interrupts it."""
    await campaign.all_ready([victim])
    await asyncio.to_thread(_changed, campaign.settings.sqlite_path, campaign.chance.uniform(0, 0.01))


def _changed(file: Path, then: float) -> None:
    before, deadline = file.stat().st_mtime_ns, time.monotonic() + 2
    while file.stat().st_mtime_ns == before and time.monotonic() < deadline:
        time.sleep(0.0005)
    time.sleep(then)


async def draining(campaign: Campaign, victim: Process) -> None:
    """Ask the process to stop, so that it is killed while it is draining."""
    await under_load(campaign, victim)
    victim.popen.send_signal(signal.SIGTERM)
    await campaign.pause(0, 0.4)


async def recovering(campaign: Campaign, victim: Process) -> None:
    """Wait until the worker is about to recover the jobs of dead workers for the first time."""
    await campaign.all_ready([victim])
    await campaign.pause(BEAT_SECONDS - 0.7, BEAT_SECONDS + 0.5)


MOMENTS: dict[str, tuple[int, Callable[[Campaign, Process], Awaitable[None]]]] = {
    "starting": (25, starting),
    "load": (40, under_load),
    "checkpoint": (15, at_a_checkpoint),
    "draining": (16, draining),
    "recovering": (4, recovering),
}
"""The moments at which the only server is killed, with their weights."""


def checked(settings: Settings, ledger: Ledger) -> list[str]:
    """Return the findings of Assent's checks and of SQLite's integrity check."""
    expected = settings.data_dir / "expected.jsonl"
    expected.write_text("".join(json.dumps(line) + "\n" for line in ledger.expected()))
    found = [*said(settings, "fsck", "--expect", str(expected)), *said(settings, "audit", "verify")]
    if not settings.database_url:
        found += [row[0] for row in rows(settings, "PRAGMA integrity_check") if row[0] != "ok"]
    return found


def said(settings: Settings, *command: str) -> list[str]:
    """Run a CLI check, and return its findings."""
    line = [sys.executable, "-m", "assent", *command]
    environment = environment_of(settings, **secured(settings))
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else [f"assent {' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"]
