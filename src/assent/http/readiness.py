"""Checks whether the node can serve requests. Any client can ask at any rate, so results are cached for a second."""

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from assent.core.errors import Unavailable
from assent.db.probe import usable
from assent.db.transaction import Transaction
from assent.http.waiters import Hub
from assent.kernel.ports import Database
from assent.kernel.settings import KEYLESS_TEXT

REMEMBER_SECONDS = 1.0
PATIENCE_SECONDS = 5.0
MEGABYTE = 1_000_000
_log = structlog.get_logger()


class Readiness:
    def __init__(
        self,
        database: Database[Transaction],
        hub: Hub,
        *,
        folder: Path | None,
        min_free_mb: int,
        keys_missing: bool = False,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._database = database
        self._hub = hub
        self._folder = folder
        self._min_free_mb = min_free_mb
        self._keys_missing = keys_missing
        self._patience = patience
        self._checked_until = 0.0
        self._wrong: str | None = None
        self._one_at_a_time = asyncio.Lock()
        self.worker_is_well: Callable[[], bool] = lambda: True
        """Set by the engine: whether this node's worker is still sending heartbeats."""

    async def check(self) -> None:
        """Raise Unavailable with the reason if the node cannot serve requests."""
        # Checked every time instead of cached, because this does not need the database.
        if self._hub.draining:
            msg = "This node is shutting down."
            raise Unavailable(msg)
        if not self.worker_is_well():
            msg = "This node's worker is not responding."
            raise Unavailable(msg)
        # Concurrent checks share one result, so that they write to the database only once.
        async with self._one_at_a_time:
            if time.monotonic() >= self._checked_until:
                self._note(await self._what_is_wrong())
                self._checked_until = time.monotonic() + REMEMBER_SECONDS
        if self._wrong is not None:
            raise Unavailable(self._wrong)

    async def _what_is_wrong(self) -> str | None:
        if self._keys_missing:
            return KEYLESS_TEXT
        if self._disk_is_full():
            return "The disk that stores the data is almost full."
        try:
            async with asyncio.timeout(self._patience):
                await usable(self._database)
        except TimeoutError:
            return "The database is not accepting writes."
        except Unavailable as error:
            return error.message
        return None

    def _disk_is_full(self) -> bool:
        if self._folder is None or not self._min_free_mb:
            return False
        return shutil.disk_usage(self._folder).free < self._min_free_mb * MEGABYTE

    def _note(self, wrong: str | None) -> None:
        """Log the result only when it changes."""
        if wrong != self._wrong:
            if wrong is None:
                _log.info("ready_again")
            else:
                _log.warning("not_ready", reason=wrong)
        self._wrong = wrong
