"""Tracks which workers are alive: each sends heartbeats, and is considered dead after a period of silence."""

from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.kernel.ports import Database
from assent.platform.workers import Workers

SILENCE = 20 * SECOND
"""With five seconds, live workers on a busy machine were considered dead; with twenty, none were."""


class WorkerPresence:
    def __init__(self, database: Database[Transaction], *, host: str, pid: int) -> None:
        self._database = database
        self._host = host
        self._pid = pid

    async def beat(self, worker: str) -> frozenset[str]:
        def use_case(tx: Transaction) -> frozenset[str]:
            now = tx.now()
            tx[Workers].beat(worker, host=self._host, pid=self._pid, now=now)
            tx[Workers].forget(now - SILENCE)
            return frozenset(tx[Workers].alive())

        return await self._database.write(use_case)

    async def leave(self, worker: str) -> None:
        await self._database.write(lambda tx: tx[Workers].leave(worker))
