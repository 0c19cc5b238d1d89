"""Close connections whose client is too slow to send a request or to read the answer; uvicorn waits without end."""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, Protocol, cast

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

BODY_BYTES_PER_SECOND = 64 * 1024
"""A large body gets more time than the timeout, as long as it arrives at this rate."""
TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_log = structlog.get_logger()


class WatchedProtocol(HttpToolsProtocol):
    """Counts progress in both directions, so that a client that stopped can be told from one that is slow."""

    body_parts = 0
    write_resumes = 0

    def resume_writing(self) -> None:
        self.write_resumes += 1
        super().resume_writing()

    def on_body(self, body: bytes) -> None:
        self.body_parts += 1
        super().on_body(body)


class Connection(Protocol):
    """What is looked at of a connection; as uvicorn has it."""

    cycle: RequestResponseCycle | None
    timeout_keep_alive_task: asyncio.TimerHandle | None
    transport: asyncio.Transport
    body_parts: int
    write_resumes: int


class Seen(NamedTuple):
    """A connection that waits for its client, as it was when that was noticed."""

    cycle: RequestResponseCycle | None
    since: float
    parts: int = 0
    moved: float | None = None
    """When the last part of a body came; None while headers are waited for."""


class Unread(NamedTuple):
    """What a client has left unread in the server's write buffer, and since when none of it has gone out."""

    size: int
    resumes: int
    since: float


class ConnectionWatch:
    """Looks at all connections now and then; requests themselves pay nothing for it."""

    def __init__(
        self,
        connections: Callable[[], Collection[Any]],
        *,
        header_timeout: float,
        body_timeout: float,
        write_timeout: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """A timeout of 0 means that there is no limit."""
        self._connections = connections
        self._header_timeout = header_timeout
        self._body_timeout = body_timeout
        self._write_timeout = write_timeout
        self._now = now
        self._seen: dict[Connection, Seen] = {}
        self._unread: dict[Connection, Unread] = {}

    @property
    def every(self) -> float:
        """Seconds between two looks: a client gets at most a quarter more than the shortest timeout."""
        limits = [each for each in (self._header_timeout, self._body_timeout, self._write_timeout) if each]
        return max(0.05, min(limits, default=0) / 4)

    async def run(self) -> None:
        if not (self._header_timeout or self._body_timeout or self._write_timeout):
            return
        while True:
            await asyncio.sleep(self.every)
            if closed := self.look():
                _log.warning("slow_clients_closed", connections=closed)

    def look(self) -> int:
        """Close what has waited for its client for too long; return how many connections that were."""
        now = self._now()
        # A connection that switched to another protocol has no request to wait for.
        watched = cast("list[Connection]", [each for each in self._connections() if isinstance(each, WatchedProtocol)])
        return self._close_unread(watched, now) + self._close_unsent(watched, now)

    def _close_unread(self, watched: list[Connection], now: float) -> int:
        """Abort connections whose client reads nothing; closing them would wait for the buffer to drain."""
        before, self._unread = self._unread, {}
        late: list[Connection] = []
        for each in watched:
            unread = _unread(each, before.get(each), now)
            if unread is None or not self._write_timeout:
                continue
            if now - unread.since >= self._write_timeout:
                late.append(each)
            else:
                self._unread[each] = unread
        for each in late:
            each.transport.abort()
        return len(late)

    def _close_unsent(self, watched: list[Connection], now: float) -> int:
        """Close connections whose client does not finish sending its request."""
        before, self._seen = self._seen, {}
        late: list[Connection] = []
        for each in watched:
            seen = _noticed(each, before.get(each), now)
            if seen is None or each.transport.is_closing():
                continue
            if self._is_late(seen, now):
                late.append(each)
            else:
                self._seen[each] = seen
        for each in late:
            _close(each)
        return len(late)

    def _is_late(self, seen: Seen, now: float) -> bool:
        if seen.moved is None:
            return bool(self._header_timeout) and now - seen.since >= self._header_timeout
        if not self._body_timeout or seen.cycle is None:
            return False
        whole = self._body_timeout + _announced(seen.cycle) / BODY_BYTES_PER_SECOND
        return now - seen.moved >= self._body_timeout or now - seen.since >= whole


def _unread(connection: Connection, before: Unread | None, now: float) -> Unread | None:
    """Return since when no byte of an answer has gone out; None if none is waiting."""
    size, resumes = connection.transport.get_write_buffer_size(), connection.write_resumes
    if not size:
        return None
    # Streams add to the buffer, so it may have moved without being smaller; uvicorn then resumes writing.
    if before is None or size < before.size or resumes != before.resumes:
        return Unread(size, resumes, now)
    return before._replace(size=size)


def _noticed(connection: Connection, before: Seen | None, now: float) -> Seen | None:
    """Return since when a connection has waited for the same part of the same request; None if it does not wait."""
    cycle = connection.cycle
    if _reads_body(cycle):
        parts = connection.body_parts
        if before is None or before.cycle is not cycle or before.moved is None:
            return Seen(cycle, now, parts, now)
        return before if before.parts == parts else before._replace(parts=parts, moved=now)
    idle = cycle is None or cycle.response_complete
    # Between two requests of a connection uvicorn's own timer runs; it ends with the first byte of the next one.
    if not idle or connection.timeout_keep_alive_task is not None:
        return None
    return before if before is not None and before.cycle is cycle and before.moved is None else Seen(cycle, now)


def _reads_body(cycle: RequestResponseCycle | None) -> bool:
    return cycle is not None and not cycle.response_complete and cycle.more_body


def _announced(cycle: RequestResponseCycle) -> int:
    """Return how long the body is to be; nothing where the client did not say."""
    for name, value in cycle.scope["headers"]:
        if name == b"content-length" and value.isdigit() and len(value) < 20:  # noqa: PLR2004  # digits of a sane length
            return int(value)
    return 0


def _close(connection: Connection) -> None:
    cycle: RequestResponseCycle | None = connection.cycle
    if cycle is None or cycle.response_complete or not cycle.response_started:
        connection.transport.write(TIMED_OUT)
    connection.transport.close()
