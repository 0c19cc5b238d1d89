"""Replays a process against its journal until it ends or has to wait.

The process starts from its beginning each time: recorded steps return their results from the journal, and new steps are
executed and recorded.
"""

import asyncio
import contextlib
import inspect
import json
import os
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn, TypeVar, Unpack

import msgspec

from assent.contracts.breakpoints import BreakpointResult, Feedback
from assent.core.canonical import Json, canonical, sha256
from assent.core.errors import AssentError, Internal, Unavailable
from assent.core.gates import slug
from assent.core.plurals import plural
from assent.core.timestamps import SECOND, iso
from assent.runs.model import MARK, Line, Run, RunState, Step, StepKind, StepState, Superseded, difference
from assent.runs.ports import Comment, RunDesk, Taken
from assent.runs.signatures import shaped
from assent.runs.workspace import RunFolder
from assent.sdk import protocol
from assent.sdk.context import ProcessChanged, ProcessFunction, Task, TaskFailed, current
from assent.sdk.errors import passed
from assent.sdk.files import ContextFile
from assent.sdk.keywords import strict
from assent.sdk.pending import Issued, Pending, issued
from assent.sdk.protocol import Asking, Question

Made = TypeVar("Made")
LARGEST_OUTCOME = 1024 * 1024
MOST_STARTS = 20
"""The maximum number of times that a task is started if it crashes its worker each time."""
UNWINDING_SECONDS = 5.0
MOST_REFUSALS = 20
LONGEST_SLEEP = 100 * 366 * 86400.0
_NOT_THEIRS = (str(Path(__file__).parent.parent), str(Path(asyncio.__file__).parent.parent))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Errors caused by the value to be written, which would recur on every attempt. Other errors are temporary or not caused
# by the process.
_THEIRS = (AssentError, ValueError, TypeError, OverflowError)
_OURS = (Superseded, Unavailable, Internal)
_TELLING = frozenset({"approved", "decision", "status", "response", "result", "to_dict"})


@dataclass
class _Strand:
    """A line of execution: the process itself or one branch of a gather. Each strand numbers its own steps."""

    path: str
    owner: "asyncio.Task[Any] | None"
    count: int = 0
    offspring: int = 0

    def next(self) -> str:
        self.count += 1
        return f"{self.path}{self.count}"

    def new(self, owner: "asyncio.Task[Any]") -> "_Strand":
        """Return a strand for a task that the process created; tasks are numbered in the order of their first calls."""
        self.offspring += 1
        return _Strand(f"{self.path}0.{self.offspring}.", owner)


_strand: ContextVar[_Strand] = ContextVar("assent_strand")
_in_task: ContextVar[str | None] = ContextVar("assent_task", default=None)


class _Watched(BreakpointResult, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A result that records whether the process has read its decision."""

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401  # any attribute
        if name in _TELLING:
            _unseen.discard(id(self))
        return super().__getattribute__(name)


# IDs of results that the process has not read yet. Their segment keeps the results alive, so no ID is reused.
_unseen: set[int] = set()
# Tasks of ended replays that refuse to stop. Keep references to them, because garbage collection would try to stop them
# repeatedly.
_clinging: set["asyncio.Task[Any]"] = set()


@dataclass(frozen=True, slots=True)
class Stretch:
    """The result of a replay."""

    state: RunState
    output: Json = None
    error: Mapping[str, Json] | None = None


class Segment:
    """The `ctx` object of a single replay."""

    def __init__(self, taken: Taken, desk: RunDesk, folder: RunFolder) -> None:
        self.run: Run = taken.run
        self._steps = dict(taken.steps)
        self._said = taken.said
        self._times = dict(taken.times)
        self._desk = desk
        self._folder = folder
        self._lines: list[Line] = []
        self._given: dict[str, _Watched] = {}
        self._others: set[asyncio.Task[Any]] = set()
        self._strands = 1
        self._parked = 0
        self._busy = 0
        self._over = False
        self._refusals = 0
        self._stalled = asyncio.Event()
        self._broken: Exception | None = None
        self._issued: list[Issued] = []
        self._forgotten: Issued | None = None

    @property
    def run_id(self) -> str:
        return self.run.id

    @property
    def mark(self) -> str:
        return f"{MARK}{self.run.id}"

    @property
    def run_dir(self) -> Path:
        return self._folder.made()

    @property
    def step_key(self) -> str:
        path = _in_task.get()
        if path is None:
            msg = "step_key is only available inside a task."
            raise RuntimeError(msg)
        return f"{self.run.id}:{path}"

    async def play(self, function: ProcessFunction) -> Stretch:
        """Replay the process until it ends or every strand is waiting."""
        playing = asyncio.create_task(self._whole(function))
        stalled = asyncio.create_task(self._stalled.wait())
        try:
            await asyncio.wait({playing, stalled}, return_when=asyncio.FIRST_COMPLETED)
            if self._broken is not None:
                raise self._broken
            if playing.cancelled():
                return Stretch(
                    RunState.FAILED, error={"type": "CancelledError", "message": "The process cancelled itself."}
                )
            return playing.result() if playing.done() else Stretch(RunState.SUSPENDED)
        finally:
            # From now on, ctx calls in code that survives cancellation must fail instead of recording steps.
            self._over = True
            left: set[asyncio.Task[Any]] = {playing, stalled, *self._others}
            for each in left:
                each.cancel()
            _, clinging = await asyncio.wait(left, timeout=UNWINDING_SECONDS)
            for each in clinging:
                _clinging.add(each)
                each.add_done_callback(_clinging.discard)
            _unseen.difference_update(map(id, self._given.values()))

    async def _whole(self, function: ProcessFunction) -> Stretch:
        _strand.set(_Strand("", asyncio.current_task()))
        current.set(self)
        try:
            output = _plain_json(
                await function(shaped(function, self.run.inputs), self), "the return value of the process"
            )
            self._refuse_unawaited()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  # user code can raise anything
            return Stretch(RunState.FAILED, error=_failure(error))
        self._note_unseen()
        return Stretch(RunState.DONE, output)

    def take_lines(self) -> list[Line]:
        """Return the journal lines to be written with the next step, and clear them."""
        lines, self._lines = self._lines, []
        return lines

    def task(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,  # noqa: ANN401  # passed to the task unchanged
        **kwargs: Any,  # noqa: ANN401  # passed to the task unchanged
    ) -> Pending[Any]:
        return self._pending("ctx.task", lambda: self._run_task(function, args, kwargs))

    async def _run_task(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:  # noqa: ANN401  # depends on the task
        wanted = _task(function)
        path = await self._begin("task")
        name = _text(wanted.name).replace("\x00", "?")
        step = self._recall(path, StepKind.TASK, name, _fingerprint({"args": args, "kwargs": kwargs}))
        if step is not None and step.state is StepState.DONE:
            return step.outcome
        if step is not None and step.state is StepState.FAILED:
            raise _task_failed(step)
        if step is not None and step.state is StepState.RETRYING and step.outcome > self._desk.now():
            await self._park()
        step = step or Step(
            path=path,
            kind=StepKind.TASK,
            name=name,
            fingerprint=_fingerprint({"args": args, "kwargs": kwargs}),
            state=StepState.RUNNING,
        )
        with self._working():
            step = await self._attempt(wanted, step, args, kwargs)
        if step.state is StepState.RETRYING:
            await self._park()
        if step.state is StepState.FAILED:
            raise _task_failed(step)
        return step.outcome

    async def _attempt(self, wanted: Task[..., Any], step: Step, args: Any, kwargs: Any) -> Step:  # noqa: ANN401  # depends on the task
        step = replace(step, state=StepState.RUNNING, attempts=step.attempts + 1, due_at=None, outcome=None, error=None)
        told = {"name": step.name, "attempt": step.attempts}
        # Starts are recorded in advance, so this also counts attempts that crashed the worker.
        if step.attempts > max(MOST_STARTS, wanted.retries + 1):
            error = {
                "type": "Abandoned",
                "message": f"The task was started {plural(step.attempts - 1, 'time')} and never finished.",
            }
            return await self._failed(step, error)
        step = await self._record(step, Line("task_started", step.path, told))
        try:
            outcome = _plain_json(await _called(wanted, step.path, args, kwargs), "the return value of a task")
        except BaseException as error:  # user code can raise anything
            if _is_cancelled(error):
                raise
            return await self._failed_or_retried(wanted, step, error)
        files = await self._folder.changes()
        self._note_problems(step.path)
        done = replace(step, state=StepState.DONE, outcome=outcome)
        return await self._record(done, Line("task_done", step.path, told), files)

    async def _failed_or_retried(self, wanted: Task[..., Any], step: Step, error: BaseException) -> Step:
        kept = _failure(error, step=step.path)
        # Another attempt would not make the result storable.
        if step.attempts > wanted.retries or isinstance(error, NotJson):
            return await self._failed(step, kept)
        pause = wanted.pause_after(step.attempts)
        later = replace(step, state=StepState.RETRYING, outcome=round(pause * SECOND), error=kept)
        told = {"name": step.name, "attempt": step.attempts, "error": kept, "again": f"in {pause:g} s"}
        return await self._record(later, Line("task_retried", step.path, told))

    async def _failed(self, step: Step, error: Mapping[str, Json]) -> Step:
        told = {"name": step.name, "attempt": step.attempts, "error": error}
        return await self._record(
            replace(step, state=StepState.FAILED, error=error), Line("task_failed", step.path, told)
        )

    @strict
    def breakpoint(
        self,
        question: Question = None,
        *,
        files: Sequence[str | ContextFile] = (),
        require: bool = False,
        on_comment: Callable[[Feedback], Any] | None = None,
        **asking: Unpack[Asking],
    ) -> Pending[BreakpointResult]:
        return self._pending(
            "ctx.breakpoint", lambda: self._run_breakpoint(question, files, require, on_comment, asking)
        )

    async def _run_breakpoint(
        self,
        question: Question,
        files: Sequence[str | ContextFile],
        require: bool,  # noqa: FBT001  # private, with a single caller
        on_comment: Callable[[Feedback], Any] | None,
        asking: Asking,
    ) -> BreakpointResult:
        path = await self._begin("breakpoint")
        body, wanted = self._body(question, files, asking)
        name = _gate(body)
        step = self._recall(path, StepKind.BREAKPOINT, name, _fingerprint(body))
        if step is None:
            new = Step(
                path=path,
                kind=StepKind.BREAKPOINT,
                name=name,
                fingerprint=_fingerprint(body),
                state=StepState.WAITING,
                heard=0 if on_comment else None,
            )
            with self._working():
                step = await self._ask(new, body, wanted)
        if step.state is StepState.WAITING and on_comment is not None:
            with self._working():
                step = await self._listen(step, on_comment)
        if step.state is not StepState.DONE:
            await self._park()
        result = msgspec.convert(step.outcome, _Watched)
        if require:
            return passed(result)
        _unseen.add(id(result))
        self._given[path] = result
        return result

    def _body(
        self,
        question: Question,
        files: Sequence[str | ContextFile],
        asking: Asking,
    ) -> tuple[dict[str, Any], list[str | ContextFile | Mapping[str, Any]]]:
        """Return the request body, which lists its files by name, and the files to read for it."""
        text, said = protocol.opened(question, asking)
        body = protocol.creation(text, {"agent_id": self.run.agent_id, **said, "run_id": self.run.id})
        named = dict(body["payload"].get("context") or {})
        wanted: list[str | ContextFile | Mapping[str, Any]] = [*(named.pop("files", None) or ()), *files]
        named.setdefault("runId", self.run.id)
        if wanted:
            named["files"] = [_name_of(each) for each in wanted]
        body["payload"] = {**body["payload"], "context": named}
        return body, wanted

    async def _ask(
        self, step: Step, body: dict[str, Any], wanted: Sequence[str | ContextFile | Mapping[str, Any]]
    ) -> Step:
        entries = [await self._folder.entry(each) for each in wanted]
        if entries:
            shown = [each.entry() if isinstance(each, ContextFile) else each for each in entries]
            context = {**body["payload"]["context"], "files": shown}
            body = {**body, "payload": {**body["payload"], "context": context}}
        self._note_problems(step.path)
        step = await self._written(self._desk.ask(self.run, step, body, self.take_lines()))
        self._steps[step.path] = step
        return step

    async def _listen(self, step: Step, on_comment: Callable[[Feedback], Any]) -> Step:
        """Pass new comments to the process, and send its replies."""
        for comment in await self._written(self._desk.comments(self.run, step)):
            # A handler is not replayed, so ctx calls in it are refused, as in a task.
            said = _in_task.set(step.path)
            try:
                reply = on_comment(_feedback(step, comment))
                if inspect.isawaitable(reply):
                    reply = await reply
            finally:
                _in_task.reset(said)
            text = reply if isinstance(reply, str) else None
            step = await self._written(self._desk.reply(self.run, step, comment, text))
            self._steps[step.path] = step
        return step

    def gather(self, *branches: Awaitable[Any]) -> Pending[list[Any]]:
        return self._pending("ctx.gather", lambda: self._run_gather(branches))

    async def _run_gather(self, branches: Sequence[Awaitable[Any]]) -> list[Any]:
        try:
            path = await self._begin("gather")
        except BaseException:
            for branch in branches:
                # Branches that can no longer start must not be reported as calls that were never awaited.
                if isinstance(branch, Pending):
                    branch.close()
            raise
        tasks = [asyncio.create_task(_branch(f"{path}.{n}.", each)) for n, each in enumerate(branches)]
        left = set(tasks)

        def end(task: "asyncio.Task[Any]") -> None:
            # When the last branch ends, the gather is about to continue, so it no longer counts as waiting.
            left.discard(task)
            self._strands -= 1
            self._parked -= 0 if left else 1
            self._look_whether_stalled()

        self._strands += len(tasks)
        self._parked += 1 if tasks else 0
        for task in tasks:
            task.add_done_callback(end)
        # Wait for all branches before raising an error, so that their steps are recorded.
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for each in ended:
            if isinstance(each, BaseException):
                raise each
        return list(ended)

    @strict
    def sleep(self, seconds: float) -> Pending[None]:
        return self._pending("ctx.sleep", lambda: self._run_sleep(seconds))

    async def _run_sleep(self, seconds: float) -> None:
        path = await self._begin("sleep")
        step = self._recall(path, StepKind.SLEEP, "sleep", None)
        if step is None:
            if not seconds <= LONGEST_SLEEP:
                msg = "A run can sleep for at most 100 years."
                raise OverflowError(msg)
            wait = max(0, round(seconds * SECOND))
            new = Step(
                path=path, kind=StepKind.SLEEP, name="sleep", fingerprint=None, state=StepState.WAITING, outcome=wait
            )
            with self._working():
                step = await self._record(new, Line("sleeps", path, {"seconds": seconds}))
        if step.state is StepState.DONE:
            return
        if step.outcome > self._desk.now():
            await self._park()
        with self._working():
            woken = replace(step, state=StepState.DONE, due_at=None)
            await self._record(woken, Line("woken", path, {"name": step.name}))

    def now(self) -> datetime:
        path = self._next_path("now")
        if path not in self._times:
            # Recorded with the next write; until then, the time has had no lasting effect.
            self._times[path] = at = self._desk.now()
            self._lines.append(Line("now", path, {"at": iso(at), "micros": at}))
        return _EPOCH + timedelta(microseconds=self._times[path])

    @strict
    def log(self, message: str, data: Mapping[str, Any] | None = None) -> None:
        path = self._next_path("log")
        if ("log", path) not in self._said:
            told = {"message": _text(str(message)), **({"data": _shown(data)} if data else {})}
            self._lines.append(Line("log", path, told))

    @strict
    def save_file(self, path: str, content: str | bytes) -> Pending[Path]:
        return self._pending("ctx.save_file", lambda: self._run_save_file(path, content))

    async def _run_save_file(self, path: str, content: str | bytes) -> Path:
        where = await self._begin("save_file")
        step = self._recall(where, StepKind.FILE, path, None)
        if step is None:
            data = content.encode() if isinstance(content, str) else content
            with self._working():
                await self._folder.keep({path: data})
                new = Step(
                    path=where,
                    kind=StepKind.FILE,
                    name=path,
                    fingerprint=None,
                    state=StepState.DONE,
                    outcome={"sha256": sha256(data), "size": len(data)},
                )
                await self._record(new, Line("file_saved", where, {"file": path, "size": len(data)}), {path: data})
        return self._folder.place(path)

    @strict
    def writes(self, path: str | Path, *more: str | Path) -> Pending[None]:
        return self._pending("ctx.writes", lambda: self._run_writes((path, *more)))

    async def _run_writes(self, given: Sequence[str | Path]) -> None:
        where = await self._begin("writes")
        if ("writes", where) in self._said:
            return
        paths = [place for each in given for place in _places(each)]
        with self._working():
            line = Line("writes", where, {"files": paths})
            await self._written(self._desk.writes(self.run, paths, [*self.take_lines(), line]))

    def _pending(self, what: str, make: Callable[[], Coroutine[Any, Any, Made]]) -> Pending[Made]:
        """Return a call that fails the run if the process never awaits it."""
        record = issued(what)
        self._issued = [each for each in self._issued if not each.started]
        self._issued.append(record)
        return Pending(record, make, on_drop=self._forget)

    def _forget(self, record: Issued) -> None:
        self._forgotten = self._forgotten or record

    def _refuse_unawaited(self) -> None:
        """Raise an error for a call that was dropped, or that was still not awaited when the process ended."""
        left = self._forgotten or next((each for each in self._issued if not each.started), None)
        if left is not None:
            raise left.error()

    async def _begin(self, what: str) -> str:
        if self._refusals > MOST_REFUSALS:
            # The process catches every exception, so raising another one would let it block the event loop for other
            # processes.
            await asyncio.get_running_loop().create_future()
        return self._next_path(what)

    def _next_path(self, what: str) -> str:
        if self._over:
            self._refusals += 1
            raise asyncio.CancelledError
        if _in_task.get() is not None:
            msg = f"ctx.{what} cannot be called inside a task. Call it in the process itself."
            raise RuntimeError(msg)
        if self._forgotten is not None:
            # A run that skipped a question or a task by mistake must not execute anything else.
            raise self._forgotten.error()
        strand = _strand.get()
        task = asyncio.current_task()
        # A task created by the process inherits this context, but must number its own steps.
        if task is not None and task is not strand.owner:
            strand = strand.new(task)
            _strand.set(strand)
            self._others.add(task)
        self._note_unseen(strand.path)
        return strand.next()

    def _recall(self, path: str, kind: StepKind, name: str, fingerprint: str | None) -> Step | None:
        step = self._steps.get(path)
        if step is None:
            return None
        changed = difference(step, kind, name, fingerprint)
        if changed is not None:
            msg = (
                f"{changed} A run replays its recorded steps. Start a new run, or restore the process and retry "
                "this run. Use ctx.now() and ctx.task for values that change between calls."
            )
            raise ProcessChanged(msg)
        return step

    async def _record(self, step: Step, line: Line, files: Mapping[str, bytes] | None = None) -> Step:
        step = await self._written(self._desk.record(self.run, step, [*self.take_lines(), line], files))
        self._steps[step.path] = step
        return step

    async def _written(self, writing: Awaitable[Made]) -> Made:
        """Wait for a write; if it fails for internal reasons, end this replay without the process noticing."""
        try:
            return await writing
        except Exception as error:  # a database can raise anything
            if isinstance(error, _THEIRS) and not isinstance(error, _OURS):
                raise
            self._broken = error
            self._stalled.set()
            # Wait forever: `play` sees the error and cancels this task.
            await asyncio.get_running_loop().create_future()
            raise

    def _note_problems(self, path: str) -> None:
        self._lines += [Line("noted", path, {"message": problem}) for problem in self._folder.take_problems()]

    def _note_unseen(self, strand: str = "") -> None:
        """Record that the process, or a branch of it, continued after a rejection without reading the decision."""
        for path, result in [each for each in self._given.items() if each[0].startswith(strand)]:
            unseen = id(result) in _unseen
            _unseen.discard(id(result))
            del self._given[path]
            # Bypass _Watched, which would count this access as reading the decision.
            rejected = not BreakpointResult.__getattribute__(result, "approved")
            if rejected and unseen and ("unseen", path) not in self._said:
                self._lines.append(
                    Line(
                        "unseen",
                        path,
                        {
                            "message": (
                                "The breakpoint was not approved, but the process continued without checking the "
                                "decision."
                            )
                        },
                    )
                )

    @contextlib.contextmanager
    def _working(self) -> Generator[None, None, None]:
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self._look_whether_stalled()

    async def _park(self) -> NoReturn:
        """Wait for an event that only a later replay will see."""
        self._parked += 1
        self._look_whether_stalled()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._parked -= 1
        raise AssertionError

    def _look_whether_stalled(self) -> None:
        # Deferred, because strands that have just become ready must continue first.
        asyncio.get_running_loop().call_soon(self._stall)

    def _stall(self) -> None:
        if self._parked >= self._strands and self._busy == 0:
            self._stalled.set()


async def _branch(path: str, awaitable: Awaitable[Made]) -> Made:
    _strand.set(_Strand(path, asyncio.current_task()))
    return await awaitable


def _is_cancelled(error: BaseException) -> bool:
    """Return whether the task was cancelled, as opposed to user code raising CancelledError."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


class NotJson(TypeError):
    """The result of a step cannot be stored."""


def _task(function: Callable[..., Any]) -> Task[..., Any]:
    return function if isinstance(function, Task) else Task(function)  # pyright: ignore[reportUnknownVariableType]


async def _called(wanted: Task[..., Any], path: str, args: Any, kwargs: Any) -> Any:  # noqa: ANN401  # depends on the task
    """Call the function: directly if it is async, otherwise in a thread."""
    inside = _in_task.set(path)
    try:
        async with asyncio.timeout(wanted.timeout):
            if inspect.iscoroutinefunction(wanted.function):
                return await wanted.function(*args, **kwargs)
            # Threads cannot be cancelled, so after a timeout the function continues in the background.
            result = await asyncio.to_thread(wanted.function, *args, **kwargs)
            return await result if inspect.isawaitable(result) else result
    except TimeoutError as error:
        if wanted.timeout is None:
            raise
        msg = f"Timed out after {wanted.timeout:g} s."
        raise TimeoutError(msg) from error
    finally:
        _in_task.reset(inside)


def _plain_json(value: Any, what: str) -> Json:  # noqa: ANN401  # any value
    """Convert a value to the form in which a replay will read it."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_kept)
        size = len(text.encode())
    except (TypeError, ValueError) as error:
        msg = f"{what} must be JSON: {error}"
        raise NotJson(msg) from error
    if size > LARGEST_OUTCOME:
        msg = f"{what} is larger than {LARGEST_OUTCOME // 1024} KiB. Save it to a file with ctx.save_file."
        raise NotJson(msg)
    return json.loads(text)


def _kept(value: object) -> Json:
    if isinstance(value, BreakpointResult):
        return value.to_dict()
    msg = f"Object of type {type(value).__name__} is not JSON serializable"
    raise TypeError(msg)


def _fingerprint(value: Any) -> str | None:  # noqa: ANN401  # any value
    """Hash the arguments of a step, or return None if they cannot be represented as JSON."""
    try:
        # Convert to JSON first, so that a tuple has the same hash as a list.
        return sha256(canonical(json.loads(json.dumps(value, allow_nan=False))))
    except (TypeError, ValueError, RecursionError, AssentError):
        return None


def _shown(data: Mapping[str, Any]) -> Json:
    return json.loads(_text(json.dumps(data, default=repr, ensure_ascii=False)))


def _text(text: str) -> str:
    """Replace characters that cannot be stored, such as those in undecodable file names."""
    return text.encode(errors="replace").decode()


def _places(given: str | Path) -> list[str]:
    """Return the paths under which watchers might report a file, with and without resolved links."""
    absolute = Path(os.path.abspath(Path(given).expanduser()))  # noqa: PTH100  # resolve() would follow links
    return [_text(each) for each in dict.fromkeys((str(absolute), os.path.realpath(absolute)))]


def _gate(body: Mapping[str, Any]) -> str:
    payload: Mapping[str, Any] = body["payload"]
    named: str = payload.get("breakpointId") or slug(
        body.get("title") or payload.get("title") or payload.get("question") or body["agentId"]
    )
    return named


def _name_of(wanted: str | ContextFile | Mapping[str, Any]) -> str:
    if isinstance(wanted, str):
        return wanted
    return wanted.path if isinstance(wanted, ContextFile) else str(wanted.get("path"))


def _feedback(step: Step, comment: Comment) -> Feedback:
    assert step.breakpoint_id is not None, "only breakpoint steps have comments"
    return Feedback(
        id=comment.id,
        breakpoint_id=step.breakpoint_id,
        author=comment.author,
        comment=comment.comment,
        created_at=iso(comment.at),
    )


def _failure(error: BaseException, *, step: str | None = None) -> dict[str, Json]:
    """Return what the journal stores about an exception, which never includes the values of variables."""
    if isinstance(error, TaskFailed) and error.details:
        return dict(error.details)
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(_NOT_THEIRS)]
    own = [f"{Path(each.filename).name}:{each.lineno} in {each.name}" for each in frames]
    where = step or _came_of(error)
    kept = {"type": type(error).__name__, "message": _message(error), "step": where, "trace": own[-8:]}
    return {name: value for name, value in kept.items() if value}


def _message(error: BaseException) -> str:
    try:
        return _text(str(error)[:2000])
    except Exception:  # noqa: BLE001  # user code can raise anything
        return "The error message could not be read."


def _came_of(error: BaseException) -> Any:  # noqa: ANN401  # a step's path, or None
    """Return the step whose failure caused this error; a retry continues from that step."""
    seen: list[BaseException] = []
    cause: BaseException | None = error
    # Chains of exceptions can contain cycles.
    while cause is not None and cause not in seen:
        if isinstance(cause, TaskFailed):
            return cause.details.get("step")
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    return None


def _task_failed(step: Step) -> TaskFailed:
    error = step.error or {}
    msg = f"The task {step.name!r} failed: {error.get('type')}: {error.get('message')}"
    failed = TaskFailed(msg)
    details: dict[str, object] = {**error, "step": step.path, "task": step.name}
    failed.details = details
    return failed
