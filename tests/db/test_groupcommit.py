"""Group commit: a failing caller does not affect others, and a returned result means that its commit is durable."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from assent.breakpoints.store.files import Files
from assent.breakpoints.usecases.lifecycle import BreakpointService, Once
from assent.core.errors import AssentError, Forbidden, NotFound
from assent.db.group_commit import GroupCommit, InDoubt
from assent.db.sqlite import CHECKPOINT_BYTES
from assent.db.transaction import Transaction
from assent.kernel.ports import Hint
from assent.kernel.settings import Settings
from assent.people.store.people import People
from tests.db.making import AGENT, create, creation, rows, stored
from tests.support.nodes import Node, running_node

WRITE = "INSERT INTO assent_groups (project_id, name, created_at) VALUES (:project_id, :name, 1)"


def note(tx: Transaction, name: str) -> str:
    tx.session.write(WRITE, [{"project_id": "default", "name": name}])
    return name


def refused(tx: Transaction) -> None:
    del tx
    raise Forbidden


def refused_after_writing(tx: Transaction, name: str) -> None:
    note(tx, name)
    raise Forbidden


def broken(tx: Transaction) -> None:
    del tx
    raise ZeroDivisionError


def broken_after_writing(tx: Transaction, name: str) -> None:
    note(tx, name)
    raise ZeroDivisionError


def impossible(tx: Transaction) -> None:
    """Violate a database constraint in the last statement."""
    note(tx, "impossible")
    tx.session.write(WRITE, [{"project_id": "no such project", "name": "x"}])


def reads_after_impossible(tx: Transaction) -> None:
    impossible(tx)
    tx.session.all("SELECT 1", {})


FAILURES: dict[str, Callable[[Transaction], Any]] = {
    "refused": refused,
    "refused after writing": partial(refused_after_writing, name="spoilt"),
    "broken": broken,
    "broken after writing": partial(broken_after_writing, name="spoilt"),
    "against a rule of the database": impossible,
    "against a rule, then reading": reads_after_impossible,
}


async def together(node: Node, *use_cases: Callable[[Transaction], Any]) -> list[Any]:
    """Block every writer until all use cases are queued, so that they are committed in shared batches."""
    held, release = [threading.Event(), threading.Event()], threading.Event()

    def hold(tx: Transaction, *, mine: threading.Event) -> None:
        del tx
        mine.set()
        assert release.wait(30)

    holding = []
    for mine in held[: 1 if node.assent.database.dialect == "sqlite" else 2]:
        # Start them one after the other; otherwise, one writer would run both in the same batch.
        holding.append(asyncio.ensure_future(node.assent.database.write(partial(hold, mine=mine))))
        assert await asyncio.to_thread(mine.wait, 30)
    waiting = [asyncio.ensure_future(node.assent.database.write(use_case)) for use_case in use_cases]
    await asyncio.sleep(0)
    release.set()
    await asyncio.gather(*holding)
    return await asyncio.gather(*waiting, return_exceptions=True)


async def names(node: Node) -> set[str]:
    return {row[0] for row in await rows(node, "SELECT name FROM assent_groups")}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("position", [0, 5, 10])
async def test_a_failing_use_case_does_not_affect_the_others(
    node: Node, failure: Callable[[Transaction], Any], position: int
) -> None:
    use_cases: list[Callable[[Transaction], Any]] = [partial(note, name=f"g{n}") for n in range(10)]
    use_cases.insert(position, failure)
    results = await together(node, *use_cases)
    error = results.pop(position)
    assert isinstance(error, Forbidden | ZeroDivisionError | sqlite3.IntegrityError | psycopg.IntegrityError)
    assert results == [f"g{n}" for n in range(10)]
    assert await names(node) == {f"g{n}" for n in range(10)}


async def test_each_failing_use_case_in_a_batch_gets_its_own_error(node: Node) -> None:
    use_cases: list[Callable[[Transaction], Any]] = []
    for n in range(6):
        use_cases += [partial(note, name=f"g{n}"), *FAILURES.values()]
    results = await together(node, *use_cases)
    width = len(FAILURES) + 1
    assert results[::width] == [f"g{n}" for n in range(6)]
    assert all(isinstance(result, Exception) for n, result in enumerate(results) if n % width)
    assert await names(node) == {f"g{n}" for n in range(6)}


async def test_conflicting_use_cases_in_one_batch_run_one_after_the_other(node: Node) -> None:
    breakpoint_id = await create(node, ttlSeconds=60)
    admin = partial(_cancelled, node, breakpoint_id)
    results = await together(node, *[admin] * 8)
    assert sum(result is None for result in results) == 1
    assert all(isinstance(result, AssentError) for result in results if result is not None)
    assert (await stored(node, breakpoint_id)).version == 2


def _cancelled(node: Node, breakpoint_id: str, tx: Transaction) -> None:
    node.assent[BreakpointService].cancel(tx, breakpoint_id, by=AGENT)


async def test_an_idempotency_key_repeated_in_a_batch_creates_one_breakpoint(node: Node) -> None:
    once = Once("key", "f" * 64)
    results = await together(node, *[creation(node, once=once)] * 12)
    assert len({result if isinstance(result, str) else result.id for result in results}) == 1
    assert len(await rows(node, "SELECT 1 FROM assent_breakpoints")) == 1


def other_connection(settings: Settings, statement: str) -> list[Any]:
    """Read with a separate connection, without Assent's code."""
    if settings.database_url:
        with psycopg.connect(settings.database_url) as connection:
            return connection.execute(statement).fetchall()
    reader = sqlite3.connect(f"file:{settings.sqlite_path}?mode=ro", uri=True)
    try:
        return reader.execute(statement).fetchall()
    finally:
        reader.close()


async def test_a_result_is_visible_to_other_connections(node: Node, settings: Settings) -> None:
    for n in range(20):
        await node.assent.database.write(partial(note, name=f"g{n}"))
        assert len(other_connection(settings, "SELECT 1 FROM assent_groups")) == n + 1


async def test_a_failed_use_case_leaves_no_visible_changes(node: Node, settings: Settings) -> None:
    for failure in FAILURES.values():
        with pytest.raises((AssentError, ZeroDivisionError, sqlite3.IntegrityError, psycopg.IntegrityError)):
            await node.assent.database.write(failure)
        assert other_connection(settings, "SELECT 1 FROM assent_groups") == []


async def test_a_reader_cannot_write(node: Node) -> None:
    # SQLite refuses the write, and PostgreSQL rolls it back.
    with contextlib.suppress(sqlite3.OperationalError, psycopg.Error):
        await node.assent.database.read(partial(note, name="sneaked in"))
    assert await names(node) == set()


async def test_a_cancelled_caller_does_not_stop_the_writer(node: Node) -> None:
    gone = asyncio.ensure_future(node.assent.database.write(partial(note, name="left")))
    await asyncio.sleep(0)
    gone.cancel()
    assert await node.assent.database.write(partial(note, name="stayed")) == "stayed"
    with pytest.raises(NotFound):
        await node.assent.database.write(lambda tx: tx[People].get_by_name("nobody"))


async def test_a_failed_checkpoint_neither_undoes_nor_repeats_a_commit(sqlite_settings: Settings) -> None:
    async with running_node(sqlite_settings) as node:
        assert await node.assent.database.write(partial(note, name="before")) == "before"
        # Without the file, reading its size fails after the commit but before the result is returned.
        await asyncio.to_thread(Path(f"{sqlite_settings.sqlite_path}-wal").unlink)
        assert await node.assent.database.write(partial(note, name="after")) == "after"
        seen = await node.assent.database.write(lambda tx: tx.session.all("SELECT name FROM assent_groups", {}))
        assert {row[0] for row in seen} == {"before", "after"}


async def test_the_sqlite_log_is_checkpointed_before_it_grows_large(sqlite_settings: Settings) -> None:
    log = Path(f"{sqlite_settings.sqlite_path}-wal")
    written = 0

    def fill(tx: Transaction) -> None:
        content = bytes(200_000)
        tx[Files].put("default", f"{written:064d}", content, at=tx.now())

    async with running_node(sqlite_settings) as node:
        for _ in range(150):
            await node.assent.database.write(fill)
            written += 1
        size = await asyncio.to_thread(log.stat)
    assert written * 200_000 > 3 * CHECKPOINT_BYTES > size.st_size


async def test_a_checkpointed_log_is_not_checkpointed_again_with_every_commit(sqlite_settings: Settings) -> None:
    """SQLite does not shrink the log when it starts over, so the size alone would trigger a checkpoint every time."""

    def fill(tx: Transaction) -> None:
        tx[Files].put("default", "0" * 64, bytes(CHECKPOINT_BYTES + 1), at=tx.now())

    async with running_node(sqlite_settings) as node:
        await node.assent.database.write(fill)
        await node.assent.database.write(partial(note, name="starts-over"))
        moved = await asyncio.to_thread(sqlite_settings.sqlite_path.stat)
        for number in range(20):
            await node.assent.database.write(partial(note, name=f"small-{number}"))
        after = await asyncio.to_thread(sqlite_settings.sqlite_path.stat)
    assert moved.st_size > CHECKPOINT_BYTES
    assert after.st_mtime_ns == moved.st_mtime_ns


class Ledger:
    """A connection whose commits succeed but whose results are lost, as in a network failure."""

    def __init__(self, lose: int) -> None:
        self.committed: list[str] = []
        self.lose = lose
        self._pending: list[str] = []

    def begin(self) -> Any:
        self._pending = []
        return self

    @property
    def session(self) -> "Ledger":
        return self

    def clear(self) -> None:
        pass

    hints: list[Hint] = []  # noqa: RUF012  # as in Transaction
    by = None
    dirty = False

    def write(self, what: str) -> None:
        self.dirty = True
        self._pending.append(what)

    def commit(self) -> None:
        self.committed += self._pending
        if self.lose:
            self.lose -= 1
            raise InDoubt from psycopg.OperationalError()

    def rollback(self) -> None:
        self._pending = []

    def passing(self, error: Exception) -> bool:
        del error
        return False

    def close(self) -> None:
        pass


async def test_use_cases_do_not_run_again_after_a_lost_commit_result() -> None:
    ledger = Ledger(lose=1)
    commits = GroupCommit(lambda: ledger, threads=1, on_commit=lambda _: None)
    first = [asyncio.ensure_future(commits.run(partial(_enter, name=name))) for name in ("a", "b", "c")]
    await asyncio.sleep(0)
    commits.start()
    results = await asyncio.gather(*first, return_exceptions=True)
    await commits.stop()
    assert sorted(ledger.committed) == ["a", "b", "c"]
    assert all(isinstance(result, psycopg.OperationalError) for result in results)


def _enter(tx: Any, *, name: str) -> None:
    tx.session.write(name)
