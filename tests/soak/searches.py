"""Long searches for faults: each counts its trials, records violations, and ends with `fsck`."""

import asyncio
import contextlib
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TypeAlias

from assent.installation import migrate
from assent.kernel.settings import Settings
from tests.conformance.walk import Walk, walk
from tests.faults import disk as disks
from tests.faults import kills as deaths
from tests.faults import notifications as hints
from tests.faults.clocks import TTL, deadlines
from tests.faults.kills import said, secured, tokens_of
from tests.faults.load import PATH, Load, all_of, due, judge, misdelivered, stored
from tests.faults.mixed import Day, Readers, day
from tests.faults.races import Tally, arena, counted_once, decided_once
from tests.faults.runs import Fire
from tests.faults.waiting import ready, rolling_restart
from tests.soak.killing import Killing
from tests.support.clocks import off_by
from tests.support.cluster import cluster
from tests.support.nodes import Process, prepared, server
from tests.support.postgres import new_database
from tests.support.receiver import receiving


@dataclass(frozen=True)
class Found:
    """The result of a search."""

    trials: int
    told: str
    wrong: Sequence[str] = ()


Soak: TypeAlias = Callable[[str, float], Awaitable[Found]]

SOAKS: dict[str, Soak] = {}
STEPS_PER_PAIR = 50_000
# The model search tests whether the databases agree, not durability, so it need not wait for a disk.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
RACES_PER_ARENA = 4_000
WAITS_PER_ROUND = 400
FAULTS_PER_SERVER = 150
RUNS_AT_ONCE = 200
KILLS_PER_FIRE = 30
DEADLINES_PER_ROUND = 60
WAITERS = 500


def soak(name: str) -> Callable[[Soak], Soak]:
    """Register a search under its name for --only; it is called with a PostgreSQL URL and the time to stop."""

    def register(function: Soak) -> Soak:
        SOAKS[name] = function
        return function

    return register


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def sound(settings: Settings) -> list[str]:
    """Run Assent's checks on the data, and return their findings."""
    return [*said(settings, "fsck"), *said(settings, "audit", "verify")]


@contextlib.contextmanager
def both(url: str) -> Iterator[list[Settings]]:
    """Yield settings for new data on each database."""
    with tempfile.TemporaryDirectory(prefix="assent-soak-") as folder, new_database(url) as database:
        one, many = Path(folder) / "one", Path(folder) / "many"
        one.mkdir()
        many.mkdir()
        pair = [Settings(data_dir=one), Settings(data_dir=many, database_url=database)]
        for settings in pair:
            migrate(settings)
        yield pair


@soak("model")
async def model(url: str, until: float) -> Found:
    """Take the same random steps in the model, SQLite and PostgreSQL, with new databases for each segment."""
    loop = asyncio.get_running_loop()
    walkers = 2 * (os.cpu_count() or 1)  # each one spends half of its time waiting for a database
    total = made = 0
    wrong: list[str] = []

    async def go_on(pool: ProcessPoolExecutor) -> None:
        nonlocal total, made, wrong
        while time.monotonic() < until:
            seed = random.randrange(2**32)
            steps, breakpoints, complaints = await loop.run_in_executor(pool, stretch, url, seed, until)
            total, made, wrong = total + steps, made + breakpoints, wrong + complaints
            say(f"model: seed {seed}, {steps} steps; {total} steps and {made} breakpoints so far, 0 divergences")

    with ProcessPoolExecutor(walkers, mp_context=get_context("spawn")) as pool:
        await asyncio.gather(*(go_on(pool) for _ in range(walkers)))
    return Found(
        total, f"{total} steps of a model, SQLite and PostgreSQL side by side, {made} breakpoints, 0 divergences", wrong
    )


def stretch(url: str, seed: int, until: float) -> tuple[int, int, list[str]]:
    """Take random steps in this process; return the number of steps and breakpoints, and the findings."""

    def enough(run: Walk) -> bool:
        return run.steps >= STEPS_PER_PAIR or time.monotonic() >= until

    with tempfile.TemporaryDirectory(prefix="assent-soak-", dir=MEMORY) as folder, new_database(url) as database:
        pair = [Settings(data_dir=Path(folder)), Settings(data_dir=Path(folder), database_url=database)]
        for settings in pair:
            migrate(settings)
        run = asyncio.run(walk(pair, seed=seed, enough=enough))
        return run.steps, len(run.world.breakpoints), [each for settings in pair for each in sound(settings)]


@soak("races")
async def races(url: str, until: float) -> Found:
    """Let four actors race on two nodes, and experts vote simultaneously."""
    total = Tally()
    while time.monotonic() < until:
        seed = random.randrange(2**32)
        with tempfile.TemporaryDirectory(prefix="assent-soak-") as folder, new_database(url) as database:
            settings = Settings(data_dir=Path(folder), database_url=database)
            migrate(settings)
            async with arena(settings, seed=seed) as players:
                started = total.races
                while time.monotonic() < until and total.races - started < RACES_PER_ARENA:
                    for tally in (
                        await decided_once(players, settings, 1000),
                        await counted_once(players, settings, 200),
                    ):
                        total.races += tally.races
                        total.calls.update(tally.calls)
                        total.winners.update(tally.winners)
                        total.wrong += tally.wrong
                    say(f"races: seed {seed}, {total.races} so far, {len(total.wrong)} wrong")
            total.wrong += await asyncio.to_thread(sound, settings)
    return Found(total.races, total.told(), total.wrong)


@soak("kills")
async def kills(url: str, until: float) -> Found:
    """Kill the server, nodes, PostgreSQL and migrations with SIGKILL."""
    reports = await Killing(url, until, say).run()
    wrong = [each for report in reports for each in report.wrong]
    return Found(sum(report.cycles for report in reports), "; ".join(report.told() for report in reports), wrong)


@soak("runs")
async def runs(_: str, until: float) -> Found:
    """Start two hundred runs at a time; competing reviewers answer them while all processes are being killed."""
    found = Found(0, "runs under kills of everything below them")
    first = True
    while first or time.monotonic() < until:
        first = False
        with (
            tempfile.TemporaryDirectory(prefix="assent-soak-") as folder,
            cluster() as own,
            new_database(own.url) as name,
        ):
            embedded = Settings(data_dir=Path(folder) / "one")
            shared = Settings(data_dir=Path(folder) / "many", database_url=name)
            for settings, server_ in ((embedded, None), (shared, own)):
                settings.data_dir.mkdir()
                migrate(settings)
                seed = random.randrange(2**32)
                report = await Fire(settings, RUNS_AT_ONCE, seed, KILLS_PER_FIRE, server=server_).run()
                report.wrong += await asyncio.to_thread(sound, settings)
                say(f"runs: seed {seed}, {report.told()}")
                found = Found(found.trials + RUNS_AT_ONCE, found.told, [*found.wrong, *report.wrong])
    return found


@soak("notifications")
async def notifications(url: str, until: float) -> Found:
    """Wait on one node and decide on the other, while all notifications are dropped."""
    total = hints.Report()
    while time.monotonic() < until:
        seed = random.randrange(2**32)
        with tempfile.TemporaryDirectory(prefix="assent-soak-") as folder, new_database(url) as database:
            settings = Settings(data_dir=Path(folder), database_url=database)
            migrate(settings)
            async with hints.deaf_pair(settings, total, seed=seed) as pair:
                for _ in range(20):
                    await hints.waits(pair, total, WAITS_PER_ROUND)
                    if time.monotonic() >= until:
                        break
            total.wrong += await asyncio.to_thread(sound, settings)
        say(f"seed {seed}: {total.told()}")
    heard = [f"{total.heard} notifications were heard that should have been dropped"] if total.heard else []
    return Found(total.waits, total.told(), [*total.wrong, *heard])


@soak("disk")
async def disk(_: str, until: float) -> Found:
    """Make writes and syncs fail at any point, and check what would remain after a power cut."""
    if disks.compiler() is None:
        return Found(0, "not tried: there is no gcc to build the failing disk with")
    total = disks.Report()
    while time.monotonic() < until:
        seed = random.randrange(2**32)
        await asyncio.to_thread(_broken, total, until, seed)
        say(f"seed {seed}: {total.told()}")
    return Found(total.faults, total.told(), total.wrong)


def _broken(total: disks.Report, until: float, seed: int) -> None:
    """Run a server on a disk that fails repeatedly."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="assent-soak-") as folder, receiving() as receiver:
        settings = Settings(data_dir=Path(folder) / "data")
        migrate(settings)
        tokens = asyncio.run(tokens_of(settings))
        broken = disks.Disk(Path(folder) / "disk", settings)
        with (
            server(settings, **secured(settings), **broken.environment) as process,
            contextlib.closing(disks.Asker(process.url, tokens, total, callback=receiver.url(PATH))) as asker,
        ):
            for _ in range(FAULTS_PER_SERVER):
                if time.monotonic() >= until:
                    break
                fault, asker.size = chance.choice(disks.FAULTS), chance.choice([0, 0, 2_000, 50_000])
                most = 40 if fault.kind == disks.SYNCS else 80 if asker.size == 0 else 1_500
                disks.trial(broken, asker, fault, at=chance.randrange(1, most))
            wanted = due(stored(settings))
            receiver.wait(all_of(wanted))
            process.kill()
        found = stored(settings)
        total.wrong += [*judge(asker.ledger, found), *misdelivered(receiver, found)]
        total.wrong += deaths.checked(settings, asker.ledger)


@soak("clocks")
async def clocks(url: str, until: float) -> Found:
    """Check that nothing expires early on a machine whose clock keeps jumping by an hour; report the longest delay."""
    off: list[float] = []
    wrong: list[str] = []
    while not off or time.monotonic() < until:
        with both(url) as pair:
            for settings in pair:
                (agent,) = await asyncio.to_thread(prepared, settings, "agent")
                with off_by(settings, random.choice([-3600, 3600])) as process:
                    lasted = await deadlines(process, agent, tries=DEADLINES_PER_ROUND)
                off += [each - TTL for each in lasted]
                wrong += [f"a deadline came {TTL - each:.3f} s early" for each in lasted if each < TTL]
                wrong += await asyncio.to_thread(sound, settings)
        say(f"clocks: {len(off)} deadlines, {min(off) * 1000:+.0f} to {max(off) * 1000:+.0f} ms, {len(wrong)} wrong")
    told = f"{len(off)} deadlines under a jumping clock, {min(off) * 1000:+.0f} to {max(off) * 1000:+.0f} ms off"
    return Found(len(off), told, wrong)


@soak("restarts")
async def restarts(url: str, until: float) -> Found:
    """Repeatedly restart two nodes in turn while clients are waiting."""
    waits = rounds = 0
    met: Counter[str] = Counter()
    wrong: list[str] = []
    while not waits or time.monotonic() < until:
        with tempfile.TemporaryDirectory(prefix="assent-soak-") as folder, new_database(url) as database:
            settings = Settings(data_dir=Path(folder), database_url=database)
            agents = await ready(settings)
            told = await rolling_restart(agents, settings, waiters=WAITERS)
            wrong += agents.wrong + [
                f"{count} waiters were told {what}" for what, count in told.items() if what != "approved"
            ]
            wrong += await asyncio.to_thread(sound, settings)
            waits, rounds = waits + WAITERS, rounds + 1
            met.update(agents.seen)
        say(f"restarts: {rounds} rolling restarts, {waits} waits, {len(wrong)} wrong; met {dict(met)}")
    return Found(waits, f"{rounds} rolling restarts of two nodes under {WAITERS} waiters each", wrong)


@soak("mixed")
async def mixed(url: str, until: float) -> Found:
    """Run an ordinary workload on each database in turn, and report the measured availability."""
    total, wrong, told = Counter[str](), list[str](), list[str]()
    with both(url) as pair:
        for settings, left in zip(pair, (2, 1), strict=True):
            seconds = max(10.0, (until - time.monotonic()) / left)
            found, complaints = await _day(settings, seconds)
            total.update(found.answers)
            wrong += complaints
            what = "PostgreSQL, two nodes" if settings.database_url else "SQLite"
            told.append(f"{what}, {seconds / 60:.0f} min: {found.told()}")
            say(f"mixed: {told[-1]}; {len(complaints)} wrong")
    return Found(total.total(), "; ".join(told), wrong)


async def _day(settings: Settings, seconds: float) -> tuple[Day, list[str]]:
    seed = random.randrange(2**32)
    tokens = await tokens_of(settings)
    with receiving() as receiver, contextlib.ExitStack() as stack:
        nodes: list[Process] = [
            stack.enter_context(server(settings, **secured(settings))) for _ in range(2 if settings.database_url else 1)
        ]
        urls = [node.url for node in nodes]
        load = Load(urls, tokens, receiver.url(PATH), seed=seed)
        found = await day(load, Readers(urls, tokens, seed), seconds=seconds)
        there = stored(settings)
        receiver.wait(all_of(due(there)))
        there = stored(settings)
        wrong = [*judge(load.ledger, there), *misdelivered(receiver, there)]
    return found, wrong + await asyncio.to_thread(deaths.checked, settings, load.ledger)
