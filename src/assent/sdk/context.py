"""What a process is given: tasks, breakpoints and time that survive whatever happens to the machine."""

import functools
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, Unpack, overload

from assent.domain.errors import AssentError
from assent.sdk.files import ContextFile
from assent.sdk.keywords import refuse_unknown, strict
from assent.sdk.protocol import Asking, Question
from assent.sdk.values import BreakpointResult, Feedback

Args = ParamSpec("Args")
Made = TypeVar("Made")
TASK_OPTIONS = frozenset({"retries", "backoff", "timeout", "name"})
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


class TaskFailed(AssentError):
    """A task raised each time it was tried; `details` has the step, and the type and text of what it raised."""

    code = "task_failed"
    title = "A task failed"


class ProcessChanged(AssentError):
    """The process does something else now than what its journal says it did."""

    code = "process_changed"
    title = "The process has changed since this step was recorded"


class Task(Generic[Args, Made]):
    """A function with how it is to be run as a step: how often it is tried, for how long, and under which name."""

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
        """Seconds to wait after this attempt has failed: doubled each time, an hour at most."""
        return min(3600.0, self.backoff * 2.0 ** min(attempt - 1, 20))


@overload
def task(function: Callable[Args, Made], /) -> Task[Args, Made]: ...
@overload
def task(
    *, retries: int = 0, backoff: float = 1.0, timeout: float | None = None, name: str | None = None
) -> Callable[[Callable[Args, Made]], Task[Args, Made]]: ...
def task(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Say how a function is run as a task: `@task`, or `@task(retries=3, backoff=1.0, timeout=60)`."""
    if function is not None and not options:
        return Task(function)
    refuse_unknown("task", options, TASK_OPTIONS)
    return functools.partial(Task, **options) if function is None else Task(function, **options)


class Context(Protocol):
    """The `ctx` of a process. What it returns was written down before, and is the same after a crash."""

    @property
    def run_id(self) -> str: ...

    @property
    def run_dir(self) -> Path:
        """A folder of this run; what tasks leave there is kept, and is there again on whichever node goes on."""
        ...

    @property
    def mark(self) -> str:
        """Say who wrote it in whatever the run writes outside: a commit, a comment, a file.

        An event that comes of it is then known as this run's own doing, and no trigger goes round in circles.
        """
        ...

    @property
    def step_key(self) -> str:
        """Inside a task: the same at every try of this task, and no other's; for whoever must act only once."""
        ...

    @overload
    def task(
        self,
        function: Callable[..., Awaitable[Made]],
        /,
        *args: Any,  # noqa: ANN401  # whatever the function takes
        **kwargs: Any,  # noqa: ANN401  # the same
    ) -> Coroutine[Any, Any, Made]: ...
    @overload
    def task(
        self,
        function: Callable[..., Made],
        /,
        *args: Any,  # noqa: ANN401  # whatever the function takes
        **kwargs: Any,  # noqa: ANN401  # the same
    ) -> Coroutine[Any, Any, Made]: ...
    def task(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Run a function and keep what it returns, which must be JSON: it is not run again once it has finished.

        Plain functions run in a thread. What is raised at the last try is raised here as TaskFailed.
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
        """Ask people and wait, for as long as it takes, without holding any memory meanwhile.

        A rejection, an expiry, a cancellation are results too; with `require` they raise NotApproved. `on_comment` is
        called once for each comment while it waits; a text that it returns is the reply.
        """
        ...

    def gather(self, *branches: Awaitable[Any]) -> Coroutine[Any, Any, list[Any]]:
        """Do several things at once; when all have ended, raise what the first of them raised, if any did."""
        ...

    def sleep(self, seconds: float) -> Coroutine[Any, Any, None]:
        """Go on later, however long that is, wherever the run is then."""
        ...

    def now(self) -> datetime:
        """The time, which is the same when this line is passed again after a pause."""
        ...

    def log(self, message: str, data: Mapping[str, Any] | None = None) -> None:
        """Write a line into the journal, once."""
        ...

    def save_file(self, path: str, content: str | bytes) -> Coroutine[Any, Any, Path]:
        """Write a file into the run's folder and keep it; return where it is on this node."""
        ...

    def writes(self, path: str | Path, *more: str | Path) -> Coroutine[Any, Any, None]:
        """Say, before they are written, which files outside its folder the run writes.

        A change that is seen there is known as this run's own doing.
        """
        ...


ProcessFunction = Callable[[Any, Context], Awaitable[Any]]
current: ContextVar[Context | None] = ContextVar("assent_current_run", default=None)
"""The run that the calling code is part of."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process as it was registered."""

    name: str
    function: ProcessFunction
    description: str


registered: list[Process] = []
"""What decorators have registered, in order; whoever loads a file takes its own from here."""


@overload
def process(function: ProcessFunction, /) -> ProcessFunction: ...
@overload
def process(*, name: str | None = None) -> Callable[[ProcessFunction], ProcessFunction]: ...
@strict
def process(
    function: ProcessFunction | None = None, /, *, name: str | None = None
) -> ProcessFunction | Callable[[ProcessFunction], ProcessFunction]:
    """Register `async def fn(inputs, ctx)` as a process, under its own name or the one given."""

    def register(found: ProcessFunction) -> ProcessFunction:
        registered.append(described(found, name))
        return found

    return register(function) if function is not None else register


def described(function: ProcessFunction, name: str | None = None) -> Process:
    """Return a function as a process, or say why it cannot be one."""
    called = name or getattr(function, "__name__", "").replace("_", "-").strip("-")
    if not iscoroutinefunction(function):
        msg = f"Process {called!r} must be an async function with the parameters (inputs, ctx)."
        raise TypeError(msg)
    if not NAME.fullmatch(called):
        msg = f"{called!r} is not a valid process name. Use up to 100 characters: a-z, 0-9, dots, hyphens, underscores."
        raise ValueError(msg)
    lines = (function.__doc__ or "").strip().splitlines()
    return Process(called, function, lines[0] if lines else "")
