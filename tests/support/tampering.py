"""Direct access to the data: raw SQL with protections disabled, as an attacker with database access would use it."""

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import psycopg

from assent.core.canonical import GENESIS, link
from assent.core.timestamps import from_iso
from assent.db.sql import for_psycopg
from assent.db.tables import metadata
from assent.kernel.settings import Settings
from assent.node import Node as ServerNode

Event = dict[str, Any]
T = TypeVar("T")
EVENT = ("seq", "type", "actor", "at", "metadata", "previous", "hash")


class Raw:
    """A separate connection on which every statement is committed immediately."""

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
        """Return the row with this key."""
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
    """Allow any write; on SQLite the triggers are restored afterwards, so that only the rows differ."""
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
async def resting(settings: Settings, **parts: Any) -> AsyncIterator[ServerNode]:
    """Yield a node with a working database but without background jobs."""
    node = ServerNode(settings, **parts)
    await node.database.start()
    try:
        yield node
    finally:
        await node.database.stop()


def forge(opened: Raw, breakpoint_id: str, edit: Callable[[list[Event]], None]) -> None:
    """Rewrite the history and everything computed from it, as an attacker who knows the format would."""
    last = _rewrite(opened, "assent_events", "breakpoint_id", "breakpointId", breakpoint_id, edit)
    write(opened, "assent_breakpoints", {"id": breakpoint_id}, _end_of(last))


def forge_rule(opened: Raw, rule_id: str, edit: Callable[[list[Event]], None]) -> None:
    """Rewrite the history of a rule, and update its row."""
    last = _rewrite(opened, "assent_rule_events", "rule_id", "ruleId", rule_id, edit)
    said = msgspec.json.decode(last["metadata"])["rule"]
    row = {name: said[name] for name in ("pattern", "action", "mode", "note")}
    row |= {"enabled": int(said["enabled"]), "place": said["order"]}
    row["expires_at"] = from_iso(said["expiresAt"]) if said["expiresAt"] else None
    row["removed_at"] = last["at"] if last["type"] == "rule-removed" else None
    write(opened, "assent_rules", {"id": rule_id}, row | _end_of(last))


def _end_of(last: Event) -> dict[str, Any]:
    return {"head": last["hash"], "version": last["seq"], "updated_at": last["at"]}


def _rewrite(  # the parts of a chain
    opened: Raw, table: str, parent: str, name: str, parent_id: str, edit: Callable[[list[Event]], None]
) -> Event:
    columns = (parent, *EVENT)
    rows = opened.all(f"SELECT {', '.join(columns)} FROM {table} WHERE {parent} = :id ORDER BY seq", id=parent_id)
    events = [dict(zip(columns, row, strict=True)) for row in rows]
    for event in events:
        event["metadata"] = msgspec.json.decode(event["metadata"])
    edit(events)
    opened.run(f"DELETE FROM {table} WHERE {parent} = :id", id=parent_id)
    last: Event = {"hash": GENESIS}
    for seq, event in enumerate(events, start=1):
        body = {each: event[each] for each in ("type", "actor", "at", "metadata")} | {name: parent_id, "seq": seq}
        last = event | {
            "seq": seq,
            "previous": last["hash"],
            "hash": link(last["hash"], body),
            "metadata": msgspec.json.encode(event["metadata"]).decode(),
        }
        put(opened, table, last)
    _note(opened, table, parent, parent_id)
    return last


def _note(opened: Raw, table: str, parent: str, parent_id: str) -> None:
    """Queue new events for the log, as the database would; events already in the log stay as they are."""
    opened.run("DELETE FROM assent_unsigned_events WHERE subject_id = :id", id=parent_id)
    opened.run(
        f"INSERT INTO assent_unsigned_events (subject_id, seq) SELECT {parent}, seq FROM {table} c WHERE {parent} = :id"
        f" AND NOT EXISTS (SELECT 1 FROM assent_leaves l WHERE l.subject_id = c.{parent} AND l.seq = c.seq)",
        id=parent_id,
    )


def keys(opened: Raw, table: str) -> list[dict[str, Any]]:
    names = [column.name for column in metadata.tables[table].primary_key.columns]
    return [
        dict(zip(names, row, strict=True))
        for row in opened.all(f"SELECT {', '.join(names)} FROM {table} ORDER BY {', '.join(names)}")
    ]


def touched(where: Settings, rows: Sequence[T]) -> Sequence[T]:
    """Return all rows on SQLite, but every fifth on PostgreSQL, where checks are slower and use the same code."""
    return rows[::5] if where.database_url else rows


def write(opened: Raw, table: str, key: dict[str, Any], changes: dict[str, Any]) -> None:
    values = ", ".join(f"{name} = :new_{name}" for name in changes)
    test = " AND ".join(f"{name} = :{name}" for name in key)
    opened.run(f"UPDATE {table} SET {values} WHERE {test}", **key, **{f"new_{n}": v for n, v in changes.items()})


def other(value: Any) -> Iterator[Any]:
    """Yield values with a different meaning."""
    if isinstance(value, int):
        yield from (value + 1, 1 - value if value in (0, 1) else value - 1)
    elif value is None:
        yield "x"
    else:
        yield from (f"{value}x", "x")
        if value.startswith(("{", "[")):
            yield from (msgspec.json.encode(each).decode() for each in _changed(msgspec.json.decode(value)))


def _changed(value: Any) -> Iterator[Any]:
    """Yield the same JSON with a single change, for each value in it."""
    if isinstance(value, dict):
        yield value | {"added": 1}
        for name, inner in value.items():
            yield {key: each for key, each in value.items() if key != name}
            yield from (value | {name: each} for each in _changed(inner))
    elif isinstance(value, list):
        yield [*value, "added"]
        yield from ([*value[:n], each, *value[n + 1 :]] for n, inner in enumerate(value) for each in _changed(inner))
    elif isinstance(value, bool):
        yield not value
    else:
        yield "other" if value is None else value + ("x" if isinstance(value, str) else 1)


def put(opened: Raw, table: str, row: dict[str, Any]) -> None:
    opened.run(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(f':{name}' for name in row)})", **row)
