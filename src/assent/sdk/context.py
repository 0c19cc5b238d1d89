"""The API for processes: tasks, breakpoints and timers that survive crashes."""

import functools
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, Unpack, overload

from assent.contracts.breakpoints import BreakpointResult, Feedback
from assent.core.errors import AssentError
from assent.sdk.files import ContextFile
from assent.sdk.keywords import refuse_unknown, strict
from assent.sdk.protocol import Asking, Question

Args = ParamSpec("Args")
Made = TypeVar("Made")
TASK_OPTIONS = frozenset({"retries", "backoff", "timeout", "name"})
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


class TaskFailed(AssentError):
    """Every attempt to run a task raised an exception; `details` contains the step, and the error's type and text."""

    code = "task_failed"
    title = "A task failed"


class ProcessChanged(AssentError):
    """The process no longer does what its journal recorded."""

    code = "process_changed"
    title = "The process has changed since this step was recorded"


class Task(Generic[Args, Made]):
    """A function with its options for running as a task: retries, timeout and name."""

    def __init__(
        self,
        function: Callable[Args, Made],
        *,
        retries: int = 0,
        backoff: float = 1.0,
        timeout: float | None = None,
        name: str | None = None,
    ) -> None:
        self.function = function
        self.retries = retries
        self.backoff = backoff
        self.timeout = timeout
        called: str = getattr(function, "__name__", type(function).__name__)
        self.name = name or called
        functools.update_wrapper(self, function)

    def __call__(self, *args: Args.args, **kwargs: Args.kwargs) -> Made:
        return self.function(*args, **kwargs)

    def pause_after(self, attempt: int) -> float:
        """Return the seconds to wait after a failed attempt, which double each time, up to an hour."""
        return min(3600.0, self.backoff * 2.0 ** min(attempt - 1, 20))


@overload
def task(function: Callable[Args, Made], /) -> Task[Args, Made]: ...
@overload
def task(
    *, retries: int = 0, backoff: float = 1.0, timeout: float | None = None, name: str | None = None
) -> Callable[[Callable[Args, Made]], Task[Args, Made]]: ...
def task(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Set how a function runs as a task: `@task`, or `@task(retries=3, backoff=1.0, timeout=60)`."""
    if function is not None and not options:
        return Task(function)
    refuse_unknown("task", options, TASK_OPTIONS)
    return functools.partial(Task, **options) if function is None else Task(function, **options)


class Context(Protocol):
    """The `ctx` of a process. Every value that it returns is first recorded, so it is the same after a crash."""

    @property
    def run_id(self) -> str: ...

    @property
    def run_dir(self) -> Path:
        """The run's folder; files that tasks save there are kept, even if the run continues on another node."""
        ...

    @property
    def mark(self) -> str:
        """Text to include in anything the run writes outside its folder: a commit, a comment, a file.

        Assent recognizes the resulting events as caused by this run, which prevents trigger loops.
        """
        ...

    @property
    def step_key(self) -> str:
        """An idempotency key that is unique to the current task and the same for all of its attempts."""
        ...

    @overload
    def task(
        self,
        function: Callable[..., Awaitable[Made]],
        /,
        *args: Any,  # noqa: ANN401  # the function's arguments
        **kwargs: Any,  # noqa: ANN401  # the same
    ) -> Coroutine[Any, Any, Made]: ...
    @overload
    def task(
        self,
        function: Callable[..., Made],
        /,
        *args: Any,  # noqa: ANN401  # the function's arguments
        **kwargs: Any,  # noqa: ANN401  # the same
    ) -> Coroutine[Any, Any, Made]: ...
    def task(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Run a function and record its result, which must be JSON. Once it has finished, it is not run again.

        Sync functions run in a thread. An exception in the last attempt is raised as TaskFailed.
        """
        ...

    def breakpoint(
        self,
        question: Question = None,
        *,
        files: Sequence[str | ContextFile] = (),
        require: bool = False,
        on_comment: Callable[[Feedback], Any] | None = None,
        **asking: Unpack[Asking],
    ) -> Coroutine[Any, Any, BreakpointResult]:
        """Ask a question and wait for any length of time, without using memory in the meantime.

        A rejection, expiry or cancellation is also a result; with `require`, it raises NotApproved. `on_comment` is
        called once for each comment during the wait; if it returns a string, the string is sent as the reply.
        """
        ...

    def gather(self, *branches: Awaitable[Any]) -> Coroutine[Any, Any, list[Any]]:
        """Run awaitables concurrently; if any of them fail, raise the first error once all of them have ended."""
        ...

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        """Pause the run, which can resume on any node."""
        ...

    def now(self) -> datetime:
        """Return the current time, recorded so that it is the same in a replay."""
        ...

    def log(self, message: str, data: Mapping[str, Any] | None = None) -> None:
        """Add a line to the journal. A replay does not add it again."""
        ...

    def save_file(self, path: str, content: str | bytes) -> Coroutine[Any, Any, Path]:
        """Write a file to the run's folder and keep it; return its path on this node."""
        ...

    def writes(self, path: str | Path, *more: str | Path) -> Coroutine[Any, Any, None]:
        """Declare files outside the run's folder before the run writes them.

        Assent then recognizes changes to these files as caused by this run.
        """
        ...


ProcessFunction = Callable[[Any, Context], Awaitable[Any]]
current: ContextVar[Context | None] = ContextVar("assent_current_run", default=None)
"""The run that the calling code belongs to."""


@dataclass(frozen=True, slots=True)
class Process:
    """A registered process."""

    name: str
    function: ProcessFunction
    description: str


registered: list[Process] = []
"""The processes registered by decorators, in order; the code that loads a file removes that file's processes."""


@overload
def process(function: ProcessFunction, /) -> ProcessFunction: ...
@overload
def process(*, name: str | None = None) -> Callable[[ProcessFunction], ProcessFunction]: ...
@strict
def process(
    function: ProcessFunction | None = None, /, *, name: str | None = None
) -> ProcessFunction | Callable[[ProcessFunction], ProcessFunction]:
    """Register `async def fn(inputs, ctx)` as a process, under its own name or the given one."""

    def register(found: ProcessFunction) -> ProcessFunction:
        registered.append(described(found, name))
        return found

    return register(function) if function is not None else register


def described(function: ProcessFunction, name: str | None = None) -> Process:
    """Return a function as a process, or raise an error that says why it cannot be one."""
    called = name or getattr(function, "__name__", "").replace("_", "-").strip("-")
    # Only an async function can be suspended while a run waits.
    if not iscoroutinefunction(function):
        msg = f"Process {called!r} must be an async function with the parameters (inputs, ctx)."
        raise TypeError(msg)
    if not NAME.fullmatch(called):
        msg = f"{called!r} is not a valid process name. Use up to 100 characters: a-z, 0-9, dots, hyphens, underscores."
        raise ValueError(msg)
    # The first line of the docstring describes the process wherever processes are listed.
    lines = (function.__doc__ or "").strip().splitlines()
    return Process(called, function, lines[0] if lines else "")
