"""A worker: takes jobs from the queue, sends heartbeats, and recovers the jobs of dead workers."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import sqlalchemy as sa
import structlog
from dbos import DBOS, DBOSClient, DBOSConfig

from assent.kernel.ports import Presence
from assent.kernel.telemetry import Metrics
from assent.kernel.telemetry.traces import Untraced
from assent.platform.queue import APPLICATION, QUEUE, QUEUES, SCHEMA, SERIALIZER, VERSION, WORKFLOW

Handler: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]

BEAT_SECONDS = 5.0
SILENCE_SECONDS = 20.0
TIDY_SECONDS = 60.0
COUNTED = 1_000
TIDY_BATCH = 200
CONCURRENCY = 64
THREADS = 16
POLL_SECONDS = 0.2
WRITING_SECONDS = 2.0
MOST_STARTS = 20
"""Maximum number of starts of a job that crashes its worker each time."""
FINISHED = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]
_log = structlog.get_logger()

# DBOS supports one application per process; this is the worker that runs its jobs.
_current: "Worker | None" = None


@DBOS.step(name="assent.handle", retries_allowed=True, interval_seconds=0.5, backoff_rate=2.0, max_attempts=6)
async def _handle(name: str, payload: dict[str, Any]) -> None:
    """Run the job; failures are retried within a minute. Longer waits are separate jobs with a delay."""
    assert _current is not None, "jobs run only inside a worker"
    await _current.handlers[name](payload)


@DBOS.workflow(name=WORKFLOW, max_recovery_attempts=MOST_STARTS)
async def _job(name: str, payload: dict[str, Any], traceparent: str | None = None) -> None:
    assert _current is not None, "jobs run only inside a worker"
    with _current.working_on(name, DBOS.workflow_id or name, traceparent):
        await _handle(name, payload)


class Worker:
    def __init__(
        self,
        engine: sa.Engine,
        *,
        worker_id: str,
        handlers: Mapping[str, Handler],
        presence: Presence,
        telemetry: tuple[Metrics, Untraced],
    ) -> None:
        self._engine = engine
        self.id = worker_id
        self.handlers = dict(handlers)
        self._presence = presence
        self._metrics, self._traces = telemetry
        self._running: set[str] = set()
        self._idle: set[str] = set()
        self._seen_at = 0.0
        self._client = DBOSClient(
            system_database_engine=engine,
            dbos_system_schema=SCHEMA,
            serializer=SERIALIZER,
            application_name=APPLICATION,
            lazy=True,
        )
        self._dbos: DBOS | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def is_well(self) -> bool:
        """Whether the last heartbeat is recent enough for other workers to consider this worker alive."""
        return time.monotonic() - self._seen_at < SILENCE_SECONDS

    @contextlib.contextmanager
    def working_on(self, name: str, job_id: str, traceparent: str | None) -> Generator[None, None, None]:
        self._running.add(job_id)
        try:
            with self._traces.job(name, traceparent=traceparent, job_id=job_id):
                yield
        except Exception as error:
            self._metrics.job_failed(name)
            _log.warning("job_failed", job=name, job_id=job_id, error=str(error))
            raise
        finally:
            self._running.discard(job_id)

    async def start(self) -> None:
        """Start inside the event loop that serves requests, because DBOS runs jobs on the loop that launches it."""
        global _current  # noqa: PLW0603  # as in DBOS
        _current = self
        # Register as alive before taking the first job, so that no other worker recovers the job.
        await self._beat()
        config: DBOSConfig = {
            "name": APPLICATION,
            "system_database_engine": self._engine,
            "dbos_system_schema": SCHEMA,
            "serializer": SERIALIZER,
            "application_version": VERSION,
            "executor_id": self.id,
            "max_executor_threads": THREADS,
            "log_level": "WARNING",
            "run_migrations": False,
            "scheduler_polling_interval_sec": 3600.0,
        }
        self._dbos = DBOS(config=config)
        DBOS.launch()
        for queue in (QUEUE, *QUEUES.values()):
            await DBOS.register_queue_async(
                queue, worker_concurrency=CONCURRENCY, polling_interval_sec=POLL_SECONDS, on_conflict="always_update"
            )
        self._tasks = [asyncio.create_task(self._tend()), asyncio.create_task(self._tidy())]

    async def stop(self, *, patience: float) -> None:
        """Take no new jobs, let running ones finish, and leave the rest to other workers."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        wait = max(1, round(patience)) if self._running else 0
        if not wait:
            await self._written_down()
        await asyncio.to_thread(DBOS.destroy, workflow_completion_timeout_sec=wait)
        # DBOS made its own threads the loop's default executor, and has just shut them down.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
        await self._presence.leave(self.id)

    async def _written_down(self) -> None:
        """Give DBOS a moment to record that the last jobs are done, because it polls only once a second."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WRITING_SECONDS):
                while self._active():  # noqa: ASYNC110  # DBOS offers nothing to wait for
                    await asyncio.sleep(0.01)

    def _active(self) -> frozenset[str]:
        """Return the jobs that DBOS is running, for which it has no public API."""
        active = self._dbos._active_workflows_set if self._dbos else None  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return frozenset(active.activeList() if active is not None else ())

    async def _beat(self) -> frozenset[str]:
        alive = await self._presence.beat(self.id)
        self._seen_at = time.monotonic()
        self._metrics.workers(len(alive))
        return alive

    async def _tend(self) -> None:
        """Send heartbeats, recover the jobs of dead workers, and measure the queue."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            try:
                alive = await self._beat()
                await asyncio.to_thread(self.recover, alive)
                await asyncio.to_thread(self._measure)
            except Exception:  # noqa: BLE001  # the worker loop
                self._metrics.job_failed("recovery")
                _log.exception("background_job_failed", job="recovery")

    def recover(self, alive: frozenset[str]) -> None:
        running = self._client.list_workflows(status="PENDING", load_input=False, load_output=False)
        dead = sorted({each.executor_id for each in running if each.executor_id} - alive)
        if dead:
            # DBOS moves only jobs that still belong to the dead workers, so it is safe if two workers do this at once.
            # The public API has no equally safe call, and the version of DBOS is pinned.
            recovered = DBOS._recover_pending_workflows(dead)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            _log.warning("jobs_recovered", workers=dead, jobs=len(recovered))
        self._put_back({each.workflow_id: each.queue_name or QUEUE for each in running if each.executor_id == self.id})

    def _put_back(self, ours: Mapping[str, str]) -> None:
        """Requeue jobs that are assigned to us but not running: the database failed right after assigning them."""
        idle = ours.keys() - self._running - self._active()
        # A job that was idle only once may be about to start.
        forgotten = sorted(idle & self._idle)
        for queue in {ours[each] for each in forgotten}:
            self._client.resume_workflows([each for each in forgotten if ours[each] == queue], queue_name=queue)
            _log.warning("jobs_requeued", jobs=len(forgotten), queue=queue)
        self._idle = idle - set(forgotten)

    def _measure(self) -> None:
        waiting = self._client.list_workflows(
            status="ENQUEUED", queue_name=[QUEUE, *QUEUES.values()], limit=COUNTED, load_input=False, load_output=False
        )
        # A job's delay does not count: its wait starts when a worker could have taken it.
        since = [max(each.created_at or 0, each.updated_at or 0) / 1000 for each in waiting]
        lag = max(0.0, time.time() - min(since)) if since else 0.0
        self._metrics.queue({"waiting": len(waiting), "running": len(self._running)}, lag)

    async def _tidy(self) -> None:
        """Delete finished jobs, which DBOS would keep forever."""
        while True:
            await asyncio.sleep(TIDY_SECONDS)
            try:
                while await asyncio.to_thread(self.delete_finished) == TIDY_BATCH:
                    pass
            except Exception:  # noqa: BLE001  # the worker loop
                self._metrics.job_failed("tidy")
                _log.exception("background_job_failed", job="tidy")

    def delete_finished(self) -> int:
        finished = self._client.list_workflows(status=FINISHED, limit=TIDY_BATCH, load_input=False, load_output=False)
        if finished:
            self._client.delete_workflows([each.workflow_id for each in finished])
        return len(finished)
