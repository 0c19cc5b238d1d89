"""Cancels the breakpoints of a program that exits while it waits, and reports retries on standard error."""

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
"""Seconds that an exiting program has to cancel all of its breakpoints."""
SIGNAL_SECONDS = 1.0
FIRST_NOTICE_SECONDS = 5.0
LONGEST_NOTICE_SECONDS = 300.0
_SIGNALS = tuple(signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__)


class Questions:
    """The breakpoints that this process waits for, each with a function that cancels it within a number of seconds.

    SIGTERM and SIGHUP are handled during a wait if they have their default action. Python handles signals only in the
    main thread, but a call can wait in any thread. Therefore faulthandler, which works in every thread, writes to a
    pipe when the signal arrives. A thread that reads the pipe cancels the breakpoints and then ends the process with
    that signal. The program's own handlers stay in place; if one of them exits, the exit cancels the breakpoints.
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
        """Cancel this breakpoint if the process ends before `leave` is called."""
        with self._lock:
            self._cancels[key] = cancel
            self._waits[key] += 1
            self._watch()

    def leave(self, key: Hashable, *, keep: bool = False) -> None:
        """End one wait. After the last wait for a breakpoint, forget it unless it must still be cancelled at exit."""
        with self._lock:
            self._waits[key] -= 1
            if self._waits[key] <= 0 and not keep:
                self._cancels.pop(key, None)
            self._waits += collections.Counter()  # drops counts that are not above zero
            if not self._cancels:
                self._unwatch()

    @property
    def ending(self) -> bool:
        """Whether a call must not return, because the program would act on a breakpoint that its exit cancelled."""
        return self._signalled or (self._ending and threading.current_thread() is not threading.main_thread())

    def park(self) -> None:
        """Block forever if the process is ending."""
        if self.ending:
            threading.Event().wait()

    def cancel_all(self) -> None:
        """Cancel all breakpoints, and report on standard error those that the server does not confirm in time."""
        with self._cancelling:  # an exit must wait for the thread that cancels after a signal
            with self._lock:
                self._ending = True
                cancels = list(self._cancels.values())
                # Cleared here, so that the requests below are sent without holding the lock.
                self._cancels.clear()
                self._waits.clear()
            ends = time.monotonic() + LAST_WORDS
            for cancel in cancels:
                try:
                    cancel(max(0.0, ends - time.monotonic()))
                except Exception as error:  # noqa: BLE001  # the last handler: the others must be cancelled
                    not_cancelled(repr(error))

    def before_fork(self) -> None:
        """Block signals, because a child that still has the handler would report its own signals to its parent."""
        self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)

    def after_fork_in_parent(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._masks.before)

    def after_fork_in_child(self) -> None:
        """Forget the parent's waits in a child process, and restore its signal handling."""
        self._unwatch()
        # The thread that reads the pipes does not exist in the child.
        for end in (end for pipe in self._pipes.values() for end in pipe):
            os.close(end)
        self._forget()
        self.after_fork_in_parent()

    def _watch(self) -> None:
        if not hasattr(faulthandler, "register") or (not self._pipes and not self._started()):
            return
        for number, (_, writing) in self._pipes.items():
            if signal.getsignal(number) is signal.SIG_DFL:
                # The program may have since set and removed its own handler, which replaced ours.
                faulthandler.unregister(number)
                faulthandler.register(number, file=writing, all_threads=False)

    def _started(self) -> bool:
        pipes = {number: os.pipe() for number in _SIGNALS}
        for _, writing in pipes.values():
            # faulthandler writes inside the signal handler, where a full pipe must not block the process.
            os.set_blocking(writing, False)
        watcher = threading.Thread(target=self._watched, args=(pipes,), name="assent-leaving", daemon=True)
        try:
            watcher.start()
        except RuntimeError:  # an interpreter that is shutting down cannot start threads
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
        # Set before cancelling, so that a wait that the cancellation ends does not return to the program.
        self._signalled = True
        try:
            self.cancel_all()
        finally:
            # Restore the default action, so that the parent process sees which signal ended this process.
            faulthandler.unregister(number)
            os.kill(os.getpid(), number)
            # If the process still runs, the kernel ignores the signal (PID 1 in a container) or all threads block it.
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
    """Report on standard error that a breakpoint may still be pending although its program exits."""
    if not os.environ.get("ASSENT_QUIET"):
        sys.stderr.write(f"assent: could not cancel a breakpoint, so it may still be pending: {why}\n")


class Notices:
    """Reports retries on standard error, immediately and then at growing intervals. ASSENT_QUIET disables this."""

    def __init__(self) -> None:
        self._next = 0.0
        self._pause = FIRST_NOTICE_SECONDS

    def __call__(self, because: str) -> None:
        now = time.monotonic()
        # An early response is not an outage, so it is not worth reporting.
        if os.environ.get("ASSENT_QUIET") or because == "the server responded early" or now < self._next:
            return
        sys.stderr.write(f"assent: waiting for the server ({because}). Retrying.\n")
        self._next, self._pause = now + self._pause, min(LONGEST_NOTICE_SECONDS, self._pause * 2)
