"""Kills a migration before each of its statements and commits, and checks that the next attempt completes it.

`python -m tests.faults.migrating [--database URL] [--first 1] [--every 1]`. The program forks, so it must not have
threads.
"""

import argparse
import contextlib
import itertools
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from assent.installation import migrate, schema
from assent.kernel.settings import Settings
from tests.faults.load import rows
from tests.support.postgres import new_database

SHAPES = {
    "sqlite": ("SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2",),
    "postgresql": (
        (
            "SELECT table_schema, table_name, column_name, data_type, is_nullable, column_default"
            " FROM information_schema.columns WHERE table_schema IN ('public', 'dbos') ORDER BY 1, 2, 3"
        ),
        "SELECT schemaname, indexname, indexdef FROM pg_indexes WHERE schemaname IN ('public', 'dbos') ORDER BY 1, 2",
        "SELECT tgname, tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1, 2",
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint ORDER BY 1, 2",
    ),
}


@contextlib.contextmanager
def empty(url: str | None) -> Iterator[Settings]:
    """Yield settings for an empty database."""
    with tempfile.TemporaryDirectory(prefix="assent-migrating-") as folder:
        if url is None:
            yield Settings(data_dir=Path(folder))
            return
        with new_database(url) as database:
            yield Settings(data_dir=Path(folder), database_url=database)


def shape(settings: Settings) -> list[Any]:
    """Return everything that migrations create, and the recorded schema version."""
    asked = SHAPES["postgresql" if settings.database_url else "sqlite"]
    return [schema(settings), *(rows(settings, statement) for statement in asked)]


def migrated_by_a_child(settings: Settings, *, dies_at: int = 0) -> int:
    """Migrate in a child process that kills itself before its nth statement or commit; return its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    done = itertools.count(1)

    def step(*_: Any) -> None:
        if next(done) == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(sa.Engine, "before_cursor_execute", step)
    event.listen(sa.Engine, "commit", step)
    try:
        migrate(settings)
    except Exception as error:  # noqa: BLE001  # printed, and reported by the exit code
        sys.stdout.write(f"{error}\n")
        sys.stdout.flush()
        os._exit(1)
    os._exit(0)


def kills(url: str | None, *, first: int, every: int, seconds: float) -> tuple[int, list[str]]:
    """Return how many migrations were killed, and what was wrong after the next attempt."""
    deadline = time.monotonic() + seconds
    with empty(url) as settings:
        assert migrated_by_a_child(settings) == 0, "an undisturbed migration failed"
        wanted = shape(settings)
    killed, wrong = 0, list[str]()
    for n in itertools.count(first, every):
        with empty(url) as settings:
            if time.monotonic() > deadline or migrated_by_a_child(settings, dies_at=n) != -signal.SIGKILL:
                return killed, wrong
            killed += 1
            if migrated_by_a_child(settings) != 0:
                wrong.append(f"killed at {n}: the next one failed")
            elif shape(settings) != wanted:
                wrong.append(f"killed at {n}: the next one made other tables")
    raise AssertionError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.migrating", description=__doc__)
    parser.add_argument("--database", help="a PostgreSQL, in which databases can be made")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600.0)
    asked = parser.parse_args()
    killed, wrong = kills(asked.database, first=asked.first, every=asked.every, seconds=asked.seconds)
    sys.stdout.write(f"{killed} kills, {len(wrong)} wrong: {wrong[:5]}\n")
    return 0 if killed and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
