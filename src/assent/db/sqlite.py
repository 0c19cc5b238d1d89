"""SQLite: one file, one writer thread with group commit, and separate readers.

SQLite before 3.51.3 can corrupt a WAL when one connection resets it while another writes. So all writes and
checkpoints, in any process, happen under one lock, and automatic checkpoints are off.
"""

import asyncio
import contextlib
import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
import structlog
from sqlalchemy import event

from assent.core.errors import Unavailable
from assent.db.group_commit import GroupCommit
from assent.db.read_only import connect_immutable
from assent.db.sql import Row
from assent.db.sqlalchemy_bridge import adopted
from assent.db.transaction import Transaction
from assent.kernel.ports import Clock, Hint, Ids, Jobs

Result = TypeVar("Result")

READERS = 4
CHECKPOINT_BYTES = 4 * 1024 * 1024
DISK = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_BUSY,
    }
)
"""Error codes of a full or broken disk, or an inaccessible file; any other error is a bug."""
DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
DAMAGED_TEXT = "The database file is damaged. The operator must restore a backup; see the server log for details."
_log = structlog.get_logger()


def damage_in(error: BaseException | None) -> str | None:
    """Return SQLite's message about a damaged file, if the error or one of its causes contains such a message."""
    while error is not None:
        driver = getattr(error, "orig", None) or error  # SQLAlchemy wraps the driver's error
        if isinstance(driver, sqlite3.Error) and getattr(driver, "sqlite_errorcode", 0) & 0xFF in DAMAGED:
            return str(driver)
        error = error.__cause__
    return None


def create_private(path: Path) -> None:
    """Create the file for its owner only; SQLite gives its log the same permissions."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


class WriteLock:
    """Held while writing to the file: a lock between the threads of this process, and a file lock between processes."""

    def __init__(self, path: Path | None) -> None:
        """Without a path, other processes are not locked out; this is for data that is never written to."""
        self._threads = threading.Lock()
        self._file = None if path is None else os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def acquire(self) -> None:
        # A file lock does not exclude other threads of this process, because they share the open file.
        self._threads.acquire()
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def release(self) -> None:
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._threads.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=512)
    with_pragmas(connection)
    return connection


def connect_reader(path: Path, *, read_only: bool) -> sqlite3.Connection:
    if not read_only:
        connection = connect(path)
    else:
        connection = connect_immutable(path)
        for pragma in READING:
            connection.execute(f"PRAGMA {pragma}").close()
    connection.execute("PRAGMA query_only = ON").close()
    return connection


READING = ("trusted_schema = OFF", "mmap_size = 0", "cache_size = -65536", "temp_store = MEMORY")


def with_pragmas(connection: sqlite3.Connection) -> None:
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "wal_autocheckpoint = 0",
        # A restarted log is truncated to this size, so a longer log contains changes that were not checkpointed yet.
        f"journal_size_limit = {CHECKPOINT_BYTES}",
        "foreign_keys = ON",
        # Without this, INSERT OR REPLACE would remove a row without firing the triggers that protect it.
        "recursive_triggers = ON",
        "busy_timeout = 5000",
        *READING,
    ):
        connection.execute(f"PRAGMA {pragma}").close()


class SqliteSession:
    dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection, alchemy: sa.Connection | None = None) -> None:
        self.connection = connection
        self.dirty = False
        self.recorded = 0
        self.news = False
        self._alchemy = alchemy

    def alchemy(self) -> sa.Connection:
        assert self._alchemy is not None, "readers cannot enqueue jobs"
        return self._alchemy

    def all(self, statement: str, params: Mapping[str, Any]) -> Sequence[Row]:
        return self.connection.execute(statement, params).fetchall()

    def change(self, statement: str, params: Mapping[str, Any]) -> int:
        touched = self.connection.execute(statement, params).rowcount
        self.dirty = self.dirty or touched > 0
        return touched

    def write(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self.dirty = True
        if len(rows) == 1:
            self.connection.execute(statement, rows[0])
        else:
            self.connection.executemany(statement, rows)

    def each(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> Sequence[Sequence[Row]]:
        self.dirty = True
        return [self.all(statement, row) for row in rows]


class SqliteWriter:
    """The only connection that writes."""

    def __init__(self, path: Path, lock: WriteLock, open_transaction: Callable[[SqliteSession], Transaction]) -> None:
        self._wal = Path(f"{path}-wal")
        self._lock = lock
        self._connection = connect(path)
        self._tx = open_transaction(SqliteSession(self._connection, adopted(self._connection, "sqlite://")))
        self._held = False

    def begin(self) -> Transaction:
        self._lock.acquire()
        self._held = True
        self._connection.execute("BEGIN IMMEDIATE")
        return self._tx

    def commit(self) -> None:
        self._connection.execute("COMMIT")
        # The commit is final: if the checkpoint fails, the next one catches up.
        with contextlib.suppress(OSError, sqlite3.Error):
            self._checkpoint()
        self._release()

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._release()

    def close(self) -> None:
        # Closing the last connection runs a checkpoint.
        with self._lock:
            self._connection.close()

    def passing(self, error: Exception) -> bool:
        del error
        return False  # the only writer has no conflicts

    def _checkpoint(self) -> None:
        # Decide by the size of the log. Its index would be more precise, but closing one of SQLite's files drops all of
        # this process's locks on it.
        if self._wal.stat().st_size > CHECKPOINT_BYTES:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").close()

    def _release(self) -> None:
        if self._held:
            self._held = False
            self._lock.release()


class LockedConnection(sqlite3.Connection):
    """A connection of DBOS, which writes only while it holds our write lock."""

    lock: WriteLock | None = None
    held = False

    def begin(self) -> None:
        assert self.lock is not None, "set when the connection is opened"
        self.lock.acquire()
        self.held = True
        self.execute("BEGIN IMMEDIATE").close()

    def commit(self) -> None:
        super().commit()
        self._release()

    def rollback(self) -> None:
        super().rollback()
        self._release()

    def close(self) -> None:
        super().close()
        self._release()

    def _release(self) -> None:
        if self.held and self.lock is not None:
            self.held = False
            self.lock.release()


def locked_engine(path: Path, lock: WriteLock) -> sa.Engine:
    """Return the engine that DBOS uses on SQLite, with our file, our settings and our write lock."""

    def open_connection() -> LockedConnection:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=LockedConnection)
        with_pragmas(connection)
        connection.lock = lock
        return connection

    # One connection per DBOS thread and some to spare, so that no job fails for lack of a connection.
    engine = sa.create_engine(
        "sqlite://", creator=open_connection, poolclass=sa.QueuePool, pool_size=4, max_overflow=20, pool_timeout=300
    )

    @event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        raw = connection.connection.dbapi_connection
        assert isinstance(raw, LockedConnection), "opened by open_connection"
        raw.begin()

    return engine


def schema_engine(path: Path) -> sa.Engine:
    """Return the engine that changes the tables in one transaction; the caller holds the write lock."""
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.NullPool)

    @event.listens_for(engine, "connect")
    def leave_transactions_to_us(connection: sqlite3.Connection, _: object) -> None:
        # Python would begin a transaction before changing rows but not tables: a kill could leave partial changes.
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


class SqliteDatabase:
    """The default database, which is embedded in a single node."""

    dialect = "sqlite"

    def __init__(  # noqa: PLR0913  # the parts of the database
        self,
        path: Path,
        *,
        lock: WriteLock,
        clock: Clock,
        ids: Ids,
        jobs: Jobs,
        on_commit: Callable[[Sequence[Hint]], None],
        read_only: bool = False,
    ) -> None:
        self._jobs = jobs
        self.path = path
        self._read_only = read_only
        self.lock = lock
        self._clock = clock
        self._ids = ids
        self._commits = GroupCommit(
            lambda: SqliteWriter(path, self.lock, self._transaction), threads=1, on_commit=on_commit
        )
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="reader", initializer=self._open_reader)
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._keys: sqlite3.Connection | None = None
        self.damaged = False
        """Set when SQLite reports that the file is damaged; only a restart with other data resets it."""

    def watch(self, on_batch: Callable[[int, float], None], on_news: Callable[[], None] | None = None) -> None:
        self._commits.on_batch = on_batch
        self._commits.on_news = on_news

    def _transaction(self, session: SqliteSession) -> Transaction:
        return Transaction(session, self._clock, self._ids, self._jobs)

    def _open_reader(self) -> None:
        self._local.connection = connect_reader(self.path, read_only=self._read_only)
        self._opened.append(self._local.connection)

    async def start(self) -> None:
        self._keys = connect_reader(self.path, read_only=self._read_only)
        if not self._read_only:
            self._commits.start()

    async def stop(self) -> None:
        if not self._read_only:
            await self._commits.stop()
        self._readers.shutdown()
        # Closing the last connection runs a checkpoint.
        with self.lock:
            for connection in (*self._opened, self._keys):
                if connection is not None:
                    connection.close()
        self.lock.close()

    async def write(self, use_case: Callable[[Transaction], Result], *, locks: str = "") -> Result:
        if self._read_only:
            msg = f"The data in {self.path.parent} is read-only."
            raise Unavailable(msg)
        try:
            return await self._commits.run(use_case, locks=locks)
        except sqlite3.DatabaseError as error:
            self._note_damage(error)
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in DISK:
                raise
            _log.error("disk_failed", error=str(error), code=error.sqlite_errorname)
            msg = "The disk is not accepting writes. Repeat the request with the same Idempotency-Key."
            raise Unavailable(msg) from error

    async def read(self, use_case: Callable[[Transaction], Result]) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, use_case)
        except sqlite3.DatabaseError as error:
            self._note_damage(error)
            raise

    def _read(self, use_case: Callable[[Transaction], Result]) -> Result:
        connection: sqlite3.Connection = self._local.connection
        connection.execute("BEGIN")
        try:
            return use_case(self._transaction(SqliteSession(connection)))
        finally:
            connection.execute("ROLLBACK")

    async def fetch(self, statement: str, params: Mapping[str, Any]) -> Sequence[Row]:
        """Fetch on the event loop's thread, because a key lookup takes less time than switching threads."""
        assert self._keys is not None, "start the database first"
        try:
            return self._keys.execute(statement, params).fetchall()
        except sqlite3.DatabaseError as error:
            self._note_damage(error)
            raise

    async def fetch_page(self, statement: str, params: Mapping[str, Any]) -> Sequence[Row]:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._fetch_page, statement, params)
        except sqlite3.DatabaseError as error:
            self._note_damage(error)
            raise

    def _fetch_page(self, statement: str, params: Mapping[str, Any]) -> Sequence[Row]:
        connection: sqlite3.Connection = self._local.connection
        return connection.execute(statement, params).fetchall()

    def _note_damage(self, error: sqlite3.DatabaseError) -> None:
        """Turn SQLite's report of a damaged file into an error that does not look like a bug."""
        if damage_in(error) is None:
            return
        if not self.damaged:
            _log.error("database_damaged", file=str(self.path), error=str(error), todo="Restore a backup.")
        self.damaged = True
        raise Unavailable(DAMAGED_TEXT) from error
