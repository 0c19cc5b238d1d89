"""A program that ends while it waits: SIGTERM cancels its question, and stderr says what it is waiting for."""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from types import FrameType
from typing import NoReturn

import anyio

TERMINATED = 128 + signal.SIGTERM
FIRST_NOTICE_SECONDS = 5.0
LONGEST_NOTICE_SECONDS = 300.0


class _Handler:
    """The handler of SIGTERM while calls wait; concurrent calls share it, and the last one takes it away."""

    waiting = 0

    def __call__(self, number: int, frame: FrameType | None) -> NoReturn:
        del number, frame
        raise SystemExit(TERMINATED)


_handler = _Handler()


@contextlib.contextmanager
def terminable() -> Generator[None, None, None]:
    """Have SIGTERM raise SystemExit where the program has no handler of its own, so that its question is cancelled."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGTERM) not in {signal.SIG_DFL, _handler}:
        yield
        return
    _handler.waiting += 1
    signal.signal(signal.SIGTERM, _handler)
    try:
        yield
    finally:
        _handler.waiting -= 1
        if not _handler.waiting and signal.getsignal(signal.SIGTERM) is _handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


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
