"""Kills the server, nodes, PostgreSQL and migrations thousands of times in parallel, with new data in each round."""

import asyncio
import contextlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from assent.installation import migrate
from assent.kernel.settings import Settings
from tests.faults import kills as deaths
from tests.faults.kills import Campaign, Report
from tests.support.cluster import binaries, cluster
from tests.support.postgres import new_database
from tests.support.zygote import Zygote, zygote

KILLS_PER_ROUND = 200
MIGRATION_STEP = 12
MIGRATION_PAUSE = 60.0
"""Seconds between two rounds of migrations, because a migration can be killed at fewer points than a server."""
MOST_SHOWN = 20


def _reports() -> dict[str, Report]:
    return {what: Report(what) for what in ("the server", "nodes and workers", "PostgreSQL", "migrations")}


@dataclass
class Killing:
    url: str
    until: float
    say: Callable[[str], None]
    finished: dict[str, Report] = field(default_factory=_reports)
    going_on: dict[str, Report] = field(default_factory=dict[str, Report])

    async def run(self) -> list[Report]:
        self._started = time.monotonic()
        with zygote() as forking:
            async with asyncio.TaskGroup() as group:
                for what in ("the server", "nodes and workers", "PostgreSQL"):
                    group.create_task(self._rounds(what, forking))
                group.create_task(self._migrations())
        self.progress()
        return list(self.finished.values())

    def progress(self) -> None:
        """Print one line of progress."""
        counts = {what: report.cycles for what, report in self.finished.items()}
        wrong = sum(len(each.wrong) for each in (*self.finished.values(), *self.going_on.values()))
        for what, report in self.going_on.items():
            counts[what] += report.cycles
        minutes = (time.monotonic() - self._started) / 60
        each = ", ".join(f"{what} {count}" for what, count in counts.items())
        total = sum(counts.values())
        self.say(f"kills: {total} in {minutes:.0f} min, {total / minutes:.0f} a minute ({each}); {wrong} wrong")

    async def _rounds(self, what: str, forking: Zygote) -> None:
        while time.monotonic() < self.until:
            seed = random.randrange(2**32)
            report = await self._round(what, forking, seed)
            del self.going_on[what]
            self.finished[what].add(report)
            self.say(f"seed {seed}: {self.finished[what].told()}")

    async def _round(self, what: str, forking: Zygote, seed: int) -> Report:
        """Run until the planned kills are done or time is up; keep the data if anything went wrong."""
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assent-soak-")))
            kill: deaths.Kill = deaths.one_server
            nodes, database = 1, None
            if what == "PostgreSQL":
                own = stack.enter_context(cluster())
                kill, nodes, database = deaths.postgresql_itself(own), 2, stack.enter_context(new_database(own.url))
            elif what == "nodes and workers":
                kill, nodes, database = deaths.any_node, 2, stack.enter_context(new_database(self.url))
            settings = Settings(data_dir=folder, database_url=database)
            migrate(settings)  # Alembic supports only one migration per process
            campaign = Campaign(
                settings, what, KILLS_PER_ROUND, seed=seed, log=folder / "log", until=self.until, zygote=forking
            )
            campaign.told = self.progress
            self.going_on[what] = report = campaign.report
            try:
                await campaign.run(kill, nodes=nodes)
            except AssertionError as error:
                report.wrong.append(str(error))
            if report.wrong:
                place = await asyncio.to_thread(_put_aside, settings, seed)
                self.say(f"kills: WRONG, seed {seed}, data in {place}: {report.wrong[:MOST_SHOWN]}")
            return report

    async def _migrations(self) -> None:
        """Kill migrations at one statement after another, starting with a different statement each time."""
        while time.monotonic() < self.until:
            for database in ([], ["--database", self.url]):
                await self._migration(database)
            await asyncio.sleep(min(MIGRATION_PAUSE, max(0.0, self.until - time.monotonic())))

    async def _migration(self, database: list[str]) -> None:
        left, first = max(1.0, self.until - time.monotonic()), random.randrange(1, MIGRATION_STEP + 1)
        line = ["--first", str(first), "--every", str(MIGRATION_STEP), "--seconds", str(left), *database]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.faults.migrating", *line, stdout=asyncio.subprocess.PIPE
        )
        said = (await process.communicate())[0].decode()
        killed = int(said.rpartition(" kills")[0].rpartition("\n")[2] or -1)
        report = self.finished["migrations"]
        report.cycles += max(0, killed)
        report.moments["PostgreSQL" if database else "SQLite"] += max(0, killed)
        if process.returncode and killed != 0:
            report.wrong.append(said[-2000:])
            self.say(f"kills: WRONG {line}: {said[-2000:]}")
        self.progress()


def _put_aside(settings: Settings, seed: int) -> Path:
    """Keep the data for investigation."""
    place = Path(tempfile.mkdtemp(prefix=f"assent-wrong-{seed}-"))
    shutil.copytree(settings.data_dir, place / "data")
    if settings.database_url:
        dump = [str(binaries() / "pg_dump"), "--format=custom", f"--file={place / 'dump'}", settings.database_url]
        subprocess.run(dump, check=False)
    return place
