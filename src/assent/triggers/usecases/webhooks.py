"""Receives webhooks: each event is verified, parsed and stored before the response is sent."""

import asyncio
import contextlib
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import structlog

from assent.core.errors import (
    NO_SUCH_URL,
    AssentError,
    InvalidRequest,
    MalformedJson,
    NotFound,
    Unauthenticated,
    Unavailable,
)
from assent.db.transaction import Transaction
from assent.kernel.ports import Clock, Database, Incoming
from assent.people.usecases.people import DEFAULT_PROJECT
from assent.triggers.event import Arrived
from assent.triggers.ports import Hook
from assent.triggers.sources.fields import MAX_BYTES, PER_MINUTE
from assent.triggers.sources.registry import KINDS, Way
from assent.triggers.sources.tools import SourceTools
from assent.triggers.sources.webhook import UNNAMED
from assent.triggers.store.events import Kept
from assent.triggers.store.sources import Sources, StoredSource
from assent.triggers.usecases.ingest_batch import Gathering

REMEMBER_SECONDS = 1.0
PATIENCE_SECONDS = 8.0
"""GitHub disconnects after ten seconds. Respond earlier, so that it learns that it should send the event again."""
LARGE = 256 * 1024
"""Size in bytes above which bodies are parsed in a thread, so that other requests are not delayed."""
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Door:
    """A source that receives webhooks, cached briefly."""

    source: StoredSource
    hook: Hook
    until: float

    @property
    def max_bytes(self) -> int:
        return int(self.source.settings.get("max_bytes", MAX_BYTES))

    @property
    def per_minute(self) -> int:
        return int(self.source.settings.get("per_minute", PER_MINUTE))


@dataclass(slots=True)
class Refusals:
    count: int
    why: str
    at: int


class Ingress:
    def __init__(self, database: Database[Transaction], tools: SourceTools, clock: Clock) -> None:
        self._database = database
        self._tools = tools
        self._clock = clock
        self._known: dict[str, Door] = {}
        self._changes = 0
        self._looking = asyncio.Lock()
        self._refusals: dict[str, Refusals] = {}
        self._gathering = Gathering(database)

    async def door(self, address: str) -> Door:
        """Return the source at an address (an ID, or a name in the default project), or raise NotFound."""
        found = self._fresh(address)
        if found is not None:
            return found
        with _storing():
            # The lock makes concurrent requests share one query after the cache has expired.
            async with asyncio.timeout(PATIENCE_SECONDS), self._looking:
                return self._fresh(address) or await self._look_up(address)

    async def take(self, address: str, key: str | None, incoming: Incoming) -> Kept:
        door = await self.door(address)
        return await self.keep(door, await self.verified(door, key, incoming))

    async def verified(self, door: Door, key: str | None, incoming: Incoming) -> Sequence[Arrived]:
        """Verify and parse a request. Rejections are recorded, but unverified senders do not see the reason."""
        source = door.source
        try:
            arrived = await _taken(door.hook, key, incoming)
        except Unauthenticated as error:
            # Do not record the body, because its sender is not verified.
            self._refuse(source, error.message)
            msg = "This event could not be verified as coming from this source."
            raise Unauthenticated(msg) from error
        except (InvalidRequest, MalformedJson) as error:
            self._refuse(source, error.message)
            raise
        except Unavailable as error:
            raise _unusable(source, error.message) from error
        return [replace(each, type=f"{UNNAMED}.{source.name}") if each.type == UNNAMED else each for each in arrived]

    async def keep(self, door: Door, arrived: Sequence[Arrived]) -> Kept:
        with _storing():
            async with asyncio.timeout(PATIENCE_SECONDS):
                kept = await self._gathering.keep(door.source, arrived)
        return kept[0]

    def forget(self) -> None:
        """Clear the cache, because a source was changed."""
        self._changes += 1
        self._known.clear()

    async def note_refusals(self) -> None:
        """Record the rejections since the last call, with one write per source, no matter how many there were."""
        found, self._refusals = self._refusals, {}
        if found:
            await self._database.write(partial(_note, refusals=found))

    def _fresh(self, address: str) -> Door | None:
        found = self._known.get(address)
        return found if found is not None and found.until > time.monotonic() else None

    async def _look_up(self, address: str) -> Door:
        """Load a source. Missing sources are not cached, so that a new source can be used immediately."""
        before, changes = self._known.pop(address, None), self._changes
        source = await self._database.read(partial(_found, address=address))
        if source is None:
            raise nothing_here()
        same = before is not None and before.source.updated_at == source.updated_at and before.source.id == source.id
        hook = before.hook if before is not None and same else self._made(source)
        found = Door(source, hook, time.monotonic() + REMEMBER_SECONDS)
        # If a source was changed during the query, the result may already be outdated.
        if changes == self._changes:
            self._known[address] = found
        return found

    def _made(self, source: StoredSource) -> Hook:
        try:
            return cast("Hook", KINDS[source.kind].make(source.settings, self._tools))
        except (InvalidRequest, Unavailable) as error:
            # Without its secrets, the source cannot verify events and must not accept any.
            raise _unusable(source, error.message) from error

    def _refuse(self, source: StoredSource, why: str) -> None:
        now = self._clock.now()
        noted = self._refusals.setdefault(source.id, Refusals(0, why, now))
        noted.count, noted.why, noted.at = noted.count + 1, why, now
        # Log only the first rejection of each period, because anyone can send invalid requests.
        if noted.count == 1:
            _log.warning("hook_refused", source=source.id, kind=source.kind, reason=why)


async def _taken(hook: Hook, key: str | None, incoming: Incoming) -> Sequence[Arrived]:
    if len(incoming.body) > LARGE:
        return await asyncio.to_thread(hook.take, incoming, key=key)
    return hook.take(incoming, key=key)


def nothing_here() -> NotFound:
    """Return the same error for sources that do not exist, were removed, are disabled, or do not receive webhooks."""
    return NotFound(NO_SUCH_URL)


def _found(tx: Transaction, *, address: str) -> StoredSource | None:
    """Return the source for webhooks at this address. Unknown addresses take the same amount of work."""
    known, named = tx[Sources].find(address), tx[Sources].by_name(DEFAULT_PROJECT, address)
    # The ID takes precedence, so that a source cannot be named to intercept the events of another source.
    found = known or named
    if found is None or not found.enabled or found.removed_at is not None:
        return None
    kind = KINDS.get(found.kind)
    return found if kind is not None and kind.way is Way.HOOK else None


def _note(tx: Transaction, *, refusals: dict[str, Refusals]) -> None:
    for source_id, each in sorted(refusals.items()):
        tx[Sources].note_refused(source_id, each.why, each.at, count=each.count)


def _unusable(source: StoredSource, why: str) -> Unavailable:
    _log.warning("source_unusable", source=source.id, kind=source.kind, error=why)
    return Unavailable("This source is temporarily unavailable.")


@contextlib.contextmanager
def _storing() -> Generator[None, None, None]:
    """Turn every failure into an error that asks the sender to send the event again; duplicates count only once."""
    try:
        yield
    except AssentError:
        raise
    except Exception as error:
        _log.exception("event_not_stored")
        msg = "The event could not be stored. Send it again."
        raise Unavailable(msg) from error
