"""Runs survive kills of any process; `make soak` tests two hundred at a time."""

import random
import sys
from pathlib import Path

import pytest

from assent.installation import migrate
from assent.kernel.settings import Settings
from tests.faults.runs import Fire
from tests.support.cluster import cluster
from tests.support.postgres import new_database

RUNS = 20
KILLS = 4


@pytest.mark.timeout(900)
async def test_runs_survive_kill_9_on_sqlite(
    sqlite_settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = random.randrange(2**32)
    report = await Fire(sqlite_settings, RUNS, seed, KILLS, log=tmp_path / "log").run()
    with capsys.disabled():
        sys.stdout.write(f"\n{report.told()} (seed {seed})\n")
    assert report.wrong == []


@pytest.mark.timeout(900)
async def test_runs_survive_kill_9_of_workers_and_of_postgresql(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = random.randrange(2**32)
    with cluster() as own, new_database(own.url) as database:
        settings = Settings(data_dir=tmp_path / "data", database_url=database)
        settings.data_dir.mkdir()
        migrate(settings)
        report = await Fire(settings, RUNS, seed, KILLS, server=own, log=tmp_path / "log").run()
    with capsys.disabled():
        sys.stdout.write(f"\n{report.told()} (seed {seed})\n")
    assert report.wrong == []
