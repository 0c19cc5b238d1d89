"""Reads one line at a time from the user's terminal, if there is one."""

import contextlib
import os
import select
import termios
import threading
import time
from typing import Protocol

from rich.console import Console
from rich.text import Text

LONGEST_LINE = 64 * 1024
LEAVE_SECONDS = 2.0
LOOK_SECONDS = 0.5
_INPUT, _OUTPUT, _ERRORS = 0, 1, 2


class NoAnswer(Exception):  # not an error
    """The person did not answer: the input ended, or the program stopped waiting."""


class Late(NoAnswer):
    """The deadline passed before the person answered."""


class Person(Protocol):
    """The person who is asked."""

    @property
    def console(self) -> Console:
        """The console that the person reads."""
        ...

    def ask(self, prompt: str) -> str:
        """Return the line typed after the prompt; raise NoAnswer if the person does not answer."""
        ...

    def close(self) -> None: ...


class Terminal:
    """A terminal in the foreground, from which only the requested line is read."""

    def __init__(self, screen: int, *, ttl_seconds: int | None) -> None:
        self._screen = open(screen, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        self._ends = None if ttl_seconds is None else time.monotonic() + ttl_seconds
        # Closing the input would not wake a thread that is blocked in select; a byte in this pipe does.
        self._wake, self._waker = os.pipe()
        self._closing = threading.Lock()
        self._open = True
        self._closed = threading.Event()
        self.console = Console(file=self._screen, markup=False, highlight=False, emoji=False)

    def ask(self, prompt: str) -> str:
        # Text typed before the question was shown is not an answer to it.
        with contextlib.suppress(termios.error):
            termios.tcflush(_INPUT, termios.TCIFLUSH)
        self.console.print(Text(prompt), end="", soft_wrap=True)
        self._screen.flush()
        try:
            return self._line()
        except NoAnswer:
            self.console.print()
            raise
        except KeyboardInterrupt:
            self.console.print()
            raise

    def interrupt(self) -> None:
        """Stop the thread that is waiting for a line; may be called from any thread."""
        # The pipe may already be closed, and its number reused by another file.
        with self._closing:
            if self._open:
                os.write(self._waker, b"!")

    def close(self) -> None:
        with self._closing:
            self._open = False
            os.close(self._wake)
            os.close(self._waker)
        self._screen.close()
        self._closed.set()

    def left(self) -> None:
        """Wait until the interrupted reader has ended its line, so that further output starts below it."""
        self._closed.wait(LEAVE_SECONDS)

    def _line(self) -> str:
        line = b""
        while not line.endswith(b"\n"):
            left = LOOK_SECONDS if self._ends is None else max(0.0, self._ends - time.monotonic())
            # A signal that arrives just before select does not interrupt it, so Ctrl-C is noticed one iteration later.
            ready, _, _ = select.select([_INPUT, self._wake], [], [], min(left, LOOK_SECONDS))
            if ready:
                line += self._some(ready)
            elif left <= 0:
                msg = "no one responded in time"
                raise Late(msg)
        return line.decode("utf-8", "replace").removesuffix("\n")

    def _some(self, ready: list[int]) -> bytes:
        if self._wake in ready:
            msg = "interrupted"
            raise NoAnswer(msg)
        try:
            some = os.read(_INPUT, LONGEST_LINE)
        except OSError:  # the terminal was closed
            some = b""
        if not some:
            msg = "the input ended unexpectedly"
            raise NoAnswer(msg)
        return some


def open_terminal(ttl_seconds: int | None) -> Terminal | None:
    """Return the terminal of this process, if it is in the foreground and can be read from and written to."""
    # Try standard error first, because standard output is often redirected.
    screen = next((each for each in (_ERRORS, _OUTPUT) if os.isatty(each)), None)
    if screen is None or not os.isatty(_INPUT):
        return None
    try:
        # In the background, reading would stop the process or take input meant for another program.
        if os.tcgetpgrp(_INPUT) != os.getpgrp():
            return None
    except OSError:
        return None
    return Terminal(screen, ttl_seconds=ttl_seconds)
