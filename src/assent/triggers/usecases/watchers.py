"""Watches sources on this machine, on every node that has a worker."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import structlog

from assent.core.errors import AssentError, Conflict, InvalidRequest
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.kernel.ports import Clock, Database
from assent.platform.workers import Workers
from assent.runs.store import Runs
from assent.triggers.event import Arrived
from assent.triggers.ports import Watcher
from assent.triggers.sources.registry import KINDS, SourceKind, Way
from assent.triggers.sources.tools import SourceTools
from assent.triggers.store.sources import Sources, StoredSource
from assent.triggers.usecases.ingest import receive

LOOK_SECONDS = 3.0
LONGEST_PAUSE = 60.0
AT_ONCE = 1_000
STILL_WRITES = 600 * SECOND
"""How long after a run ends it still counts as the writer of the files it declared; changes may be reported late."""
_log = structlog.get_logger()


class WatchingDesk:
    """Stores the events and memory of one watched source together in one transaction."""

    def __init__(self, database: Database[Transaction], source_id: str, clock: Clock) -> None:
        self.source_id = source_id
        self._database = database
        self._clock = clock
        self._turn: str | None = None

    async def watching(self) -> None:
        await self._database.write(partial(_note, source_id=self.source_id, problem=None))

    async def tell(self, arrived: Sequence[Arrived], memory: object = None) -> None:
        told = partial(_tell, source_id=self.source_id, arrived=arrived, memory=memory, after=self._turn)
        self._turn = await self._database.write(told, locks=self.source_id)

    async def memory(self) -> Any:  # noqa: ANN401  # any JSON value
        found = await self._database.read(lambda tx: tx[Sources].memory(self.source_id))
        self._turn, memory = found if found is not None else (None, None)
        return memory

    async def written_by(self, paths: Sequence[str]) -> Mapping[str, str]:
        found: dict[str, str] = {}
        # Databases limit the number of parameters per statement.
        for start in range(0, len(paths), AT_ONCE):
            asked = partial(_writers, source_id=self.source_id, paths=paths[start : start + AT_ONCE])
            found |= await self._database.read(asked)
        return found

    def now(self) -> int:
        return self._clock.now()


def _tell(
    tx: Transaction, *, source_id: str, arrived: Sequence[Arrived], memory: object, after: str | None
) -> str | None:
    """Store events and the memory that replaces the version they are based on. Return the new memory's turn."""
    source = tx[Sources].get(source_id)
    if not source.enabled or source.removed_at is not None:
        msg = f"The source {source.name} is no longer watched."
        raise Conflict(msg)
    turn = after
    if memory is not None:
        turn = tx.new_id("mem")
        if not tx[Sources].remember_next(source_id, memory, turn=turn, after=after):
            msg = "Another node has stored events in the meantime."
            raise Conflict(msg)
    receive(tx, source, arrived)
    return turn


def _writers(tx: Transaction, *, source_id: str, paths: Sequence[str]) -> dict[str, str]:
    project = tx[Sources].get(source_id).project
    return tx[Runs].writers(paths, project=project, since=tx.now() - STILL_WRITES)


def _note(tx: Transaction, *, source_id: str, problem: str | None) -> None:
    if tx[Sources].get(source_id).problem != problem:
        tx[Sources].note_problem(source_id, problem)


@dataclass(slots=True)
class _Watched:
    """A source as it was when its watcher was started."""

    stored: StoredSource
    task: asyncio.Task[None]

    def serves(self, stored: StoredSource) -> bool:
        return stored.updated_at == self.stored.updated_at


class Watching:
    """Starts, restarts and stops watchers as sources are added, changed and removed; `run` continues until it is
    cancelled.
    """

    def __init__(
        self,
        database: Database[Transaction],
        tools: SourceTools,
        clock: Clock,
        *,
        kinds: Mapping[str, SourceKind] = KINDS,
        host: str = "",
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._database = database
        self._tools = tools
        self._clock = clock
        self._kinds = kinds
        self._host = host or socket.gethostname()
        self._pause = pause
        self._running: dict[str, _Watched] = {}

    async def run(self) -> None:
        try:
            while True:
                try:
                    await self.look()
                except Exception:  # noqa: BLE001  # the worker loop
                    _log.exception("watching_failed")
                await self._pause(LOOK_SECONDS)
        finally:
            await self.stop()

    async def look(self) -> None:
        """Start and stop watchers to match the current sources."""
        every = await self._database.read(lambda tx: tx[Sources].every())
        wanted = {each.id: each for each in every if self._is_ours(each)}
        for source_id, watched in list(self._running.items()):
            if source_id not in wanted or not watched.serves(wanted[source_id]):
                await self._leave(source_id)
        for source_id, stored in wanted.items():
            if source_id not in self._running:
                self._running[source_id] = _Watched(stored, asyncio.create_task(self._keep_watching(stored)))

    async def stop(self) -> None:
        for source_id in list(self._running):
            await self._leave(source_id)

    def _is_ours(self, stored: StoredSource) -> bool:
        kind = self._kinds.get(stored.kind)
        if kind is None or kind.way is not Way.WATCH:
            return False
        return stored.enabled and stored.settings.get("host", self._host) == self._host

    async def _leave(self, source_id: str) -> None:
        watched = self._running.pop(source_id)
        watched.task.cancel()
        await asyncio.gather(watched.task, return_exceptions=True)

    async def _keep_watching(self, stored: StoredSource) -> None:
        """Restart the watcher after each failure, with increasing delays, and record the reason for display."""
        wait = 1.0
        while True:
            began = _steady()
            problem, is_missing = "", False
            try:
                made = self._kinds[stored.kind].make(stored.settings, self._tools)
                await cast("Watcher", made).watch(WatchingDesk(self._database, stored.id, self._clock))
            except (OSError, ValueError) as error:
                problem, is_missing = str(error), isinstance(error, FileNotFoundError)
            except InvalidRequest as error:
                problem = error.message
            except AssentError as error:
                _log.info("watching_interrupted", source=stored.id, error=error.message)
            except Exception:  # noqa: BLE001  # the worker loop
                _log.exception("watching_failed", source=stored.id, kind=stored.kind)
                problem = "The source cannot be watched because of an internal error; see the server log."
            if problem:
                await self._told(stored, problem, is_missing=is_missing)
            # A watcher that ran for a while has recovered, so its delay starts over.
            wait = 1.0 if _steady() - began > LONGEST_PAUSE * SECOND else min(wait * 2, LONGEST_PAUSE)
            await self._pause(wait)

    async def _told(self, stored: StoredSource, problem: str, *, is_missing: bool) -> None:
        _log.info("source_not_watched", source=stored.id, kind=stored.kind, problem=problem)
        try:
            # If other machines may have the folder, its absence here is not a problem to report.
            if not is_missing or "host" in stored.settings or not await self._has_neighbours():
                await self._database.write(partial(_note, source_id=stored.id, problem=problem))
        except Exception:  # noqa: BLE001  # the worker loop
            _log.exception("watching_failed", source=stored.id)

    async def _has_neighbours(self) -> bool:
        """Return whether another machine might have the files that are missing on this one."""
        hosts = await self._database.read(lambda tx: tx[Workers].hosts())
        return not set(hosts) <= {self._host}


def _steady() -> int:
    return time.monotonic_ns() // 1000
