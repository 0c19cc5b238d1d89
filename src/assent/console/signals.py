"""Stops a waiting command: Ctrl-C, SIGTERM and SIGHUP cancel its breakpoint."""

import contextlib
import signal
import uuid
from collections.abc import Callable, Generator, Sequence
from types import FrameType

import typer

from assent.console import output
from assent.console.session import Budget, session
from assent.contracts.breakpoints import Breakpoint
from assent.sdk.client import Assent
from assent.sdk.errors import AlreadyEnded, AssentError
from assent.sdk.files import ContextFile
from assent.sdk.protocol import Asking

LAST_WORDS = 5.0
"""How many seconds to keep trying to cancel a breakpoint while the server is unreachable."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """The command received a signal to terminate."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def code(self) -> int:
        """The exit code that a shell uses for this signal."""
        return 128 + self.number


@contextlib.contextmanager
def stoppable() -> Generator[None, None, None]:
    """Make the signals raise Stopped, except for signals that were ignored when the command started."""

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        raise Stopped(number)

    before = {each: signal.getsignal(each) for each in _SIGNALS}
    try:
        for each, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(each, stop)
        yield
    except Stopped as stopped:
        raise typer.Exit(stopped.code) from stopped
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def raised(
    assent: Assent, question: str, files: Sequence[ContextFile], asking: Asking, *, budget: Budget
) -> Breakpoint:
    """Create a breakpoint. If stopped before the response arrives, repeat the request to get its ID, then cancel it."""
    key = uuid.uuid4().hex
    try:
        return budget.perform(assent, assent.calls.create(question, files=files, idempotency_key=key, **asking))
    except Stopped:
        try:
            # A new session, because the signal may have interrupted the first one in the middle of a request.
            with session(patience=0) as again:
                take_back(again.create(question, files=files, idempotency_key=key, **asking).id)
        except AssentError as error:
            reason = output.visible(error.message)
            output.remark(f"Stopped. The breakpoint may or may not have been created: {reason}", style="yellow")
        raise


@contextlib.contextmanager
def taken_back(breakpoint_id: str) -> Generator[None, None, None]:
    """Cancel the breakpoint if the command is stopped, because nothing would act on the answer."""
    try:
        yield
    except Stopped:
        take_back(breakpoint_id)
        raise


def take_back(breakpoint_id: str, *, reach: Callable[[], Assent] | None = None) -> None:
    shown = output.visible(breakpoint_id)
    try:
        with reach() if reach else session(patience=LAST_WORDS) as assent:
            assent.cancel(breakpoint_id)
    except AlreadyEnded as error:
        output.remark(f"Stopped. {shown} had already ended: {output.visible(error.message)}", style="yellow")
    except AssentError as error:
        reason = output.visible(error.message)
        output.remark(f"Stopped, but {shown} could not be cancelled: {reason}", style="yellow")
        output.remark(f"To cancel it, run: assent cancel {shown}")
    else:
        output.remark(f"Stopped. {shown} was cancelled.")
