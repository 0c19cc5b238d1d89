"""The job queue: a job is enqueued once, in the transaction that causes it, and a worker executes it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from assent.core.errors import Conflict
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.platform.worker import Worker
from assent.platform.workers import Workers
from tests.support.nodes import Node, running_node
from tests.support.until import until

QUEUED = {
    "sqlite": "SELECT workflow_uuid, status FROM workflow_status ORDER BY workflow_uuid",
    "postgresql": "SELECT workflow_uuid, status FROM dbos.workflow_status ORDER BY workflow_uuid",
}


async def queued(node: Node) -> list[tuple[str, str]]:
    rows = await node.assent.database.fetch_page(QUEUED[node.assent.database.dialect], {})
    return [(row[0], row[1]) for row in rows]


async def put(node: Node, key: str, *, delay: float = 0, job: str = "probe", **payload: Any) -> None:
    await node.assent.database.write(lambda tx: tx.enqueue(job, key=key, payload=payload, delay=delay))


async def test_a_committed_job_is_queued_exactly_once(node: Node) -> None:
    await put(node, "one", n=1)
    await put(node, "one", n=2)
    assert await queued(node) == [("probe:one", "ENQUEUED")]


async def test_a_delayed_job_is_stored_as_delayed(node: Node) -> None:
    await put(node, "later", delay=3600)
    assert await queued(node) == [("probe:later", "DELAYED")]


async def test_a_rolled_back_transaction_enqueues_no_job_and_does_not_affect_others(node: Node) -> None:
    def refused(tx: Transaction) -> None:
        tx.enqueue("probe", key="refused", payload={})
        msg = "No."
        raise Conflict(msg)

    async def attempt() -> None:
        with pytest.raises(Conflict):
            await node.assent.database.write(refused)

    await asyncio.gather(*(put(node, f"good-{n}") for n in range(10)), *(attempt() for _ in range(10)))
    assert await queued(node) == [(f"probe:good-{n}", "ENQUEUED") for n in range(10)]


async def test_writes_before_and_after_an_enqueue_commit_together(node: Node) -> None:
    """On PostgreSQL, enqueuing leaves pipeline mode; the writes around it must stay in the transaction."""

    def use_case(tx: Transaction) -> None:
        tx[Workers].beat("before", host="h", pid=1, now=tx.now())
        tx.enqueue("probe", key="between", payload={})
        tx[Workers].beat("after", host="h", pid=1, now=tx.now())
        assert tx[Workers].alive() == ["after", "before"]

    await node.assent.database.write(use_case)
    assert await node.assent.database.read(lambda tx: tx[Workers].alive()) == ["after", "before"]
    assert await queued(node) == [("probe:between", "ENQUEUED")]


class Probe:
    """A job that records its payloads and fails a given number of times."""

    def __init__(self) -> None:
        self.seen: list[Mapping[str, Any]] = []
        self.failures = 0
        self._changed = asyncio.Condition()

    async def __call__(self, payload: Mapping[str, Any]) -> None:
        async with self._changed:
            self.seen.append(payload)
            self._changed.notify_all()
        if self.failures:
            self.failures -= 1
            msg = "not yet"
            raise RuntimeError(msg)

    async def times(self, count: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.seen) >= count)


@pytest.fixture
async def working(settings: Settings) -> AsyncIterator[Node]:
    # Some of the jobs keep failing, so stopping must not wait for them.
    async with running_node(settings.model_copy(update={"drain_seconds": 1}), worker=True) as node:
        yield node


def worker_of(node: Node) -> Worker:
    assert node.assent.worker is not None
    return node.assent.worker


@pytest.fixture
def probe(working: Node) -> Probe:
    found = worker_of(working).handlers["probe"] = Probe()
    return found


async def finished(node: Node, job: str) -> str:
    async def status() -> str:
        return dict(await queued(node)).get(job, "")

    return await until(status, lambda found: found not in {"ENQUEUED", "PENDING"})


async def test_a_worker_executes_the_jobs_in_its_queue(working: Node, probe: Probe) -> None:
    await asyncio.gather(*(put(working, f"job-{n}", n=n) for n in range(50)))
    await probe.times(50)
    assert sorted(each["n"] for each in probe.seen) == list(range(50))


async def test_a_failed_job_is_retried(working: Node, probe: Probe) -> None:
    probe.failures = 2
    await put(working, "stubborn")
    assert await finished(working, "probe:stubborn") == "SUCCESS"
    assert len(probe.seen) == 3


async def test_an_unknown_job_fails_without_blocking_others(working: Node, probe: Probe) -> None:
    await put(working, "strange", job="unknown")
    await put(working, "known")
    await probe.times(1)


async def test_finished_jobs_are_deleted(working: Node, probe: Probe) -> None:
    for n in range(3):
        await put(working, f"job-{n}")
    for n in range(3):
        assert await finished(working, f"probe:job-{n}") == "SUCCESS"
    assert await asyncio.to_thread(worker_of(working).delete_finished) == 3
    assert await queued(working) == []
    assert len(probe.seen) == 3


async def leave_running(node: Node, job: str, *, by: str) -> None:
    """Mark a delayed job as running on this worker."""
    await put(node, job, delay=3600)
    table = "workflow_status" if node.assent.database.dialect == "sqlite" else "dbos.workflow_status"
    statement = f"""UPDATE {table} SET status = 'PENDING', executor_id = :by, application_version = '1'
        WHERE workflow_uuid = :id"""

    def use_case(tx: Transaction) -> None:
        tx.session.change(statement, {"id": f"probe:{job}", "by": by})

    await node.assent.database.write(use_case)


async def test_a_dead_workers_jobs_are_executed_by_another_worker(working: Node, probe: Probe) -> None:
    """A job's row names its worker; recovery reassigns jobs of workers that are not alive."""
    await leave_running(working, "orphan", by="dead:1")
    await asyncio.to_thread(worker_of(working).recover, frozenset({worker_of(working).id}))
    assert await finished(working, "probe:orphan") == "SUCCESS"
    assert len(probe.seen) == 1


async def test_a_job_that_was_claimed_but_never_started_is_requeued(working: Node, probe: Probe) -> None:
    """The database failed after the job was claimed but before this was confirmed, so its worker never started it."""
    mine = worker_of(working)
    await leave_running(working, "forgotten", by=mine.id)
    await asyncio.to_thread(mine.recover, frozenset({mine.id}))
    assert dict(await queued(working))["probe:forgotten"] == "PENDING"  # it may be about to start
    await asyncio.to_thread(mine.recover, frozenset({mine.id}))
    assert await finished(working, "probe:forgotten") == "SUCCESS"
    assert len(probe.seen) == 1


async def test_a_stopping_worker_finishes_its_jobs_and_unregisters(settings: Settings) -> None:
    async with running_node(settings, worker=True) as node:
        probe = worker_of(node).handlers["probe"] = Probe()
        await put(node, "last")
        await probe.times(1)
    async with running_node(settings) as after:
        assert await after.assent.database.read(lambda tx: tx[Workers].alive()) == []
        assert dict(await queued(after))["probe:last"] == "SUCCESS"
