"""Reads the original service's SQLite database, and never writes to it."""

import contextlib
import sqlite3
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from assent.core.errors import AssentError

BATCH = 200
WANTED = {
    "breakpoints": (
        "id", "status", "agent_id", "run_id", "title", "payload", "tags", "ttl_seconds", "created_at", "updated_at",
        "released_at", "expired_at", "cancelled_at",
    ),
    "feedback": ("id", "breakpoint_id", "author", "comment", "created_at"),
    "events": ("id", "breakpoint_id", "type", "actor", "timestamp", "metadata"),
}  # fmt: skip
ENDING = "SELECT breakpoint_id, type, actor, timestamp FROM events WHERE type IN ('released', 'expired', 'cancelled')"


class NotTheOriginals(AssentError):
    """The file cannot be read, or was not written by the original service."""

    code = "not_the_originals"


class Feedback(NamedTuple):
    author: Any
    comment: Any
    created_at: Any


class Ending(NamedTuple):
    type: Any
    actor: Any
    timestamp: Any


class Found(NamedTuple):
    """A breakpoint from the file, with unvalidated column values."""

    row: Mapping[str, Any]
    feedback: Sequence[Feedback]
    endings: Sequence[Ending]


class Original:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def batches(self) -> Iterator[list[Found]]:
        """Yield all breakpoints in batches, oldest first."""
        columns = WANTED["breakpoints"]
        # Sorted by id as well, so that every import has the same order.
        cursor = self._connection.execute(f"SELECT {', '.join(columns)} FROM breakpoints ORDER BY created_at, id")
        while rows := cursor.fetchmany(BATCH):
            found = [dict(zip(columns, row, strict=True)) for row in rows]
            ids = [row["id"] for row in found]
            feedback = self._by_parent(
                "SELECT breakpoint_id, author, comment, created_at FROM feedback WHERE breakpoint_id IN ({ids})"
                " ORDER BY created_at, rowid",
                ids,
            )
            endings = self._by_parent(f"{ENDING} AND breakpoint_id IN ({{ids}}) ORDER BY timestamp, rowid", ids)
            yield [
                Found(
                    row,
                    [Feedback(*each) for each in feedback[row["id"]]],
                    [Ending(*each) for each in endings[row["id"]]],
                )
                for row in found
            ]

    def _by_parent(self, statement: str, ids: Sequence[str]) -> dict[str, list[Sequence[Any]]]:
        found: dict[str, list[Sequence[Any]]] = defaultdict(list)
        for parent, *rest in self._connection.execute(statement.format(ids=", ".join("?" * len(ids))), ids):
            found[parent].append(rest)
        return found

    def extensions(self) -> list[str]:
        """Return the names of configured notification extensions, but not their settings, which contain secrets."""
        if "extensions_config" not in _tables(self._connection):
            return []
        return [str(name) for (name,) in self._connection.execute("SELECT name FROM extensions_config ORDER BY name")]


@contextlib.contextmanager
def opened(path: Path) -> Generator[Original, None, None]:
    """Open a consistent snapshot of the file for reading; the original service may be running."""
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    except sqlite3.Error as error:
        raise _unusable(path, error) from error
    with contextlib.closing(connection):
        try:
            connection.execute("BEGIN")
            _require_tables(connection, path)
            yield Original(connection)
        except sqlite3.Error as error:
            raise _unusable(path, error) from error


def _unusable(path: Path, error: sqlite3.Error) -> NotTheOriginals:
    return NotTheOriginals(f"{path} cannot be read: {error}. Provide the breakpoints.db of the original service.")


def _require_tables(connection: sqlite3.Connection, path: Path) -> None:
    there = _tables(connection)
    for table, columns in WANTED.items():
        missing = sorted(set(columns) - there.get(table, set()))
        if missing:
            msg = (
                f"{path} is not a database of the original service: its table {table} is missing {', '.join(missing)}."
            )
            raise NotTheOriginals(msg)


def _tables(connection: sqlite3.Connection) -> dict[str, set[str]]:
    statement = """
        SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'"""
    found: dict[str, set[str]] = defaultdict(set)
    for table, column in connection.execute(statement):
        found[table].add(column)
    return found
