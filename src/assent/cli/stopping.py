"""Stopping a command that waits: Ctrl-C, SIGTERM and SIGHUP take its question back."""

import contextlib
import signal
import uuid
from collections.abc import Callable, Generator, Sequence
from types import FrameType

import typer

from assent.cli import output
from assent.cli.session import Budget, session
from assent.sdk.client import Assent
from assent.sdk.errors import AlreadyEnded, AssentError
from assent.sdk.files import ContextFile
from assent.sdk.protocol import Asking
from assent.sdk.values import Breakpoint

LAST_WORDS = 5.0
"""How long to try to take a question back while the server cannot be reached."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal asked the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def code(self) -> int:
        """What a shell calls an end by this signal."""
        return 128 + self.number


@contextlib.contextmanager
def stoppable() -> Generator[None, None, None]:
    """Have the signals raise Stopped; one that whoever started us has silenced stays silent."""

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
    """Raise a breakpoint; who is stopped before the answer came asks for it once more, to take it back."""
    key = uuid.uuid4().hex
    try:
        return budget.perform(assent, assent.calls.create(question, files=files, idempotency_key=key, **asking))
    except Stopped:
        try:
            with session(patience=0) as again:
                take_back(again.create(question, files=files, idempotency_key=key, **asking).id)
        except AssentError as error:
            reason = output.visible(error.message)
            output.remark(f"Stopped. The breakpoint may or may not have been created: {reason}", style="yellow")
        raise


@contextlib.contextmanager
def taken_back(breakpoint_id: str) -> Generator[None, None, None]:
    """Cancel the question of whoever stops waiting: nobody is left to act on the answer."""
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
