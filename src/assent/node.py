"""A node: the database, the features registered on it, and the background jobs; `asgi` adds HTTP."""

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Generator, Sequence
from functools import partial

import sqlalchemy as sa
import structlog
from argon2 import PasswordHasher

from assent.audit import feature as audit
from assent.breakpoints import feature as breakpoints
from assent.db.postgres import DatabaseClock, PostgresDatabase
from assent.db.postgres import engine as postgres_engine
from assent.db.sqlite import SqliteDatabase, WriteLock, locked_engine
from assent.db.transaction import Transaction
from assent.delivery import feature as delivery
from assent.http.readiness import Readiness
from assent.http.waiters import Hub
from assent.installation import keyring_of
from assent.kernel.clock import SystemClock
from assent.kernel.ids import TimeOrderedIds
from assent.kernel.outbound import Outbound
from assent.kernel.ports import Clock, Database, Hint, Ids
from assent.kernel.settings import Settings
from assent.kernel.telemetry import Metrics, about, tracing
from assent.people import feature as people
from assent.people.authenticator import Authenticator
from assent.people.store.tokens import Tokens
from assent.platform import queue
from assent.platform.due_jobs import Timekeeper
from assent.platform.gauges import read_figures
from assent.platform.registry import Registry
from assent.platform.worker import Worker
from assent.platform.worker_presence import WorkerPresence
from assent.policy import feature as policy
from assent.runs import feature as runs
from assent.triggers import feature as triggers

FEATURES = (people, policy, breakpoints, runs, delivery, audit, triggers)
UPKEEP_SECONDS = 2.0
FIGURES_SECONDS = 5.0
_log = structlog.get_logger()


class Node(Registry):
    def __init__(  # noqa: PLR0913  # the options in which nodes differ
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
        worker: bool = False,
        reads_file: bool = True,
        read_only: bool = False,
        hasher: PasswordHasher | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.reads_file = reads_file
        self.hasher = hasher
        self.hub = Hub()
        self.metrics = Metrics()
        self.traces = tracing(settings.otel_endpoint)
        self.clock = clock or (DatabaseClock() if settings.database_url else SystemClock())
        self.ids = ids or TimeOrderedIds()
        self.engine, self.database = self._database(read_only=read_only)
        self.keyring = keyring_of(settings)
        if not read_only:  # a read-only node opens no secrets, and may not be allowed to read the keys
            self.keyring.load()
        self.outbound = Outbound(allow=settings.outbound_networks)
        self.readiness = Readiness(
            self.database,
            self.hub,
            folder=None if settings.database_url else settings.data_dir,
            min_free_mb=settings.min_free_mb,
            keys_missing=settings.keys_missing,
        )
        self.worker_id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}" if worker else None
        for feature in FEATURES:
            feature.register(self)
        self.timekeeper = Timekeeper(self.database, self.clock, self.due_jobs, patient=self.patient)
        self.database.watch(self.metrics.batch, lambda: self.nudge("triggers"))
        self.worker = self._worker(self.worker_id) if self.worker_id is not None else None
        self._tasks: list[asyncio.Task[None]] = []
        self.start_error: BaseException | None = None
        """Why `start` failed; `serve` raises it."""

    def _database(self, *, read_only: bool) -> tuple[sa.Engine, Database[Transaction]]:
        """Return the engine that DBOS uses, and Assent's own connections to the same database."""
        if self.settings.database_url:
            engine = postgres_engine(self.settings.database_url)
            return engine, PostgresDatabase(
                self.settings.database_url,
                clock=self.clock,
                ids=self.ids,
                jobs=queue.JobQueue(engine, self.traces.traceparent),
                on_commit=self._committed,
                on_hint=self.hub.wake,
            )
        lock = WriteLock(None if read_only else self.settings.write_lock_path)
        engine = locked_engine(self.settings.sqlite_path, lock)
        return engine, SqliteDatabase(
            self.settings.sqlite_path,
            lock=lock,
            clock=self.clock,
            ids=self.ids,
            jobs=queue.JobQueue(engine, self.traces.traceparent),
            on_commit=self._committed,
            read_only=read_only,
        )

    def _worker(self, worker_id: str) -> Worker:
        """Return the worker, which runs jobs from all nodes."""
        worker = Worker(
            self.engine,
            worker_id=worker_id,
            handlers=self.handlers,
            presence=WorkerPresence(self.database, host=socket.gethostname(), pid=os.getpid()),
            telemetry=(self.metrics, self.traces),
        )
        self.readiness.worker_is_well = worker.is_well
        return worker

    def _committed(self, hints: Sequence[Hint]) -> None:
        self.hub.wake(hints)
        self.metrics.committed(hints)
        for react in self.on_commit:
            react(hints)

    async def start(self) -> None:
        await self.database.start()
        loops = [self.timekeeper.run, self._upkeep, self._watch, *self.loops]
        self._tasks = [asyncio.ensure_future(loop()) for loop in loops]
        if self.worker is not None:
            for prepare in self.before_worker:
                await prepare()
            await self.worker.start()
            self._tasks += [asyncio.ensure_future(loop()) for loop in self.worker_loops]

    async def stop(self) -> None:
        # Stop everything that uses the database or outbound connections before closing them.
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.worker is not None:
            await self.worker.stop(patience=self.settings.drain_seconds)
        for stop in self.on_stop:
            await stop()
        await self.outbound.close()
        self.engine.dispose()
        await self.database.stop()
        await self.traces.stop()

    def nudge(self, job: str) -> None:
        self.timekeeper.nudge(job)

    async def _upkeep(self) -> None:
        """Record used tokens, close the connections of revoked tokens, and run the upkeep tasks of the features."""
        authenticator = self[Authenticator]
        while True:
            await asyncio.sleep(UPKEEP_SECONDS)
            with self.patient("upkeep"):
                used = authenticator.take_used()
                if used:
                    await self.database.write(partial(_touch, used=used))
                for token in self.hub.tokens():
                    if token.startswith("tok_") and not await authenticator.still_valid(token):
                        self.hub.cut(token)
            for name, look in self.upkeep.items():
                with self.patient(name):
                    await look()

    async def _watch(self) -> None:
        """Refresh the metrics from the database regularly, so that scraping them never waits for the database."""
        while True:
            with self.patient("figures"):
                await self.measure()
            await asyncio.sleep(FIGURES_SECONDS)

    async def measure(self) -> None:
        self.metrics.figures(await read_figures(self.database, self.clock.now()))

    @contextlib.contextmanager
    def patient(self, job: str) -> Generator[None, None, None]:
        with about(job=job):
            try:
                yield
            except Exception:  # noqa: BLE001  # the loop must continue
                self.metrics.job_failed(job)
                _log.exception("background_job_failed")


def _touch(tx: Transaction, *, used: Sequence[tuple[str, int]]) -> None:
    tx[Tokens].touch(used)
