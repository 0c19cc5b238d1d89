"""The long searches for faults: `python -m tests.soak --budget 30m --only model`."""

import argparse
import asyncio
import contextlib
import random
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from assent.app import migrate
from assent.settings import Settings
from tests.conformance.walk import walk
from tests.faults import disk as disks
from tests.faults import kills as deaths
from tests.faults import notifications as hints
from tests.faults.kills import secured, tokens_of
from tests.faults.load import PATH, all_of, due, judge, misdelivered, stored
from tests.faults.races import Tally, arena, counted_once, decided_once
from tests.faults.runs import Fire
from tests.soak.killing import Killing
from tests.support.cluster import cluster
from tests.support.nodes import server
from tests.support.postgres import new_database, postgres
from tests.support.receiver import receiving

Soak: TypeAlias = Callable[[str, float], Awaitable[bool]]

SOAKS: dict[str, Soak] = {}
STEPS_PER_PAIR = 100_000
# The model asks whether all agree, not whether the disk keeps it: it waits for no disk.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
NO_WAITING = "fsync = off;synchronous_commit = off"
RACES_PER_ARENA = 4_000
WAITS_PER_ROUND = 400
FAULTS_PER_SERVER = 150
RUNS_AT_ONCE = 200
KILLS_PER_FIRE = 30


def soak(name: str) -> Callable[[Soak], Soak]:
    """Register a search under the name --only takes; it gets a PostgreSQL and the moment to stop."""

    def register(function: Soak) -> Soak:
        SOAKS[name] = function
        return function

    return register


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def bound(trials: int) -> str:
    """The rule of three: no failure in N trials."""
    return f"0 of {trials} bounds the rate at {3 / trials:.1e} (95 %)" if trials else "nothing was tried"


@soak("model")
async def model(url: str, until: float) -> bool:
    """Model, SQLite and PostgreSQL walk together; a new pair of databases for each stretch."""
    total = made = 0
    while time.monotonic() < until:
        seed = random.randrange(2**32)
        with tempfile.TemporaryDirectory(prefix="assent-soak-", dir=MEMORY) as folder, new_database(url) as database:
            pair = [Settings(data_dir=Path(folder)), Settings(data_dir=Path(folder), database_url=database)]
            for settings in pair:
                migrate(settings)
            run = await walk(pair, seed=seed, enough=lambda steps: steps >= STEPS_PER_PAIR or time.monotonic() >= until)
        total, made = total + run.steps, made + len(run.world.breakpoints)
        say(f"model: seed {seed}, {run.steps} steps; {total} steps and {made} breakpoints so far, 0 divergences")
    say(f"model: {total} steps, {made} breakpoints, 0 divergences; {bound(total)}")
    return True


@soak("races")
async def races(url: str, until: float) -> bool:
    """Four actors on two nodes, and votes that arrive together."""
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
    for each in total.wrong[:20]:
        say(f"races: WRONG {each}")
    say(f"races: {total.told()}")
    return not total.wrong


@soak("kills")
async def kills(url: str, until: float) -> bool:
    """kill -9 of the server, of nodes, of PostgreSQL and of migrations."""
    reports = await Killing(url, until, say).run()
    for report in reports:
        for each in report.wrong[:20]:
            say(f"kills: WRONG {each}")
        say(report.told())
    sound = not any(report.wrong for report in reports)
    if sound:
        say(f"kills: {bound(sum(report.cycles for report in reports))} per kill")
    return sound


@soak("runs")
async def runs(_: str, until: float) -> bool:
    """Two hundred runs at a time, decided by rivals while everything under them is killed."""
    wrong: list[str] = []
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
                say(f"runs: seed {seed}, {report.told()}")
                wrong += report.wrong
    for each in wrong[:20]:
        say(f"runs: WRONG {each}")
    return not wrong


@soak("notifications")
async def notifications(url: str, until: float) -> bool:
    """Waits on one node, decisions on the other, and every notification dropped."""
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
        say(f"seed {seed}: {total.told()}")
    for each in total.wrong[:20]:
        say(f"notifications: WRONG {each}")
    say(total.told())
    return not total.wrong and not total.heard


@soak("disk")
async def disk(_: str, until: float) -> bool:
    """Writes and syncs that fail anywhere, and what a power cut would leave."""
    if disks.compiler() is None:
        say("disk: skipped, there is no gcc to build the failing disk with")
        return True
    total = disks.Report()
    while time.monotonic() < until:
        seed = random.randrange(2**32)
        await asyncio.to_thread(_broken, total, until, seed)
        say(f"seed {seed}: {total.told()}")
    for each in total.wrong[:20]:
        say(f"disk: WRONG {each}")
    say(total.told())
    return not total.wrong


def _broken(total: disks.Report, until: float, seed: int) -> None:
    """One server and one disk, broken again and again."""
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


def seconds(budget: str) -> float:
    """Read 90s, 10m, 2h or 1h30m."""
    parts = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", budget)
    if parts is None or not budget:
        msg = f"{budget!r} is not a time such as 90s, 10m or 1h30m"
        raise argparse.ArgumentTypeError(msg)
    hours, minutes, rest = (int(part or 0) for part in parts.groups())
    return hours * 3600.0 + minutes * 60.0 + rest


async def run(names: list[str], budget: float) -> bool:
    sound = True
    with postgres(settings=NO_WAITING if names == ["model"] else "") as url:
        for name in names:
            try:
                sound = await SOAKS[name](url, time.monotonic() + budget / len(names)) and sound
            except AssertionError:
                say(f"{name}: FAILED\n{traceback.format_exc()}")
                sound = False
    return sound


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--budget", type=seconds, default="10m", help="how long, such as 90s, 10m or 2h")
    parser.add_argument("--only", choices=sorted(SOAKS), help="run one of them")
    arguments = parser.parse_args()
    names = [arguments.only] if arguments.only else sorted(SOAKS)
    return 0 if asyncio.run(run(names, arguments.budget)) else 1


if __name__ == "__main__":
    sys.exit(main())
