"""PostgreSQL: psycopg writes on threads, asyncpg reads and listens on the event loop; any number of nodes."""

import asyncio
import contextlib
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar, cast

import asyncpg
import psycopg
import sqlalchemy as sa
import structlog

from assent.core.breakpoint import Status
from assent.core.errors import Unavailable
from assent.db.group_commit import GroupCommit, InDoubt
from assent.db.sql import Row, for_asyncpg, for_psycopg
from assent.db.sqlalchemy_bridge import adopted
from assent.db.transaction import Transaction
from assent.kernel.clock import steady
from assent.kernel.ports import Clock, Hint, Ids, Jobs

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

Result = TypeVar("Result")

WRITERS = 2
READERS = 4
PAGE_CONNECTIONS = 4
CHANNEL = "assent"
QUIET_CHANNEL = "assent_quiet"
"""For hints that only inbox pages need. Nodes with older versions do not listen to it or have those pages."""
MAX_NOTIFY = 7_000
MEASUREMENTS = 3
PASSING = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.LockNotAvailable,
)
UNREACHABLE = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.exceptions.OperatorInterventionError,
    # Raised by asyncpg if a connection is cut while it is being acquired.
    asyncpg.InternalClientError,
)
SETTINGS = "-c lock_timeout=5s -c statement_timeout=30s -c idle_in_transaction_session_timeout=60s"
_log = structlog.get_logger()


class PostgresSession:
    dialect = "postgresql"

    def __init__(
        self,
        connection: psycopg.Connection[tuple[Any, ...]],
        alchemy: Callable[[], sa.Connection] | None = None,
    ) -> None:
        self.connection = connection
        self.dirty = False
        self.recorded = 0
        self.news = False
        self._alchemy = alchemy

    def alchemy(self) -> sa.Connection:
        assert self._alchemy is not None, "readers cannot enqueue jobs"
        return self._alchemy()

    def all(self, statement: str, params: Mapping[str, Any]) -> Sequence[Row]:
        return self.connection.execute(for_psycopg(statement), params).fetchall()

    def change(self, statement: str, params: Mapping[str, Any]) -> int:
        # In a pipeline, a cursor knows its row count only from the rows it returns.
        touched = len(self.connection.execute(for_psycopg(f"{statement} RETURNING 1"), params).fetchall())
        self.dirty = self.dirty or touched > 0
        return touched

    def write(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self.dirty = True
        for row in rows:
            self.connection.execute(for_psycopg(statement), row)

    def each(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> Sequence[Sequence[Row]]:
        self.dirty = True
        # In a pipeline, all statements are sent before the first result is awaited.
        sent = [self.connection.execute(for_psycopg(statement), row) for row in rows]
        return [cursor.fetchall() for cursor in sent]


class PostgresWriter:
    """The connection of a writer thread; it reconnects if PostgreSQL was unavailable."""

    def __init__(self, url: str, open_transaction: Callable[[PostgresSession], Transaction]) -> None:
        self._url = url
        self._open_transaction = open_transaction
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._adopted: sa.Connection | None = None
        self._pipeline = contextlib.ExitStack()

    def begin(self) -> Transaction:
        if self._connection is None or self._connection.closed:
            self._connection = _connect(self._url)
            self._adopted = adopted(self._connection, "postgresql+psycopg://")
            # Adopting the connection ran a query, which began a transaction.
            self._connection.rollback()
        # In a pipeline, statements are sent without waiting for results that are not needed.
        self._pipeline.enter_context(self._connection.pipeline())
        return self._open_transaction(PostgresSession(self._connection, self._alchemy))

    def _alchemy(self) -> sa.Connection:
        """End the pipeline for the rest of the transaction, because SQLAlchemy reads each result immediately."""
        assert self._adopted is not None, "call begin first"
        self._pipeline.close()
        return self._adopted

    def commit(self) -> None:
        assert self._connection is not None, "call begin first"
        try:
            self._connection.commit()
        except psycopg.OperationalError as error:
            # With a code, PostgreSQL has reported that it rolled back; without one, the outcome is unknown.
            if error.sqlstate is None:
                raise InDoubt from error
            raise
        self._pipeline.close()

    def rollback(self) -> None:
        with contextlib.suppress(psycopg.Error):  # the error that spoiled the pipeline has already been raised
            self._pipeline.close()
        self._pipeline = contextlib.ExitStack()
        if self._connection is not None:
            try:
                self._connection.rollback()
            except psycopg.Error:
                self._connection.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def passing(self, error: Exception) -> bool:
        return isinstance(error, PASSING)


def engine(url: str) -> sa.Engine:
    """Return the engine that DBOS uses on PostgreSQL, with a small connection pool."""
    return sa.create_engine(
        alchemy_url(url),
        pool_size=6,
        max_overflow=2,
        # DBOS has more threads than connections, so its jobs have to wait for one instead of failing.
        pool_timeout=300,
        pool_pre_ping=True,
        connect_args={"options": SETTINGS, "connect_timeout": 5, "application_name": "assent-worker"},
    )


def alchemy_url(url: str) -> str:
    plain = url.replace("postgres://", "postgresql://", 1)
    return plain.replace("postgresql://", "postgresql+psycopg://", 1)


def _connect(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    try:
        return psycopg.connect(url, options=SETTINGS, connect_timeout=5, application_name="assent")
    except psycopg.OperationalError as error:
        msg = "PostgreSQL is not responding."
        raise Unavailable(msg) from error


class DatabaseClock:
    """The time of PostgreSQL on every node: its last measured time plus the time elapsed since.

    The machine's own clock may be wrong and may jump, so it is used only until PostgreSQL has been asked.
    """

    def __init__(self, system: Callable[[], int] = time.time_ns) -> None:
        self._offset = system() // 1000 - steady()

    def now(self) -> int:
        return steady() + self._offset

    async def measure(self, connection: "asyncpg.Connection | PoolConnectionProxy") -> None:
        """Measure several times and use the fastest measurement, which is the most accurate."""
        _, self._offset = min([await _asked(connection) for _ in range(MEASUREMENTS)])


async def _asked(connection: "asyncpg.Connection | PoolConnectionProxy") -> tuple[int, int]:
    """Return the duration of the query, and how far PostgreSQL's clock was ahead of ours at its midpoint."""
    before = steady()
    there = await connection.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
    after = steady()
    return after - before, there - (before + after) // 2


class PostgresDatabase:
    """The PostgreSQL database, which any number of nodes can share."""

    dialect = "postgresql"
    damaged = False

    def __init__(
        self,
        url: str,
        *,
        clock: Clock,
        ids: Ids,
        jobs: Jobs,
        on_commit: Callable[[Sequence[Hint]], None],
        on_hint: Callable[[Sequence[Hint]], None],
    ) -> None:
        self.url = url
        self._clock = clock
        self._ids = ids
        self._jobs = jobs
        self._on_commit = on_commit
        self._on_hint = on_hint
        self._commits = GroupCommit(
            lambda: PostgresWriter(url, self._transaction), threads=WRITERS, on_commit=self._committed
        )
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="reader")
        self._local = threading.local()
        self._opened: list[psycopg.Connection[tuple[Any, ...]]] = []
        self._keys: asyncpg.Pool | None = None
        self._pages: asyncpg.Pool | None = None
        self._node = secrets.token_hex(8)
        self._unsent: list[Hint] = []
        self._unsent_ready = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def watch(self, on_batch: Callable[[int, float], None], on_news: Callable[[], None] | None = None) -> None:
        self._commits.on_batch = on_batch
        self._commits.on_news = on_news

    def _transaction(self, session: PostgresSession) -> Transaction:
        return Transaction(session, self._clock, self._ids, self._jobs)

    async def start(self) -> None:
        self._keys = await _pool(self.url, 2)
        self._pages = await _pool(self.url, PAGE_CONNECTIONS)
        self._commits.start()
        async with self._keys.acquire() as connection:
            if isinstance(self._clock, DatabaseClock):
                await self._clock.measure(connection)
        self._tasks = [asyncio.create_task(_stay_connected(self.url, use)) for use in (self._listen, self._notify)]

    async def stop(self) -> None:
        await self._commits.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._readers.shutdown()
        for connection in self._opened:
            connection.close()
        for pool in (self._keys, self._pages):
            if pool is not None:
                await pool.close()

    async def write(self, use_case: Callable[[Transaction], Result], *, locks: str = "") -> Result:
        try:
            return await self._commits.run(use_case, locks=locks)
        except psycopg.OperationalError as error:
            msg = (
                "PostgreSQL stopped responding; the change may or may not have been saved. Repeat the "
                "request with the same Idempotency-Key."
            )
            raise Unavailable(msg) from error

    async def read(self, use_case: Callable[[Transaction], Result]) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, use_case)
        except psycopg.OperationalError as error:
            msg = "PostgreSQL is not responding."
            raise Unavailable(msg) from error

    def _read(self, use_case: Callable[[Transaction], Result]) -> Result:
        connection: psycopg.Connection[tuple[Any, ...]] | None = getattr(self._local, "connection", None)
        if connection is None or connection.closed:
            connection = _connect(self.url)
            self._local.connection = connection
            self._opened.append(connection)
        try:
            return use_case(self._transaction(PostgresSession(connection)))
        finally:
            connection.rollback()

    async def fetch(self, statement: str, params: Mapping[str, Any]) -> Sequence[Row]:
        return await self._fetch(self._keys, statement, params)

    async def fetch_page(self, statement: str, params: Mapping[str, Any]) -> Sequence[Row]:
        return await self._fetch(self._pages, statement, params)

    async def _fetch(self, pool: "asyncpg.Pool | None", statement: str, params: Mapping[str, Any]) -> Sequence[Row]:
        assert pool is not None, "start the database first"
        text, names = for_asyncpg(statement)
        try:
            async with pool.acquire() as connection:
                found = await _or_cut(connection, text, [params[name] for name in names])
        except UNREACHABLE as error:
            msg = "PostgreSQL is not responding."
            raise Unavailable(msg) from error
        return cast("Sequence[Row]", found)

    def _committed(self, hints: Sequence[Hint]) -> None:
        self._on_commit(hints)
        self._unsent.extend(hints)
        self._unsent_ready.set()

    async def _notify(self, connection: asyncpg.Connection) -> None:
        """Notify other nodes in batches after the commit: NOTIFY in the transaction would halve the throughput."""
        while True:
            while self._unsent:
                channel = QUIET_CHANNEL if self._unsent[-1].quiet else CHANNEL
                await connection.execute("SELECT pg_notify($1, $2)", channel, f"{self._node}\n{_pack(self._unsent)}")
            await self._unsent_ready.wait()
            self._unsent_ready.clear()

    async def _listen(self, connection: asyncpg.Connection) -> None:
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        for channel in (CHANNEL, QUIET_CHANNEL):
            await connection.add_listener(channel, self._heard)
        while not lost.is_set():
            # Measure regularly, because the two clocks drift apart.
            if isinstance(self._clock, DatabaseClock):
                await self._clock.measure(connection)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(lost.wait(), 10)

    def _heard(self, _: object, __: int, channel: str, payload: object) -> None:
        sender, _, hints = str(payload).partition("\n")
        if sender != self._node:  # our own hints were handled when they were committed
            self._on_hint(_unpack(hints, quiet=channel == QUIET_CHANNEL))


async def _or_cut(connection: "PoolConnectionProxy", statement: str, values: list[Any]) -> list[asyncpg.Record]:
    """Run a statement; a connection with a broken protocol state is terminated, so that the pool does not reuse it."""
    try:
        return await connection.fetch(statement, *values)
    except asyncpg.InternalClientError:
        connection.terminate()
        raise


async def _pool(url: str, size: int) -> asyncpg.Pool:
    async def keep(_: asyncpg.Connection) -> None:
        """Skip the reset: our connections have no state, and the query would cost as much as a read."""

    pool: asyncpg.Pool = await asyncpg.create_pool(
        url, min_size=1, max_size=size, reset=keep, command_timeout=30, server_settings={"application_name": "assent"}
    )
    return pool


async def _stay_connected(url: str, use: Callable[[asyncpg.Connection], Awaitable[None]]) -> None:
    """Use a connection, and open a new one whenever it breaks."""
    while True:
        try:
            connection: asyncpg.Connection = await asyncpg.connect(url, timeout=5)
            try:
                await use(connection)
            finally:
                connection.terminate()
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            _log.warning("postgres_connection_lost", error=str(error))
        await asyncio.sleep(0.5)


def _pack(hints: list[Hint]) -> str:
    """Remove as many hints from the list as one notification can contain; quiet hints are sent separately."""
    lines: list[str] = []
    size = 0
    quiet = hints[-1].quiet
    while hints and hints[-1].quiet is quiet and size < MAX_NOTIFY:
        hint = hints.pop()
        lines.append(f"{hint.project} {hint.breakpoint_id} {hint.status.value} {hint.version}")
        size += len(lines[-1]) + 1
    return "\n".join(lines)


def _unpack(message: str, *, quiet: bool = False) -> list[Hint]:
    return [
        Hint(project, breakpoint_id, Status(status), int(version), quiet=quiet)
        for project, breakpoint_id, status, version in (line.split(" ") for line in message.splitlines())
    ]
