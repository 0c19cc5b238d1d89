"""Support for backup tests: empty databases to restore into, and the contents of databases as rows."""

import contextlib
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from assent.db import backup
from assent.db.backup.archive import Manifest, Progress
from assent.db.backup.postgres import PostgresBackup
from assent.db.backup.sqlite import SqliteBackup
from assent.kernel.settings import Settings
from assent.people.usecases.secrets import SecretService
from assent.policy.usecases.rules import RuleService
from tests.db.making import RITA, adding
from tests.support.nodes import Node
from tests.support.postgres import new_database

Rows = dict[str, list[str]]


def kind_of(settings: Settings) -> backup.Kind:
    if settings.database_url:
        return PostgresBackup(settings.database_url)
    return SqliteBackup(settings.sqlite_path, put_aside=settings.data_dir / "before.db")


def quietly(what: str, done: int, total: int) -> None:
    del what, done, total


def save(settings: Settings, target: Path, *, keys: bytes | None = None, progress: Progress = quietly) -> Manifest:
    return backup.save(kind_of(settings), target, made_at="now", version="test", keys=keys, progress=progress)


def restore(settings: Settings, source: Path, *, force: bool = False) -> Path | None:
    expected = "postgresql" if settings.database_url else "sqlite"
    return backup.restore(kind_of(settings), source, expected=expected, force=force, progress=quietly)[1]


@contextlib.contextmanager
def empty_place(like: Settings, folder: Path, postgres_url: str, *, template: str | None = None) -> Iterator[Settings]:
    """Yield a copy of these settings for an empty database."""
    if not like.database_url:
        yield like.model_copy(update={"data_dir": folder / "restored"})
        return
    with new_database(postgres_url, template=template) as url:
        yield like.model_copy(update={"database_url": url})


def every_row(settings: Settings) -> Rows:
    """Return every row of every table, both ours and DBOS's, as text in a fixed order."""
    return _postgres_rows(settings.database_url) if settings.database_url else _sqlite_rows(settings.sqlite_path)


def _sqlite_rows(path: Path) -> Rows:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: sorted(map(repr, connection.execute(f'SELECT * FROM "{name}"'))) for name in names}


def _postgres_rows(url: str) -> Rows:
    statement = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN ('public', 'dbos')"
    with psycopg.connect(url) as connection:
        return {
            f"{schema}.{table}": sorted(
                map(repr, connection.execute(f'SELECT * FROM "{schema}"."{table}"'.encode()).fetchall())
            )
            for schema, table in connection.execute(statement).fetchall()
        }


async def lived(node: Node, *, rounds: int = 1) -> None:
    """Create rows in every table related to breakpoints."""
    agent, reviewer = await node.token("agent"), await node.token("reviewer")
    file = {"path": "plan.md", "format": "markdown", "content": "# Plan\n\ttabs, \\N, ünïcode 🙂\n"}
    for n in range(rounds):
        payload = {"question": f"Go {n}?", "tags": ["a", "b"], "context": {"files": [file]}, "expert": "owner"}
        decided, open_ = await node.create(agent, payload=payload), await node.create(agent)
        await node.feedback(decided["id"], reviewer, release=True, comment="Yes.\r\n\\.\n")
        await node.feedback(open_["id"], agent, comment="Anybody?")
    await node.assent.database.write(partial(node.assent[SecretService].callback_secrets, project="default"))


async def lived_by_rules(node: Node) -> None:
    """Create a breakpoint that one rule approves and another matches in shadow mode, then remove the first rule."""
    made = await node.assent.database.write(adding(node, "routine.*", note="ünïcode 🙂"))
    await node.assent.database.write(adding(node, "*", mode="shadow"))
    await node.create(payload={"question": "Again?", "breakpointId": "routine.check"})
    await node.assent.database.write(partial(node.assent[RuleService].remove, rule_id=made.id, by=RITA))


async def asked(node: Node, statement: str) -> list[tuple[Any, ...]]:
    return await node.assent.database.read(lambda tx: [tuple(row) for row in tx.session.all(statement, {})])
