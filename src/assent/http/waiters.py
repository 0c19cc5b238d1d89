"""Waiting for changes: register, read, wait, read again. A wake-up is only a hint; the database is authoritative."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Any, TypeAlias

from assent.kernel.ports import Hint

Receive: TypeAlias = Callable[[], Awaitable[Any]]

INBOX_BACKLOG = 500


class Woken(Enum):
    CHANGED = auto()
    TIMEOUT = auto()
    GONE = auto()
    DRAINED = auto()
    REVOKED = auto()


class Waiter:
    """A waiting request."""

    __slots__ = ("breakpoint_id", "by_agent", "future", "token")

    def __init__(self, breakpoint_id: str, token: str, future: "asyncio.Future[Woken]", *, by_agent: bool) -> None:
        self.breakpoint_id = breakpoint_id
        self.token = token
        self.future = future
        self.by_agent = by_agent

    def wake(self, reason: Woken) -> None:
        # Only the first reason counts.
        if not self.future.done():
            self.future.set_result(reason)


class Inbox:
    """An open inbox, with the breakpoints that have changed since it was last read."""

    def __init__(self, project: str, token: str) -> None:
        self.project = project
        self.token = token
        self.hints: dict[str, Hint] = {}
        self.overflowed = False
        self.closed = False
        self.ready = asyncio.Event()

    def tell(self, hint: Hint) -> None:
        # Bounded, because a slow client may not read; the stream then asks it to reload.
        if len(self.hints) >= INBOX_BACKLOG:
            self.overflowed = True
        else:
            self.hints[hint.breakpoint_id] = hint
        self.ready.set()

    def close(self) -> None:
        self.closed = True
        self.ready.set()


class Hub:
    """All waiting requests and open inboxes of this node."""

    def __init__(self) -> None:
        self.draining = False
        self._by_breakpoint: dict[str, set[Waiter]] = defaultdict(set)
        self._by_token: dict[str, set[Waiter]] = defaultdict(set)
        self._inboxes: dict[str, set[Inbox]] = defaultdict(set)
        self._left: dict[str, float] = {}
        """When the agent's last wait for a breakpoint ended on this node, by the event loop's clock."""
        self._polled: set[str] = set()
        """The breakpoints that agents have polled since `present` was last called."""

    def wake(self, hints: Sequence[Hint]) -> None:
        for hint in hints:
            # Quiet hints concern only inboxes.
            if not hint.quiet:
                self.wake_ids([hint.breakpoint_id])
            for inbox in self._inboxes.get(hint.project, ()):
                inbox.tell(hint)

    def wake_ids(self, breakpoint_ids: Iterable[str]) -> None:
        for breakpoint_id in breakpoint_ids:
            for waiter in self._by_breakpoint.get(breakpoint_id, ()):
                waiter.wake(Woken.CHANGED)

    def register(self, breakpoint_id: str, token: str, *, by_agent: bool = False) -> Waiter:
        waiter = Waiter(breakpoint_id, token, asyncio.get_running_loop().create_future(), by_agent=by_agent)
        self._by_breakpoint[breakpoint_id].add(waiter)
        self._by_token[token].add(waiter)
        if self.draining:
            waiter.wake(Woken.DRAINED)
        return waiter

    def rearm(self, waiter: Waiter) -> None:
        """Wait again after a wake-up that did not concern this waiter."""
        waiter.future = asyncio.get_running_loop().create_future()
        if self.draining:
            waiter.wake(Woken.DRAINED)

    def remove(self, waiter: Waiter) -> None:
        _discard(self._by_breakpoint, waiter.breakpoint_id, waiter)
        _discard(self._by_token, waiter.token, waiter)
        # While draining, waits end because of the server, not because the agent has left.
        if waiter.by_agent and not self.draining:
            self._left[waiter.breakpoint_id] = asyncio.get_running_loop().time()

    def heard(self, breakpoint_id: str) -> None:
        """Record that the agent has polled its breakpoint."""
        self._polled.add(breakpoint_id)
        if breakpoint_id in self._left:
            self._left[breakpoint_id] = asyncio.get_running_loop().time()

    def take_absent(self, grace: float) -> list[str]:
        """Return the breakpoints whose agents have been absent for this many seconds after a wait, each only once."""
        before = asyncio.get_running_loop().time() - grace
        gone = [each for each, at in self._left.items() if at <= before]
        for each in gone:
            del self._left[each]
        return [each for each in gone if not any(waiter.by_agent for waiter in self._by_breakpoint.get(each, ()))]

    def present(self) -> list[str]:
        """Return the breakpoints whose agents are waiting here, or have polled since the last call."""
        polled, self._polled = self._polled, set()
        return [*polled, *(key for key, group in self._by_breakpoint.items() if any(each.by_agent for each in group))]

    def open_inbox(self, project: str, token: str) -> Inbox:
        inbox = Inbox(project, token)
        self._inboxes[project].add(inbox)
        if self.draining:
            inbox.close()
        return inbox

    def close_inbox(self, inbox: Inbox) -> None:
        _discard(self._inboxes, inbox.project, inbox)

    def held_by(self, token: str) -> int:
        inboxes = sum(inbox.token == token for group in self._inboxes.values() for inbox in group)
        return len(self._by_token.get(token, ())) + inboxes

    @property
    def waiters(self) -> int:
        return sum(map(len, self._by_breakpoint.values()))

    @property
    def inboxes(self) -> int:
        return sum(map(len, self._inboxes.values()))

    def tokens(self) -> set[str]:
        return set(self._by_token) | {inbox.token for group in self._inboxes.values() for inbox in group}

    def waited_for(self) -> list[str]:
        return list(self._by_breakpoint)

    def cut(self, token: str) -> None:
        """End all waits and inboxes of a revoked token."""
        for waiter in self._by_token.get(token, ()):
            waiter.wake(Woken.REVOKED)
        for group in self._inboxes.values():
            for inbox in group:
                if inbox.token == token:
                    inbox.close()

    def drain(self) -> None:
        """End all waits at once, so that clients reconnect to another node."""
        self.draining = True
        for group in self._by_breakpoint.values():
            for waiter in group:
                waiter.wake(Woken.DRAINED)
        for inboxes in self._inboxes.values():
            for inbox in inboxes:
                inbox.close()


def _discard(index: dict[str, set[Any]], key: str, member: object) -> None:
    group = index.get(key)
    if group is not None:
        group.discard(member)
        if not group:
            del index[key]


async def parked(waiter: Waiter, seconds: float, receive: "Receive | None") -> Woken:
    """Return at the first wake-up, timeout or disconnect."""
    loop = asyncio.get_running_loop()
    timer = loop.call_later(seconds, waiter.wake, Woken.TIMEOUT)
    watch = loop.create_task(_until_gone(receive, waiter)) if receive is not None else None
    try:
        return await waiter.future
    finally:
        timer.cancel()
        if watch is not None:
            watch.cancel()


async def _until_gone(receive: Receive, waiter: Waiter) -> None:
    # Without this, every abandoned long poll would stay registered until its timeout.
    while (await receive())["type"] != "http.disconnect":
        pass
    waiter.wake(Woken.GONE)
