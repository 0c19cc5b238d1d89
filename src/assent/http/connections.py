"""Closes connections of clients that stop sending a request or reading a response; uvicorn would wait forever."""

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
    """Counts progress in both directions, to distinguish a slow client from one that has stopped."""

    body_parts = 0
    write_resumes = 0

    def resume_writing(self) -> None:
        self.write_resumes += 1
        super().resume_writing()

    def on_body(self, body: bytes) -> None:
        self.body_parts += 1
        super().on_body(body)


class Connection(Protocol):
    """The attributes of uvicorn's connections that the watch inspects."""

    cycle: RequestResponseCycle | None
    timeout_keep_alive_task: asyncio.TimerHandle | None
    transport: asyncio.Transport
    body_parts: int
    write_resumes: int


class Seen(NamedTuple):
    """A connection that is waiting for its client, with its state when this was noticed."""

    cycle: RequestResponseCycle | None
    since: float
    parts: int = 0
    moved: float | None = None
    """When the last part of the body arrived; None while waiting for headers."""


class Unread(NamedTuple):
    """The amount of data in the write buffer, and the time at which the client was last known to read."""

    size: int
    resumes: int
    since: float


class ConnectionWatch:
    """Checks all connections periodically, which is cheaper than timers for each request."""

    def __init__(
        self,
        connections: Callable[[], Collection[Any]],
        *,
        header_timeout: float,
        body_timeout: float,
        write_timeout: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """A timeout of 0 disables its check."""
        self._connections = connections
        self._header_timeout = header_timeout
        self._body_timeout = body_timeout
        self._write_timeout = write_timeout
        self._now = now
        self._seen: dict[Connection, Seen] = {}
        self._unread: dict[Connection, Unread] = {}

    @property
    def every(self) -> float:
        """Seconds between checks; a client can exceed the shortest timeout by at most a quarter."""
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
        """Close connections that have exceeded a timeout, and return how many."""
        now = self._now()
        # A connection that switched to another protocol, such as WebSocket, does not have a request cycle.
        watched = cast("list[Connection]", [each for each in self._connections() if isinstance(each, WatchedProtocol)])
        return self._close_unread(watched, now) + self._close_unsent(watched, now)

    def _close_unread(self, watched: list[Connection], now: float) -> int:
        """Abort connections whose client does not read; closing them would wait for the buffer to drain."""
        # Rebuilt at each check, so that closed connections are forgotten.
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
        # Progress extends the timeout, but only up to the time that the minimum rate would take.
        whole = self._body_timeout + _announced(seen.cycle) / BODY_BYTES_PER_SECOND
        return now - seen.moved >= self._body_timeout or now - seen.since >= whole


def _unread(connection: Connection, before: Unread | None, now: float) -> Unread | None:
    """Return the state of the write buffer and the time since which nothing was read; None if the buffer is empty."""
    size, resumes = connection.transport.get_write_buffer_size(), connection.write_resumes
    if not size:
        return None
    # A stream refills the buffer, which then may not shrink although the client reads; but uvicorn resumes writing.
    if before is None or size < before.size or resumes != before.resumes:
        return Unread(size, resumes, now)
    return before._replace(size=size)


def _noticed(connection: Connection, before: Seen | None, now: float) -> Seen | None:
    """Return when a connection started waiting for its current part of a request; None if it is not waiting."""
    cycle = connection.cycle
    if _reads_body(cycle):
        parts = connection.body_parts
        if before is None or before.cycle is not cycle or before.moved is None:
            return Seen(cycle, now, parts, now)
        return before if before.parts == parts else before._replace(parts=parts, moved=now)
    idle = cycle is None or cycle.response_complete
    # Between two requests, uvicorn's keep-alive timer runs until the first byte of the next request arrives.
    if not idle or connection.timeout_keep_alive_task is not None:
        return None
    return before if before is not None and before.cycle is cycle and before.moved is None else Seen(cycle, now)


def _reads_body(cycle: RequestResponseCycle | None) -> bool:
    return cycle is not None and not cycle.response_complete and cycle.more_body


def _announced(cycle: RequestResponseCycle) -> int:
    """Return the declared length of the body, or 0 if the client did not declare one."""
    for name, value in cycle.scope["headers"]:
        if name == b"content-length" and value.isdigit() and len(value) < 20:  # noqa: PLR2004  # at most 19 digits
            return int(value)
    return 0


def _close(connection: Connection) -> None:
    cycle: RequestResponseCycle | None = connection.cycle
    # A 408 in the middle of a response would look like a part of its body.
    if cycle is None or cycle.response_complete or not cycle.response_started:
        connection.transport.write(TIMED_OUT)
    connection.transport.close()
