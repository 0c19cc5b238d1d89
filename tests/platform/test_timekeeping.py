"""The scheduler: batches of expired deadlines, and the loop that processes them."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Generator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import psycopg
import pytest

from assent.breakpoints.store.breakpoints import SELECT_NEXT_DUE, Breakpoints
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.breakpoint import time_out
from assent.core.terms import Answer
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.platform.due_jobs import HELD, DueJob, Timekeeper
from assent.platform.queue import JobQueue
from assent.policy.usecases.rules import RuleService
from tests.db.making import AGENT, create, person, respond, rows, stored
from tests.support.nodes import ManualClock, Node, TimeOrderedIds, running_node

SERVICE = BreakpointService(RuleService())
HOUR = 3600
TABLES = (
    "SELECT * FROM assent_breakpoints ORDER BY id",
    "SELECT * FROM assent_events ORDER BY breakpoint_id, seq",
    "SELECT * FROM assent_labels ORDER BY id, label, status",
    "SELECT breakpoint_id, seq, type, state, next_at FROM assent_deliveries ORDER BY breakpoint_id, seq",
)


class RolledBack(Exception):
    """Rolls back a transaction after its result has been read, so that the next one starts from the same state."""


async def tried(node: Node, sweep: Callable[[Transaction], object], *, at: int) -> list[Sequence[Any]]:
    """Run a sweep at a given time, return the tables and hints, and roll back."""
    seen: list[Sequence[Any]] = []

    def use_case(tx: Transaction) -> None:
        later = Transaction(tx.session, ManualClock(at), TimeOrderedIds(), JobQueue(node.assent.engine))
        sweep(later)
        seen[:] = [tuple(row) for table in TABLES for row in tx.session.all(table, {})]
        seen.extend(sorted((hint.breakpoint_id, hint.status.value, hint.version) for hint in later.hints))
        raise RolledBack

    with pytest.raises(RolledBack):
        await node.assent.database.write(use_case)
    return seen


def one_by_one(tx: Transaction) -> None:
    for each in tx.session.all("SELECT id, project_id FROM assent_breakpoints ORDER BY id", {}):
        SERVICE.time_out(tx, each[0], project=each[1])


def in_batches(tx: Transaction) -> None:
    while SERVICE.time_out_due(tx):
        pass


@pytest.mark.parametrize("seed", range(6))
async def test_ending_breakpoints_in_a_batch_has_the_same_result_as_ending_them_one_by_one(
    node: Node, seed: int
) -> None:
    chance = random.Random(seed)
    ann = await person(node, "ann", "reviewer")
    for _ in range(chance.randint(1, 40)):
        options: dict[str, Any] = {"onTimeout": chance.choice(["expire", "reject"])}
        if chance.random() < 0.9:
            options["ttlSeconds"] = chance.randint(1, 2 * HOUR)
        if chance.random() < 0.3:
            options["callbackUrl"] = "https://example.com/hook"
        made = await create(node, tags=chance.sample(["a", "b", "c"], chance.randint(0, 3)), **options)
        for _ in range(chance.choice([0, 0, 1, 3])):
            comment = partial(SERVICE.comment, breakpoint_id=made, comment="Hm.", by=AGENT, once=None)
            await node.assent.database.write(comment)
        if chance.random() < 0.2:
            await respond(node, made, ann, approved=chance.random() < 0.5)

    at = node.assent.clock.now() + HOUR * 1_000_000
    assert await tried(node, in_batches, at=at) == await tried(node, one_by_one, at=at)


async def test_a_decision_made_during_a_sweep_is_kept(node: Node, clock: ManualClock) -> None:
    ann = await person(node, "ann", "reviewer")
    ids = [await create(node, ttlSeconds=60, tags=["x"]) for _ in range(3)]

    def use_case(tx: Transaction) -> list[str]:
        at = clock.now() + 60_000_000
        due = tx[Breakpoints].due(at, limit=10)
        answer = Answer(approved=True)
        SERVICE.respond(tx, ids[1], answer, by=ann, via="api")
        moved = tx[Breakpoints].end_due([time_out(each, at=at) for each in due], now=at)
        return [each.id for each in moved]

    assert await node.assent.database.write(use_case) == sorted([ids[0], ids[2]])
    assert [(await stored(node, each)).decision for each in ids] == [None, "approved", None]
    events = await rows(node, "SELECT type FROM assent_events WHERE breakpoint_id = :id ORDER BY seq", id=ids[1])
    assert events == [("created",), ("responded",), ("released",)]


async def test_no_breakpoint_ends_before_its_deadline(node: Node, clock: ManualClock) -> None:
    breakpoint_id = await create(node, ttlSeconds=60)

    def use_case(tx: Transaction) -> int:
        due = tx[Breakpoints].due(clock.now() + 60_000_000, limit=10)
        return len(tx[Breakpoints].end_due([time_out(each, at=clock.now()) for each in due], now=clock.now()))

    assert await node.assent.database.write(use_case) == 0
    assert (await stored(node, breakpoint_id)).status == "waiting"


async def held(url: str, breakpoint_id: str) -> "psycopg.AsyncConnection[Any]":
    """Lock a row until the connection is closed, as a reviewer's transaction does."""
    connection = await psycopg.AsyncConnection.connect(url)
    await connection.execute("SELECT 1 FROM assent_breakpoints WHERE id = %s FOR UPDATE", [breakpoint_id])
    return connection


async def test_a_sweep_skips_locked_rows(postgres_settings: Settings, clock: ManualClock) -> None:
    async with running_node(postgres_settings, clock=clock) as node:
        await _assert_locked_row_is_skipped(node, clock)


async def _assert_locked_row_is_skipped(node: Node, clock: ManualClock) -> None:
    url = node.assent.settings.database_url or ""
    ids = [await create(node, ttlSeconds=60) for _ in range(3)]
    async with await held(url, ids[0]):
        clock.advance(60)
        await node.assent.database.write(node.assent[BreakpointService].time_out_due)
        left = await rows(node, "SELECT id FROM assent_breakpoints WHERE status = 'waiting'")
        assert left == [(ids[0],)]
        listed = asyncio.create_task(node.call("GET", "/api/breakpoints?status=waiting", await node.token("reviewer")))
        await _blocked(url)
    # The list waits for the lock and then returns the correct result.
    assert (await listed).json()["items"] == []


async def _blocked(url: str) -> None:
    """Return as soon as a session is waiting for a lock."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        while (row := await (await connection.execute(waiting)).fetchone()) is not None and row[0] == 0:
            pass


@contextlib.contextmanager
def patient(job: str) -> Generator[None, None, None]:
    """Suppress errors, which only the job "broken" may raise."""
    try:
        yield
    except RuntimeError:
        assert job == "broken"


async def test_a_job_next_runs_at_the_next_deadline(node: Node) -> None:
    clock = ManualClock()
    keeper = Timekeeper(node.assent.database, clock, [], patient=patient)
    job = DueJob("nothing", lambda _: 0, batch=1, every=10, next_due=SELECT_NEXT_DUE)
    assert await keeper.work(job) == 10
    await create(node)
    assert await keeper.work(job) == 10
    await create(node, ttlSeconds=HOUR)
    assert await keeper.work(job) == 10
    await create(node, ttlSeconds=4)
    assert await keeper.work(job) == pytest.approx(4, abs=0.01)
    clock.advance(4)
    assert await keeper.work(job) == HELD


async def test_the_next_batch_follows_a_full_batch_immediately(node: Node) -> None:
    keeper = Timekeeper(node.assent.database, node.assent.clock, [], patient=patient)
    left = iter([2, 2, 1])
    job = DueJob("counting", lambda _: next(left), batch=2, every=10)
    assert [await keeper.work(job) for _ in range(3)] == [0, 0, 10]


async def test_neither_a_backlog_nor_a_failure_blocks_the_other_jobs(node: Node) -> None:
    done: list[str] = []
    enough = asyncio.Event()
    loop = asyncio.get_running_loop()

    def endless(_: Transaction) -> int:
        done.append("endless")
        if done.count("short") >= 3:
            loop.call_soon_threadsafe(enough.set)
        return 1

    def broken(_: Transaction) -> int:
        done.append("broken")
        msg = "on purpose"
        raise RuntimeError(msg)

    def short(_: Transaction) -> int:
        done.append("short")
        return 0

    jobs = [
        DueJob("endless", endless, batch=1),
        DueJob("broken", broken, batch=1, every=0),
        DueJob("short", short, batch=1, every=0),
    ]
    task = asyncio.create_task(Timekeeper(node.assent.database, node.assent.clock, jobs, patient=patient).run())
    async with asyncio.timeout(60):
        await enough.wait()
    task.cancel()
    in_turn = [name for name, _ in groupby(done)]  # a job that fails in a shared commit is retried alone
    assert in_turn[:6] == ["endless", "broken", "short"] * 2
