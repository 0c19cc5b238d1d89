"""The data behind the server's back: raw statements, with the locks picked as somebody with the file would."""

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
import psycopg

from assent.app import Assent
from assent.domain.canonical import GENESIS, link
from assent.settings import Settings
from assent.store.sql import for_psycopg
from assent.store.tables import metadata

Event = dict[str, Any]
EVENT = ("breakpoint_id", "seq", "type", "actor", "at", "metadata", "previous", "hash")


class Raw:
    """A connection of one's own; every statement is committed at once."""

    def __init__(self, settings: Settings) -> None:
        self.connection: sqlite3.Connection | psycopg.Connection[tuple[Any, ...]]
        if settings.database_url:
            self.connection = psycopg.connect(settings.database_url, autocommit=True)
        else:
            self.connection = sqlite3.connect(settings.sqlite_path, isolation_level=None, timeout=30)

    def all(self, statement: str, **params: Any) -> list[tuple[Any, ...]]:
        if isinstance(self.connection, sqlite3.Connection):
            return [tuple(row) for row in self.connection.execute(statement, params).fetchall()]
        return self.connection.execute(for_psycopg(statement), params).fetchall()

    def run(self, statement: str, **params: Any) -> None:
        if isinstance(self.connection, sqlite3.Connection):
            self.connection.execute(statement, params)
        else:
            self.connection.execute(for_psycopg(statement), params)

    def one(self, table: str, **key: Any) -> dict[str, Any]:
        """Return the one row that a key names."""
        names = [column.name for column in metadata.tables[table].columns]
        test = " AND ".join(f"{name} = :{name}" for name in key)
        (row,) = self.all(f"SELECT {', '.join(names)} FROM {table} WHERE {test}", **key)
        return dict(zip(names, row, strict=True))


@contextlib.contextmanager
def raw(settings: Settings) -> Iterator[Raw]:
    opened = Raw(settings)
    try:
        yield opened
    finally:
        opened.connection.close()


@contextlib.contextmanager
def unlocked(settings: Settings) -> Iterator[Raw]:
    """Let anything be written; afterwards the triggers are where they were, and only the rows tell of it."""
    with raw(settings) as opened:
        if settings.database_url:
            opened.run("SET session_replication_role = replica")
            checks = (
                "SELECT conname FROM pg_constraint WHERE contype = 'c' AND conrelid = 'assent_breakpoints'::regclass"
            )
            for (name,) in opened.all(checks):
                opened.run(f"ALTER TABLE assent_breakpoints DROP CONSTRAINT {name}")
            yield opened
            return
        triggers = opened.all("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'assent_%'")
        opened.run("PRAGMA ignore_check_constraints = ON")
        for name, _ in triggers:
            opened.run(f"DROP TRIGGER {name}")
        try:
            yield opened
        finally:
            for _, statement in triggers:
                opened.run(statement)


@contextlib.asynccontextmanager
async def resting(settings: Settings, **parts: Any) -> AsyncIterator[Assent]:
    """A node whose database answers, and that does nothing by itself."""
    node = Assent(settings, **parts)
    await node.database.start()
    try:
        yield node
    finally:
        await node.database.stop()


def forge(opened: Raw, breakpoint_id: str, edit: Callable[[list[Event]], None]) -> None:
    """Rewrite the history and everything that is computed from it, as somebody who knows how would."""
    rows = opened.all(
        f"SELECT {', '.join(EVENT)} FROM assent_events WHERE breakpoint_id = :id ORDER BY seq", id=breakpoint_id
    )
    events = [dict(zip(EVENT, row, strict=True)) for row in rows]
    for event in events:
        event["metadata"] = msgspec.json.decode(event["metadata"])
    edit(events)
    opened.run("DELETE FROM assent_events WHERE breakpoint_id = :id", id=breakpoint_id)
    head = GENESIS
    for seq, event in enumerate(events, start=1):
        body = {
            "breakpointId": breakpoint_id,
            "seq": seq,
            "type": event["type"],
            "actor": event["actor"],
            "at": event["at"],
            "metadata": event["metadata"],
        }
        values = event | {
            "seq": seq,
            "previous": head,
            "hash": link(head, body),
            "metadata": msgspec.json.encode(event["metadata"]).decode(),
        }
        head = values["hash"]
        names = ", ".join(EVENT)
        opened.run(f"INSERT INTO assent_events ({names}) VALUES ({', '.join(f':{name}' for name in EVENT)})", **values)
    opened.run(
        "UPDATE assent_breakpoints SET head = :head, version = :version, updated_at = :at WHERE id = :id",
        head=head,
        version=len(events),
        at=events[-1]["at"],
        id=breakpoint_id,
    )
