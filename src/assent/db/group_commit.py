"""Runs waiting use cases together in one commit, or one by one if a use case spoils the batch."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any, Generic, Protocol, TypeVar

from assent.core.errors import AssentError
from assent.db.transaction import Transaction
from assent.kernel.ports import Hint

Result = TypeVar("Result")

MAX_BATCH = 64
TRIES = 5


class Connection(Protocol):
    """A writer thread's connection."""

    def begin(self) -> Transaction: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def close(self) -> None: ...

    def passing(self, error: Exception) -> bool:
        """Return whether the error is temporary: nothing was stored, and the work may succeed if retried."""
        ...


class Job(Generic[Result]):
    __slots__ = ("context", "error", "future", "hints", "locks", "news", "result", "use_case")

    def __init__(
        self, use_case: Callable[[Transaction], Result], future: "asyncio.Future[Result]", locks: str = ""
    ) -> None:
        self.locks = locks
        self.use_case = use_case
        # Lets log lines and jobs from a writer thread refer to the request that caused them.
        self.context = copy_context()
        self.future = future
        self.result: Result | None = None
        self.error: BaseException | None = None
        self.hints: Sequence[Hint] = ()
        self.news = False

    def settle(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]


class Spoiled(Exception):
    """A use case failed after it had written, so its batch must be rolled back, and its use cases run one by one."""


class InDoubt(Exception):
    """A commit was sent but its response was lost: the batch may be committed, and must not run again."""


class GroupCommit:
    """Writer threads: use cases that arrive during a commit are included in the next one."""

    def __init__(
        self, connect: Callable[[], Connection], *, threads: int, on_commit: Callable[[Sequence[Hint]], None]
    ) -> None:
        self._connect = connect
        self._on_commit = on_commit
        self.on_batch: Callable[[int, float], None] | None = None
        self.on_news: Callable[[], None] | None = None
        self._queue: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._work, name=f"writer-{n}", daemon=True) for n in range(threads)]
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        for thread in self._threads:
            thread.start()

    async def run(self, use_case: Callable[[Transaction], Result], *, locks: str = "") -> Result:
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._queue.put(Job(use_case, future, locks))
        return await future

    async def stop(self) -> None:
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _work(self) -> None:
        connection = self._connect()
        try:
            while (first := self._queue.get()) is not None:
                jobs = self._in_order([first, *self._waiting()])
                started = time.perf_counter()
                self._attempt(connection, jobs)
                self._finish(jobs, time.perf_counter() - started)
        finally:
            connection.close()

    @staticmethod
    def _in_order(jobs: list[Job[Any]]) -> list[Job[Any]]:
        """Order by locks, because batches that take the same locks in different orders would deadlock on PostgreSQL."""
        return sorted(jobs, key=lambda job: job.locks)

    def _waiting(self) -> list[Job[Any]]:
        jobs: list[Job[Any]] = []
        while len(jobs) < MAX_BATCH:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                break
            if job is None:
                # Put the stop signal back, because the jobs before it must be completed first.
                self._queue.put(None)
                break
            jobs.append(job)
        return jobs

    def _attempt(self, connection: Connection, jobs: list[Job[Any]], *, tries: int = TRIES) -> list[Job[Any]]:
        try:
            self._together(connection, jobs)
        except InDoubt as error:
            connection.rollback()
            for job in jobs:
                self._fail(job, error)
        except Exception as error:  # noqa: BLE001  # the worker loop: every failure belongs to a caller
            connection.rollback()
            if len(jobs) == 1:
                if tries > 1 and connection.passing(error):
                    return self._attempt(connection, jobs, tries=tries - 1)
                self._fail(jobs[0], error)
            else:
                # Run each use case separately, so that it can affect only its own caller.
                for job in jobs:
                    self._attempt(connection, [job])
        return jobs

    def _together(self, connection: Connection, jobs: list[Job[Any]]) -> None:
        tx = connection.begin()
        tx.clear()
        for job in jobs:
            # The job may have been part of a batch that was rolled back.
            job.result, job.error, job.hints, job.news = None, None, (), False
            tx.session.dirty = False
            tx.session.news = False
            tx.session.recorded = 0
            tx.hints = []
            tx.by = None
            try:
                job.result = job.context.run(job.use_case, tx)
                job.hints = tuple(tx.hints)
                job.news = tx.session.news
            except AssentError as error:
                if tx.session.dirty:
                    raise Spoiled from error
                # Refused before anything was written, so the others can continue.
                job.error = error
        connection.commit()

    def _fail(self, job: Job[Any], error: Exception) -> None:
        job.result, job.hints, job.news = None, (), False
        # The caller needs the original error, not the one that describes its effect on the batch.
        job.error = error.__cause__ if isinstance(error, Spoiled | InDoubt) else error

    def _finish(self, jobs: list[Job[Any]], seconds: float) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, jobs, seconds)

    def _deliver(self, jobs: list[Job[Any]], seconds: float) -> None:
        if self.on_batch is not None:
            self.on_batch(len(jobs), seconds)
        hints = [hint for job in jobs for hint in job.hints]
        if hints:
            self._on_commit(hints)
        if self.on_news is not None and any(job.news for job in jobs):
            self.on_news()
        for job in jobs:
            # A caller may run in another event loop, and futures are not thread-safe.
            theirs = job.future.get_loop()
            if theirs is self._loop:
                job.settle()
            elif not theirs.is_closed():
                theirs.call_soon_threadsafe(job.settle)
