"""Runs the same statements on the bare drivers with the same number of clients, as a baseline without Assent."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg

from assent.breakpoints.search_words import indexed_words
from assent.breakpoints.store import breakpoints as b
from assent.breakpoints.store.reading import STATUS_COLUMNS, WHOLE_COLUMNS, Plan, Query, page_statement
from assent.core.canonical import GENESIS
from assent.db.sql import for_asyncpg, to_json
from assent.db.sqlite import SqliteDatabase, WriteLock, connect, locked_engine
from assent.db.transaction import Transaction
from assent.kernel.clock import SystemClock
from assent.kernel.ids import TimeOrderedIds
from assent.people.store.people import SELECT_LIVE_ROLES
from assent.platform.queue import JobQueue

GET = f"SELECT {', '.join(WHOLE_COLUMNS)} FROM assent_breakpoints WHERE id = :id"
STATUS = f"SELECT {', '.join(STATUS_COLUMNS)} FROM assent_breakpoints WHERE id = :id"
UPDATE = f"{b.UPDATE} {b.Deadline.AHEAD.value}"
NO_RULE = {"recommended": False, "reason": "No rule matches deploy-to-production.", "consecutiveApprovals": 0}
Statement = tuple[str, dict[str, Any]]
Connection = Any


def page(tags: Sequence[str], agent: str | None, limit: int, dialect: str) -> Statement:
    query = Query(project="default", statuses=("waiting",), tags=tuple(tags), agent_id=agent, limit=limit)
    return page_statement(query, Plan(tuple(f"t:{tag}" for tag in tags)), dialect)


def create_statements(new_id: str, at: int, dialect: str) -> list[Statement]:
    row: dict[str, Any] = {
        "id": new_id, "project_id": "default", "status": "waiting", "decision": None, "agent_id": "agent-1",
        "run_id": None, "title": "Deploy to production", "gate": "deploy-to-production",
        "payload": '{"question":"Deploy build 4812 to production?"}', "tags": '["prod","deploy"]', "seats": "[]",
        "strategy": "single", "risk": None, "priority": "normal", "on_timeout": "expire", "ttl_seconds": 3600,
        "callback_url": None, "digest": GENESIS, "created_at": at, "created_by": "agent:bench",
        "created_by_id": "tok_bench", "due_at": at + 3600 * 10**6, "auto_approval": to_json(NO_RULE),
        "warnings": "[]", "updated_at": at, "ended_at": None, "ended_by": None, "result": None, "version": 1,
        "head": GENESIS, "comments": 0, "votes": 0, "question": "Deploy build 4812 to production?", "attempt": None,
        "search": "",
    }  # fmt: skip
    label = {
        "project_id": "default", "status": "waiting", "created_at": at, "id": new_id, "agent_id": "agent-1",
    }  # fmt: skip
    statements: list[Statement] = [(b.INSERT, row)]
    words = indexed_words(new_id, row["gate"], row["agent_id"], "prod", "deploy", row["title"], row["question"])
    statements += [(statement, {"words": words}) for statement in b.INSERT_WORDS[dialect]]
    statements.append((b.INSERT_EVENT, _event(new_id, 1, "created", at)))
    statements += [(b.INSERT_LABEL, label | {"label": f"t:{tag}"}) for tag in ("prod", "deploy")]
    return statements


def decide_statements(breakpoint_id: str, person_id: str, at: int, dialect: str) -> list[Statement]:
    lock = " FOR UPDATE" if dialect == "postgresql" else ""
    returning = " RETURNING 1" if dialect == "postgresql" else ""
    update = {
        "id": breakpoint_id, "status": "released", "decision": "approved", "updated_at": at, "ended_at": at,
        "ended_by": "person:owner", "result": '{"approved":true,"status":"released","decision":"approved"}',
        "version": 3, "head": GENESIS, "comments": 0, "votes": 1, "expected": 1, "now": at,
    }  # fmt: skip
    response = {
        "breakpoint_id": breakpoint_id, "person_id": person_id, "person": "owner", "approved": 1, "at": at,
        "first_at": at, "via": "api", "comment": None, "option": None, "answers": None, "edits": None, "seat": None,
        "in_place_of": "[]", "override": 0, "digest": None,
    }  # fmt: skip
    roles = {"person_id": person_id, "project_id": "default", "token_id": "", "now": at}
    return [
        (b.SELECT + lock, {"id": breakpoint_id, "project_id": "default"}),
        (SELECT_LIVE_ROLES, roles),
        (b.UPSERT_RESPONSE, response),
        (UPDATE + returning, update),
        (b.INSERT_EVENT, _event(breakpoint_id, 2, "responded", at)),
        (b.INSERT_EVENT, _event(breakpoint_id, 3, "released", at)),
        (b.UPDATE_LABELS, {"id": breakpoint_id, "status": "released"}),
    ]


def _event(breakpoint_id: str, seq: int, kind: str, at: int) -> dict[str, Any]:
    return {
        "breakpoint_id": breakpoint_id, "seq": seq, "type": kind, "actor": "person:owner", "at": at,
        "metadata": '{"approved":true,"via":"api"}', "previous": GENESIS, "hash": GENESIS,
    }  # fmt: skip


async def postgres_rate(
    url: str, work: Callable[[Connection, int], Awaitable[None]], *, clients: int, count: int
) -> float:
    """Distribute `count` units of work among the clients; return how many are completed per second."""

    async def keep(_: asyncpg.Connection) -> None: ...

    pool = await asyncpg.create_pool(url, min_size=clients, max_size=clients, reset=keep)
    numbers = iter(range(count))

    async def client() -> None:
        for number in numbers:
            async with pool.acquire() as connection:
                await work(connection, number)

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    seconds = time.perf_counter() - started
    await pool.close()
    return count / seconds


async def on_asyncpg(connection: Connection, statement: Statement) -> None:
    text, names = for_asyncpg(statement[0])
    await connection.fetch(text, *[statement[1][name] for name in names])


async def sqlite_reads(path: Path, statements: Sequence[Statement], *, clients: int, count: int) -> float:
    """Read as an asyncio program has to: each statement runs on a thread, which returns the rows to the event loop."""
    local = threading.local()

    def open_connection() -> None:
        local.connection = connect(path)

    def run(statement: Statement) -> None:
        local.connection.execute(*statement).fetchall()

    numbers = iter(range(count))
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(4, initializer=open_connection) as threads:

        async def client() -> None:
            for number in numbers:
                await loop.run_in_executor(threads, run, statements[number % len(statements)])

        started = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(clients)))
        return count / (time.perf_counter() - started)


def sqlite_bare_reads(path: Path, statements: Sequence[Statement], *, clients: int, count: int) -> float:
    """Read on one thread per client, each with its own connection and without an event loop."""
    each = count // clients

    def client(number: int) -> None:
        connection = connect(path)
        for n in range(each):
            statement, params = statements[(number * each + n) % len(statements)]
            connection.execute(statement, params).fetchall()
        connection.close()

    threads = [threading.Thread(target=client, args=(n,)) for n in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return each * clients / (time.perf_counter() - started)


async def sqlite_group_commit(path: Path, work: Sequence[Sequence[Statement]], *, clients: int) -> float:
    """Write from this many clients; one writer thread combines their statements into each commit."""
    lock = WriteLock(path.with_suffix(".lock"))
    database = SqliteDatabase(
        path,
        lock=lock,
        jobs=JobQueue(locked_engine(path, lock)),
        clock=SystemClock(),
        ids=TimeOrderedIds(),
        on_commit=lambda _: None,
    )
    await database.start()
    pieces = iter(work)

    async def client() -> None:
        for statements in pieces:
            await database.write(partial(_run_in, statements=statements))

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    seconds = time.perf_counter() - started
    await database.stop()
    return len(work) / seconds


def _run_in(tx: Transaction, *, statements: Sequence[Statement]) -> None:
    for statement, params in statements:
        tx.session.all(statement, params)


def sqlite_bare_writes(path: Path, work: Sequence[Sequence[Statement]], *, group: int) -> float:
    """Write on one connection without any clients, with `group` units of work in each commit."""
    connection = connect(path)
    started = time.perf_counter()
    for start in range(0, len(work), group):
        connection.execute("BEGIN IMMEDIATE")
        for statements in work[start : start + group]:
            _run(connection, statements)
        connection.execute("COMMIT")
    seconds = time.perf_counter() - started
    connection.close()
    return len(work) / seconds


def _run(connection: sqlite3.Connection, statements: Sequence[Statement]) -> None:
    for statement, params in statements:
        connection.execute(statement, params).fetchall()
