"""Tracks which workers are alive: each sends heartbeats, and is considered dead after a period of silence."""

from assent.domain.instants import SECOND
from assent.ports import Database
from assent.store.transaction import Transaction

SILENCE = 20 * SECOND
"""With five seconds, live workers on a busy machine were considered dead; with twenty, none of them."""


class WorkerPresence:
    def __init__(self, database: Database[Transaction], *, host: str, pid: int) -> None:
        self._database = database
        self._host = host
        self._pid = pid

    async def beat(self, worker: str) -> frozenset[str]:
        def use_case(tx: Transaction) -> frozenset[str]:
            now = tx.now()
            tx.workers.beat(worker, host=self._host, pid=self._pid, now=now)
            tx.workers.forget(now - SILENCE)
            return frozenset(tx.workers.alive())

        return await self._database.write(use_case)

    async def leave(self, worker: str) -> None:
        await self._database.write(lambda tx: tx.workers.leave(worker))
