"""SQLite backups: a snapshot of the database file, which includes the tables of DBOS."""

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

from assent.db.backup import COUNT, SELECT_CHAINS, SELECT_KEY_IDS, require_same, sync_folder, verified_heads
from assent.db.backup.archive import Archive, Manifest, Progress, Refused, Writer
from assent.db.epochs import void
from assent.db.server_lock import ServerLock
from assent.db.sqlite import WriteLock, connect

MEMBER = "assent.db"
PAGES = 2_000
CHUNK = 1024 * 1024
SELECT_TABLES = """
    SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
    AND name NOT LIKE 'assent\\_search%' ESCAPE '\\' ORDER BY name"""


class SqliteBackup:
    """`put_aside` is the path to which a restore moves existing data."""

    def __init__(self, path: Path, *, put_aside: Path) -> None:
        self._path = path
        self._put_aside = put_aside

    def save(self, archive: Writer, *, made_at: str, version: str, progress: Progress) -> Manifest:
        if not self._path.exists():
            msg = f"{self._path.parent} does not contain any data. Choose another directory with --data."
            raise Refused(msg)
        with tempfile.TemporaryDirectory(dir=archive.folder) as folder:
            copy = Path(folder) / MEMBER
            _touch(copy)
            self._copy(copy, progress)
            progress("verifying the copy", 0, 1)
            manifest = _described(copy, made_at=made_at, version=version)
            with archive.member(MEMBER) as write, copy.open("rb") as file:
                while chunk := file.read(CHUNK):
                    write(chunk)
        return manifest

    def _copy(self, copy: Path, progress: Progress) -> None:
        """Copy while other writers continue: take the snapshot under the write lock, then keep it open."""
        with _locking(self._path) as lock:
            with lock:
                source = connect(self._path)
                source.execute("PRAGMA query_only = ON").close()
                source.execute("BEGIN")
                # The snapshot is taken by the first read, not by BEGIN.
                source.execute("SELECT count(*) FROM sqlite_master").fetchall()
            try:
                target = sqlite3.connect(copy)
                with contextlib.closing(target):
                    source.backup(target, pages=PAGES, progress=_pages(progress), sleep=0)
                    # The copy must be a single file, without a write-ahead log next to it.
                    target.execute("PRAGMA journal_mode = DELETE").close()
            finally:
                with lock:  # closing the last connection runs a checkpoint
                    source.close()

    def restore(self, archive: Archive, *, force: bool, progress: Progress, epoch: int | None = None) -> Path | None:
        self._refuse_full(force=force)
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=self._path.parent, prefix=".assent-restore-") as folder:
            copy = Path(folder) / MEMBER
            _touch(copy)
            with copy.open("wb") as file:
                for chunk in archive.checked(MEMBER):
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            progress("verifying the restored data", 0, 1)
            expected = archive.manifest
            found = _described(copy, made_at=expected.created_at, version=expected.assent)
            for what in ("schema", "counts", "heads", "key_ids"):
                require_same(what, getattr(expected, what), getattr(found, what))
            if epoch is not None:
                _begin_epoch(copy, epoch)
            held = ServerLock(self._path.resolve().with_suffix(".server.lock"), self._path)
            with held, _locking(self._path) as lock, lock:
                aside = self._make_room(force=force)
                copy.rename(self._path)
        sync_folder(self._path.parent)
        return aside

    def _refuse_full(self, *, force: bool) -> None:
        log = Path(f"{self._path}-wal")
        if not self._path.exists() and log.exists():
            msg = (
                f"{log} belongs to a different database, and SQLite would merge it into this one. Move it elsewhere "
                "first."
            )
            raise Refused(msg)
        if not force and self._path.exists() and _holds_rows(self._path):
            msg = (
                f"{self._path.parent} already contains data. Choose another directory with --data, or stop its "
                "server and run this command again with --force, which moves the existing data aside."
            )
            raise Refused(msg)

    def _make_room(self, *, force: bool) -> Path | None:
        """Move existing data aside as a single complete file; refuse while it is in use."""
        self._refuse_full(force=force)
        if not self._path.exists():
            return None
        with contextlib.closing(sqlite3.connect(self._path, timeout=0, isolation_level=None)) as connection:
            # This merges the log into the file, and fails while another connection is open.
            try:
                alone = connection.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
            except sqlite3.OperationalError:
                alone = False
        if not alone:
            msg = f"A server is using the data in {self._path.parent}. Stop it and try again."
            raise Refused(msg)
        self._path.rename(self._put_aside)
        return self._put_aside


def _described(path: Path, *, made_at: str, version: str) -> Manifest:
    """Return the manifest of a database that is not in use; raise if the database is damaged or inconsistent."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        try:
            if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
                raise _unsound("SQLite's integrity check failed")
            if connection.execute("PRAGMA foreign_key_check").fetchall():
                raise _unsound("some rows refer to missing rows")
            tables = [name for (name,) in connection.execute(SELECT_TABLES)]
            (schema,) = connection.execute("SELECT version_num FROM assent_version").fetchone()
            secrets = "assent_secrets" in tables
            return Manifest(
                assent=version,
                kind="sqlite",
                schema=schema,
                created_at=made_at,
                counts={name: connection.execute(COUNT.format(table=f'"{name}"')).fetchone()[0] for name in tables},
                heads=verified_heads(connection.execute(SELECT_CHAINS.format(collation=""))),
                key_ids=[row[0] for row in connection.execute(SELECT_KEY_IDS)] if secrets else [],
            )
        except (sqlite3.Error, TypeError) as error:
            raise _unsound("it is not a valid Assent data file") from error


def _begin_epoch(path: Path, now: int) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        tables = frozenset(name for (name,) in connection.execute(SELECT_TABLES))
        connection.execute("BEGIN")
        void(tables, lambda statement: connection.execute(statement, {"now": now}))
        connection.execute("COMMIT")


def _unsound(how: str) -> Refused:
    return Refused(
        f"The database file is damaged: {how}. Nothing was written. Restore an earlier backup with assent "
        "restore, or recover readable data with the .recover command of sqlite3."
    )


def _holds_rows(path: Path) -> bool:
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        tables = [name for (name,) in connection.execute(SELECT_TABLES) if name.startswith("assent_")]
        return any(
            connection.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone()
            for name in tables
            if name != "assent_version"
        )


def _pages(progress: Progress) -> Callable[[int, int, int], None]:
    return lambda _, remaining, total: progress("copying", total - remaining, total)


@contextlib.contextmanager
def _locking(path: Path) -> Generator[WriteLock, None, None]:
    lock = WriteLock(path.resolve().with_suffix(".lock"))
    try:
        yield lock
    finally:
        lock.close()


def _touch(path: Path) -> None:
    """Create the file before it is filled, so that only its owner can ever read it."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
