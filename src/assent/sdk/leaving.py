"""A program that ends while it waits: SIGTERM cancels its question, and stderr says what it is waiting for."""

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator, Generator
from types import FrameType

import anyio

TERMINATED = 128 + signal.SIGTERM
FIRST_NOTICE_SECONDS = 5.0
LONGEST_NOTICE_SECONDS = 300.0


class _Handler:
    """The handler of SIGTERM while calls wait; concurrent calls share it, and the last one takes it away."""

    def __init__(self) -> None:
        self.waiting = 0
        self.scopes: set[anyio.CancelScope] = set()
        self.cancelled = anyio.Event()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise SystemExit(TERMINATED) from None
        if self.waiting > len(self.scopes):
            raise SystemExit(TERMINATED)
        # Raised inside the loop, SystemExit would end it before the other calls have cancelled their questions.
        loop.call_soon_threadsafe(self._cancel_scopes)

    def _cancel_scopes(self) -> None:
        if not self.scopes:  # the last call returned meanwhile
            raise SystemExit(TERMINATED)
        for scope in self.scopes:
            scope.cancel()

    def enter(self, scope: anyio.CancelScope) -> None:
        if not self.scopes:
            self.cancelled = anyio.Event()
        self.scopes.add(scope)

    def leave(self, scope: anyio.CancelScope) -> None:
        self.scopes.discard(scope)
        if not self.scopes:
            self.cancelled.set()


_handler = _Handler()


@contextlib.contextmanager
def terminable() -> Generator[bool, None, None]:
    """Have SIGTERM raise SystemExit where the program has no handler of its own, so that its question is cancelled."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGTERM) not in {signal.SIG_DFL, _handler}:
        yield False
        return
    _handler.waiting += 1
    signal.signal(signal.SIGTERM, _handler)
    try:
        yield True
    finally:
        _handler.waiting -= 1
        if not _handler.waiting and signal.getsignal(signal.SIGTERM) is _handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.asynccontextmanager
async def terminable_async() -> AsyncGenerator[None, None]:
    """Do the same for a coroutine: the program ends once every waiting call has cancelled its question."""
    with terminable() as handled:
        if not handled:
            yield
            return
        with anyio.CancelScope() as scope:
            _handler.enter(scope)
            try:
                yield
            finally:
                _handler.leave(scope)
        if scope.cancel_called:
            with anyio.CancelScope(shield=True):
                await _handler.cancelled.wait()
            raise SystemExit(TERMINATED)


def left_async() -> tuple[type[BaseException], ...]:
    """Return what ends an async caller: cancellation, any error, and a signal that arrives while its task runs."""
    return (anyio.get_cancelled_exc_class(), KeyboardInterrupt, SystemExit, Exception)


class Notices:
    """Says on stderr that a call is being retried: at once, then at growing intervals. ASSENT_QUIET silences it."""

    def __init__(self) -> None:
        self._next = 0.0
        self._pause = FIRST_NOTICE_SECONDS

    def __call__(self, because: str) -> None:
        now = time.monotonic()
        if os.environ.get("ASSENT_QUIET") or because == "the server answers early" or now < self._next:
            return
        sys.stderr.write(f"assent: waiting for the server: {because}; retrying.\n")
        self._next, self._pause = now + self._pause, min(LONGEST_NOTICE_SECONDS, self._pause * 2)
