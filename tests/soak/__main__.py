"""The long searches for faults: `python -m tests.soak --budget 30m --only model`."""

import argparse
import asyncio
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
from tests.faults.races import Tally, arena, counted_once, decided_once
from tests.support.postgres import new_database, postgres

Soak: TypeAlias = Callable[[str, float], Awaitable[bool]]

SOAKS: dict[str, Soak] = {}
STEPS_PER_PAIR = 100_000
# The model asks whether all agree, not whether the disk keeps it: it waits for no disk.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
NO_WAITING = "fsync = off;synchronous_commit = off"
RACES_PER_ARENA = 4_000


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
