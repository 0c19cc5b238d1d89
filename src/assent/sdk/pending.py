"""Calls that must be awaited: they cannot be mistaken for their results, and are reported if they are never awaited."""

import asyncio
import inspect
import warnings
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, NoReturn, TypeVar

from assent.sdk.errors import NotAwaited

Made = TypeVar("Made")
_PACKAGE = str(Path(__file__).parent.parent)


class Issued:
    """The record of a call: where it was made, and whether it was started, finished or dropped."""

    __slots__ = ("dropped", "finished", "line", "place", "started", "what")

    def __init__(self, what: str, place: str, line: int) -> None:
        self.what = what
        self.place = place
        self.line = line
        self.started = self.finished = self.dropped = False

    def error(self, reason: str = "was never awaited, so nothing happened") -> NotAwaited:
        name = Path(self.place).name
        msg = f"{self.what}(…) at {name}:{self.line} {reason}. Write `await {self.what}(…)`."
        return NotAwaited(msg, file=name, line=self.line)


def issued(what: str) -> Issued:
    """Record the line outside Assent that makes the call."""
    frame = inspect.currentframe()
    assert frame is not None, "CPython has frames"
    # Skip our own frames, because the mistake is in the code that called us.
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return Issued(what, frame.f_code.co_filename, frame.f_lineno)


def marked(function: Callable[..., Any]) -> None:
    """Mark a function for asyncio as returning an awaitable, although it is not `async def`."""
    setattr(function, "_is_coroutine", getattr(asyncio.coroutines, "_is_coroutine", None))  # noqa: B010  # for 3.11


class Pending(Coroutine[Any, Any, Made], Generic[Made]):
    """A coroutine that is created when first awaited; until then, it has no truth value and no attributes."""

    def __init__(
        self,
        record: Issued,
        make: Callable[[], Coroutine[Any, Any, Made]],
        *,
        on_drop: Callable[[Issued], None] | None = None,
    ) -> None:
        self._record = record
        self._make = make
        self._on_drop = on_drop
        self._running: Coroutine[Any, Any, Made] | None = None

    def _inner(self) -> Coroutine[Any, Any, Made]:
        if self._running is None:
            self._record.started = True
            self._running = self._make()
        return self._running

    def __await__(self) -> Generator[Any, Any, Made]:
        try:
            return (yield from self._inner().__await__())
        finally:
            self._record.finished = True

    def send(self, value: Any, /) -> Any:  # noqa: ANN401  # signature of coroutines
        """Run to the next suspension; asyncio calls this for a task."""
        try:
            return self._inner().send(value)
        except BaseException:
            self._record.finished = True
            raise

    def throw(
        self,
        kind: Any,  # noqa: ANN401  # signature of coroutines
        value: Any = None,  # noqa: ANN401  # the same
        traceback: TracebackType | None = None,
        /,
    ) -> Any:  # noqa: ANN401  # the same
        """Raise an exception inside the coroutine."""
        error: BaseException = value if isinstance(value, BaseException) else kind() if isinstance(kind, type) else kind
        try:
            return self._inner().throw(error.with_traceback(traceback) if traceback is not None else error)
        except BaseException:
            self._record.finished = True
            raise

    def close(self) -> None:
        """Close the coroutine deliberately, so that it is not reported as unawaited."""
        self._record.started = self._record.finished = True
        if self._running is not None:
            self._running.close()

    def __bool__(self) -> NoReturn:
        raise self._record.error("was used as a boolean before it was awaited")

    def __getattr__(self, name: str) -> NoReturn:
        # asyncio and inspect look for these attributes on every awaitable.
        if name.startswith(("_", "cr_", "gi_")):
            raise AttributeError(name)
        # Not NotAwaited, because hasattr() must be able to return False.
        raise AttributeError(str(self._record.error(f"has no {name!r} before it is awaited")))

    def __del__(self) -> None:
        record = self.__dict__.get("_record")
        # `_record` is missing if __init__ itself failed.
        if record is None or record.started:
            return
        record.dropped = True
        if self._on_drop is not None:
            self._on_drop(record)
        else:
            warnings.warn_explicit(
                str(record.error()), category=RuntimeWarning, filename=record.place, lineno=record.line
            )
