"""A program that ends while it waits: its questions are cancelled, and stderr says what it is waiting for."""

import atexit
import collections
import faulthandler
import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable, Hashable

LAST_WORDS = 5.0
"""How many seconds a program that ends has for cancelling all of its questions."""
SIGNAL_SECONDS = 1.0
FIRST_NOTICE_SECONDS = 5.0
LONGEST_NOTICE_SECONDS = 300.0
_SIGNALS = tuple(signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__)


class Questions:
    """What this process waits for, each with the call that cancels it within so many seconds.

    SIGTERM and SIGHUP are watched while something waits and where they have their default action. Python can handle
    signals in the main thread only, and a call may wait in any other. So faulthandler, which may be used in every
    thread, writes to a pipe when the signal arrives. A thread that reads the pipe cancels, then ends the process by
    that signal. A handler of the program's own is left alone; if it exits, the exit cancels.
    """

    def __init__(self) -> None:
        self._masks = threading.local()
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._cancelling = threading.Lock()
        self._cancels: dict[Hashable, Callable[[float], None]] = {}
        self._waits = collections.Counter[Hashable]()
        self._pipes: dict[signal.Signals, tuple[int, int]] = {}
        self._ending = self._signalled = False

    def enter(self, key: Hashable, cancel: Callable[[float], None]) -> None:
        """Cancel this question should the process end before it leaves."""
        with self._lock:
            self._cancels[key] = cancel
            self._waits[key] += 1
            self._watch()

    def leave(self, key: Hashable, *, keep: bool = False) -> None:
        """End one wait; the question is forgotten with its last one, unless it is to be cancelled at the exit."""
        with self._lock:
            self._waits[key] -= 1
            if self._waits[key] <= 0 and not keep:
                self._cancels.pop(key, None)
            self._waits += collections.Counter()  # drops what is not above zero
            if not self._cancels:
                self._unwatch()

    @property
    def ending(self) -> bool:
        """Whether a call must not return to the program: it would act on a question that its own end cancelled."""
        return self._signalled or (self._ending and threading.current_thread() is not threading.main_thread())

    def park(self) -> None:
        """Block for ever where the process is ending."""
        if self.ending:
            threading.Event().wait()

    def cancel_all(self) -> None:
        """Cancel everything; what the server does not confirm in time is told on stderr."""
        with self._cancelling:  # an exit must not overtake the thread that cancels because of a signal
            with self._lock:
                self._ending = True
                cancels = list(self._cancels.values())
                self._cancels.clear()
                self._waits.clear()
            ends = time.monotonic() + LAST_WORDS
            for cancel in cancels:
                try:
                    cancel(max(0.0, ends - time.monotonic()))
                except Exception as error:  # noqa: BLE001  # the last handler: the other questions must be cancelled
                    not_cancelled(repr(error))

    def before_fork(self) -> None:
        """Hold signals back: a child that still has the handler would tell its parent of a signal of its own."""
        self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)

    def after_fork_in_parent(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._masks.before)

    def after_fork_in_child(self) -> None:
        """Let a child process wait for nothing of its parent's, and end as if nothing were watched."""
        self._unwatch()
        for end in (end for pipe in self._pipes.values() for end in pipe):
            os.close(end)
        self._forget()
        self.after_fork_in_parent()

    def _watch(self) -> None:
        if not hasattr(faulthandler, "register") or (not self._pipes and not self._started()):
            return
        for number, (_, writing) in self._pipes.items():
            if signal.getsignal(number) is signal.SIG_DFL:
                # A handler that the program set and took away meanwhile has replaced ours.
                faulthandler.unregister(number)
                faulthandler.register(number, file=writing, all_threads=False)

    def _started(self) -> bool:
        pipes = {number: os.pipe() for number in _SIGNALS}
        for _, writing in pipes.values():
            os.set_blocking(writing, False)
        watcher = threading.Thread(target=self._watched, args=(pipes,), name="assent-leaving", daemon=True)
        try:
            watcher.start()
        except RuntimeError:  # an interpreter that ends starts no threads
            for end in (end for pipe in pipes.values() for end in pipe):
                os.close(end)
            return False
        self._pipes = pipes
        return True

    def _unwatch(self) -> None:
        for number in self._pipes:
            if signal.getsignal(number) is signal.SIG_DFL:
                faulthandler.unregister(number)

    def _watched(self, pipes: dict[signal.Signals, tuple[int, int]]) -> None:
        with selectors.DefaultSelector() as selector:
            for number, (reading, _) in pipes.items():
                selector.register(reading, selectors.EVENT_READ, number)
            number = selector.select()[0][0].data
        self._signalled = True
        try:
            self.cancel_all()
        finally:
            faulthandler.unregister(number)
            os.kill(os.getpid(), number)
            # Still here: the kernel ignores the signal for process 1 of a container, or all threads block it.
            time.sleep(SIGNAL_SECONDS)
            os._exit(128 + number)


questions = Questions()
atexit.register(questions.cancel_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=questions.before_fork,
        after_in_parent=questions.after_fork_in_parent,
        after_in_child=questions.after_fork_in_child,
    )


def not_cancelled(why: str) -> None:
    """Say on stderr that a question stays open although its program leaves."""
    if not os.environ.get("ASSENT_QUIET"):
        sys.stderr.write(f"assent: could not cancel a breakpoint, so it may still be pending: {why}\n")


class Notices:
    """Says on stderr that a call is being retried: at once, then at growing intervals. ASSENT_QUIET silences it."""

    def __init__(self) -> None:
        self._next = 0.0
        self._pause = FIRST_NOTICE_SECONDS

    def __call__(self, because: str) -> None:
        now = time.monotonic()
        if os.environ.get("ASSENT_QUIET") or because == "the server responded early" or now < self._next:
            return
        sys.stderr.write(f"assent: waiting for the server ({because}). Retrying.\n")
        self._next, self._pause = now + self._pause, min(LONGEST_NOTICE_SECONDS, self._pause * 2)
