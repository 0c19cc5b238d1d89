"""After kill -9, no acknowledged request is lost, nothing is duplicated, and every effect still happens."""

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assent.installation import migrate
from assent.kernel.settings import Settings
from tests.faults.kills import (
    Campaign,
    any_node,
    checked,
    end,
    one_server,
    postgresql_itself,
    secured,
)
from tests.faults.load import PATH, Ask, Ledger, all_of, due, judge, misdelivered, rows, stored
from tests.support.cluster import cluster
from tests.support.nodes import launch_worker, running_node
from tests.support.postgres import new_database
from tests.support.receiver import receiving
from tests.support.zygote import Zygote, shared

OF_THE_SERVER, OF_FORKED_SERVERS, OF_NODES, OF_POSTGRESQL = 5, 25, 15, 10


@pytest.mark.timeout(1200)
async def test_kill_9_under_load_loses_and_duplicates_nothing(
    sqlite_settings: Settings, postgres_settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turn = asyncio.Lock()

    def campaign(settings: Settings, what: str, cycles: int, by: Zygote | None = None) -> Campaign:
        seed, log = random.randrange(2**32), tmp_path / what.replace(" ", "-")
        return Campaign(settings, what, cycles, seed=seed, log=log, turn=turn, zygote=by)

    with cluster() as own, new_database(own.url) as database:
        mortal = Settings(data_dir=tmp_path / "mortal", database_url=database)
        forked = Settings(data_dir=tmp_path / "forked")
        for each in (mortal, forked):
            each.data_dir.mkdir()
            await asyncio.to_thread(migrate, each)
        campaigns = [
            # This server starts its own interpreter each time, as in production; the others are forked.
            campaign(sqlite_settings, "the server", OF_THE_SERVER).run(one_server, nodes=1),
            campaign(forked, "forked servers", OF_FORKED_SERVERS, shared()).run(one_server, nodes=1),
            campaign(postgres_settings, "nodes", OF_NODES, shared()).run(any_node, nodes=2),
            campaign(mortal, "PostgreSQL", OF_POSTGRESQL, shared()).run(postgresql_itself(own), nodes=2),
        ]
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(each) for each in campaigns]
    reports = [task.result() for task in running]
    with capsys.disabled():
        for report in reports:
            sys.stdout.write(f"\n{report.told()}\n")
    assert [report.wrong for report in reports] == [[], [], [], []]
    assert sum(report.cycles for report in reports) >= 50
    assert all(report.acknowledged and report.decided and report.effects for report in reports)


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_the_next_migration_completes_a_killed_one(postgres_url: str, dialect: str) -> None:
    """Kill the migration before a sample of its statements; `make soak` covers all of them."""
    place = ["--database", postgres_url] if dialect == "postgresql" else []
    line = [sys.executable, "-m", "tests.faults.migrating", "--first", "7", "--every", "61", *place]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(400)
async def test_another_worker_completes_the_job_of_a_killed_worker(
    postgres_settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = postgres_settings.model_copy(update={"outbound_allow": ("127.0.0.0/8",)})
    with receiving() as receiver, two_workers(postgres_settings):
        receiver.hold(PATH)
        # This node has no worker, so one of the two workers has to claim the job.
        async with running_node(settings) as node:
            created = await node.create(title="0", callbackUrl=receiver.url(PATH))
            answer = await node.feedback(created["id"], await node.person("ann", "reviewer"), approved=True)
        assert answer.json()["status"] == "released"
        assert await asyncio.to_thread(receiver.wait, bool), "no worker took the job"
        killed = await asyncio.to_thread(kill_who_has_it, postgres_settings)
        receiver.let_go(PATH)
        wanted = due(stored(postgres_settings))
        await asyncio.to_thread(receiver.wait, all_of(wanted))
        found, repeats = stored(postgres_settings), receiver.repeats()
        told = Ask("0", "approve", callback=True, id=created["id"], ended=("released", "approved"), votes=["ann"])
        wrong = [*judge(Ledger([told]), found), *misdelivered(receiver, found)]
    wrong += await asyncio.to_thread(checked, postgres_settings, Ledger([told]))
    with capsys.disabled():
        sys.stdout.write(
            f"\nkill -9 in mid-job: worker {killed} killed, {len(wanted)} effects, {repeats} of them told again,"
            f" {len(wrong)} wrong\n"
        )
    assert wrong == []
    assert repeats >= 1, "the interrupted delivery was not repeated"


@contextlib.contextmanager
def two_workers(settings: Settings) -> Iterator[None]:
    workers = [launch_worker(settings, **secured(settings)) for _ in range(2)]
    try:
        yield
    finally:
        for worker in workers:
            end(worker)


def kill_who_has_it(settings: Settings) -> int:
    """Send SIGKILL to the worker that the open attempt names."""
    [(name,)] = rows(settings, "SELECT worker FROM assent_attempts WHERE milliseconds IS NULL")
    pid = int(name.split(":")[1])
    os.kill(pid, signal.SIGKILL)
    return pid
