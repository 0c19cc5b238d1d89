"""A node is ready if it can write to its database; if it is not ready, it reports the reason."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from psycopg import connect

from assent.core.errors import Unavailable
from assent.db import migrations
from assent.db.sqlite import WriteLock
from assent.db.transaction import Transaction
from assent.http.readiness import Readiness
from assent.kernel.settings import Settings
from tests.support.nodes import Node, running_node


def readiness(node: Node, **options: Any) -> Readiness:
    given: dict[str, Any] = {"folder": node.assent.settings.data_dir, "min_free_mb": 0, "patience": 30.0} | options
    return Readiness(node.assent.database, node.assent.hub, **given)


async def reason(checked: Readiness) -> str:
    with pytest.raises(Unavailable) as refused:
        await checked.check()
    return refused.value.message


def at_version(version: str | None) -> Callable[[Transaction], None]:
    def use_case(tx: Transaction) -> None:
        if version is None:
            tx.session.change("DELETE FROM assent_version", {})
        else:
            tx.session.change("UPDATE assent_version SET version_num = :version", {"version": version})

    return use_case


async def test_a_node_with_a_working_database_is_ready(node: Node) -> None:
    await readiness(node).check()
    assert (await node.call("GET", "/readyz")).status_code == 200


@pytest.mark.parametrize("version", ["0001", None])
async def test_a_node_with_outdated_tables_is_not_ready(node: Node, version: str | None) -> None:
    assert migrations.newest() != "0001"
    await node.assent.database.write(at_version(version))
    assert "assent migrate" in await reason(readiness(node))


async def test_a_node_stays_ready_during_the_rollout_of_a_newer_version(node: Node) -> None:
    await node.assent.database.write(at_version("from_the_future"))
    await readiness(node).check()


async def test_a_node_on_postgresql_without_secret_keys_is_not_ready(postgres_settings: Settings) -> None:
    async with running_node(postgres_settings.model_copy(update={"secret_keys": None})) as keyless:
        answer = await keyless.call("GET", "/readyz")
    assert answer.status_code == 503
    assert "ASSENT_SECRET_KEYS is not set" in answer.json()["detail"]


async def test_a_node_on_sqlite_needs_no_secret_keys(sqlite_settings: Settings) -> None:
    async with running_node(sqlite_settings) as node:
        assert (await node.call("GET", "/readyz")).status_code == 200


async def test_a_node_with_a_damaged_database_file_is_not_ready(sqlite_settings: Settings) -> None:
    async with running_node(sqlite_settings) as node:
        node.assent.database.damaged = True
        answer = await node.call("GET", "/readyz")
    assert answer.status_code == 503
    assert "damaged" in answer.json()["detail"]


async def test_a_full_disk_matters_only_if_the_data_is_on_it(node: Node) -> None:
    assert "disk" in await reason(readiness(node, min_free_mb=10**12))
    await readiness(node, min_free_mb=10**12, folder=None).check()
    await readiness(node, min_free_mb=0).check()


async def test_a_node_with_an_unresponsive_worker_is_not_ready(node: Node) -> None:
    node.assent.readiness.worker_is_well = lambda: False
    answer = await node.call("GET", "/readyz")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert "worker" in answer.json()["detail"]
    assert (await node.call("GET", "/healthz")).status_code == 200
    node.assent.readiness.worker_is_well = lambda: True
    assert (await node.call("GET", "/readyz")).status_code == 200


async def test_a_node_whose_database_rejects_writes_is_not_ready(node: Node) -> None:
    settings = node.assent.settings
    if settings.database_url is None:
        lock = WriteLock(settings.sqlite_path.with_suffix(".lock"))
        with lock:
            assert "is not accepting writes" in await reason(readiness(node, patience=0.05))
        lock.close()
    else:
        with connect(settings.database_url, autocommit=True) as admin:
            admin.execute(
                "DO $$BEGIN EXECUTE 'ALTER DATABASE ' || quote_ident(current_database())"
                " || ' SET default_transaction_read_only = on'; END$$"
            )
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        # Each connection in the pool fails once, and its replacement is read-only.
        said = [await reason(readiness(node)) for _ in range(10)]
        assert said[-1] == "The database is not accepting writes."


class Counting:
    """A database that counts its writes."""

    damaged = False

    def __init__(self, database: Any) -> None:
        self.database = database
        self.writes = 0

    async def write(self, use_case: Callable[[Transaction], Any], *, locks: str = "") -> Any:
        self.writes += 1
        return await self.database.write(use_case, locks=locks)


async def test_simultaneous_checks_write_to_the_database_once(node: Node) -> None:
    counting = Counting(node.assent.database)
    checked = Readiness(counting, node.assent.hub, folder=None, min_free_mb=0)  # type: ignore[arg-type]  # it has only the methods that are used
    await asyncio.gather(*(checked.check() for _ in range(50)))
    assert counting.writes == 1


async def test_a_readiness_check_does_not_change_any_data(node: Node) -> None:
    def version(tx: Transaction) -> Any:
        return tx.session.all("SELECT id, name FROM assent_projects", {})

    before = await node.assent.database.read(version)
    await readiness(node).check()
    assert await node.assent.database.read(version) == before
