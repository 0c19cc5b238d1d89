"""Measure the cost of checkpoints and proofs as the log grows, and the speed of verifying the log.

python -m bench.checkpoints [--database sqlite|postgresql] [--sizes 10000 100000 1000000]
"""

import argparse
import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import psycopg

from assent.audit.merkle import inclusion
from assent.audit.store.checkpoints import Checkpoints
from assent.audit.usecases.checkpoints import CheckpointService
from assent.audit.usecases.verify_log import LogAudit
from assent.db.transaction import Transaction
from assent.installation import migrate
from assent.kernel.settings import Settings
from assent.node import Node as ServerNode
from assent.people.usecases.people import PeopleService
from tests.support.keys import key_reference
from tests.support.postgres import new_database, postgres

REPEATS = 20
NEW = 10
EVENTS = """
    INSERT INTO assent_events (breakpoint_id, seq, type, actor, at, metadata, previous, hash)
    SELECT 'bp_bench', n, 'created', 'agent:bench', n, '{{}}', '', {hash} FROM {numbers}"""
NOTED = "INSERT INTO assent_unsigned_events SELECT 'bp_bench', n FROM {numbers}"
SQLITE = "(WITH RECURSIVE g(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM g WHERE n < {last}) SELECT n FROM g)"


def fill(settings: Settings, first: int, last: int) -> None:
    """Insert events directly into the tables, with hashes of the usual length."""
    if settings.database_url:
        with psycopg.connect(settings.database_url) as connection:
            connection.execute("SET session_replication_role = replica")
            numbers = f"generate_series({first}, {last}) AS g(n)"
            hashed = "encode(sha256(n::text::bytea), 'hex')"
            connection.execute(EVENTS.format(numbers=numbers, hash=hashed).encode())
            connection.execute(NOTED.format(numbers=numbers).encode())
        return
    with sqlite3.connect(settings.sqlite_path) as connection:
        connection.execute("DROP TRIGGER IF EXISTS assent_events_noted")
        numbers = SQLITE.format(first=first, last=last)
        connection.execute(EVENTS.format(numbers=numbers, hash="lower(hex(randomblob(32)))"))
        connection.execute(NOTED.format(numbers=numbers))


async def median_ms(work: Callable[[], Awaitable[object]], prepare: Callable[[], None] = lambda: None) -> float:
    took: list[float] = []
    for _ in range(REPEATS):
        prepare()
        started = time.perf_counter()
        await work()
        took.append((time.perf_counter() - started) * 1000)
    return statistics.median(took)


async def measure(settings: Settings, sizes: list[int]) -> None:
    node = ServerNode(settings)
    await node.database.start()
    await node.database.write(node[PeopleService].bootstrap)
    filled = 0

    def grow(count: int) -> None:
        nonlocal filled
        fill(settings, filled + 1, filled + count)
        filled += count

    async def sign() -> int:
        return await node.database.write(node[CheckpointService].make)

    def prove(tx: Transaction) -> object:
        return inclusion(tx[Checkpoints].kept, filled // 3, filled)

    async def look() -> None:
        seen: list[int] = []
        await LogAudit(node.database, None).verify(lambda _, entries, __: seen.append(entries))

    for size in sizes:
        more = size - filled
        grow(more)
        started = time.perf_counter()
        while await sign():
            pass
        rate = more / (time.perf_counter() - started)
        one = await median_ms(sign, partial(grow, NEW))
        proof = await median_ms(lambda: node.database.read(prove))
        started = time.perf_counter()
        await look()
        seen = filled / (time.perf_counter() - started)
        print(
            f"{node.database.dialect} log of {size:>9,}: {rate:>7,.0f} events/s ingested, a checkpoint over {NEW} new"
            f" events {one:.1f} ms, a proof {proof:.1f} ms, log verified at {seen:,.0f} events/s",
            flush=True,
        )
    await node.database.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.checkpoints", description=__doc__)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), action="append")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    options = parser.parse_args()
    chosen = options.database or ["sqlite", "postgresql"]
    with tempfile.TemporaryDirectory() as folder:
        keys = (key_reference(Path(folder)),)
        if "sqlite" in chosen:
            settings = Settings(data_dir=Path(folder) / "data", secret_keys=keys)
            migrate(settings)
            asyncio.run(measure(settings, options.sizes))
        if "postgresql" in chosen:
            with postgres() as url, new_database(url) as fresh:
                settings = Settings(data_dir=Path(folder), database_url=fresh, secret_keys=keys)
                migrate(settings)
                asyncio.run(measure(settings, options.sizes))


if __name__ == "__main__":
    main()
