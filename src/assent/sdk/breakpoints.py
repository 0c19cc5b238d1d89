"""Functions that ask a question from anywhere: inside a run, through a server, or in a terminal without a server."""

import os
import sys
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import anyio
import anyio.to_thread

from assent.contracts.breakpoints import BreakpointResult, Feedback, Status
from assent.sdk.aio import AsyncAssent
from assent.sdk.calls import ask_and_wait
from assent.sdk.client import Assent
from assent.sdk.context import current
from assent.sdk.errors import InvalidRequest, passed
from assent.sdk.files import ContextFile, snapshot
from assent.sdk.keywords import strict
from assent.sdk.leaving import Notices
from assent.sdk.pending import Pending, issued, marked
from assent.sdk.protocol import Asking, Question, creation, opened, with_files

if TYPE_CHECKING:
    from assent.sdk.local_terminal import Terminal

PATIENCE = 120.0
"""Seconds to retry an unreachable server; longer than a restart takes."""
_PROVIDED = frozenset({"content", "contentBase64", "sha256"})


def server_is_set() -> bool:
    """Return whether the environment specifies a server; if not, questions are asked in the terminal."""
    return bool(os.environ.get("ASSENT_URL") or os.environ.get("ASSENT_TOKEN"))


@strict
def breakpoint(  # noqa: A001  # the product's term
    question: Question = None,
    *,
    files: Sequence[str | ContextFile] = (),
    require: bool = False,
    on_comment: Callable[[Feedback], object] | None = None,
    timeout: float | None = None,
    **asking: Unpack[Asking],
) -> BreakpointResult:
    """Ask, wait and return the result: through a server if ASSENT_URL or ASSENT_TOKEN is set, or else in the terminal.

    Only an explicit approval sets `approved`; with `require`, anything else raises NotApproved. Files must be in the
    current directory or below. After `timeout` seconds, StillWaiting is raised; in a terminal, the deadline passes.
    """
    if current.get() is not None:
        msg = "breakpoint() cannot be used inside a run. Use `await ctx.breakpoint(…)` or `await abreakpoint(…)`."
        raise RuntimeError(msg)
    text, read, said = _prepared(question, files, asking)
    if server_is_set():
        result = _from_server(text, read, said, on_comment, timeout)
    else:
        result = _from_terminal(_local_body(text, read, said, timeout))
    return passed(result) if require else result


@strict
def abreakpoint(
    question: Question = None,
    *,
    files: Sequence[str | ContextFile] = (),
    require: bool = False,
    on_comment: Callable[[Feedback], object] | None = None,
    timeout: float | None = None,
    **asking: Unpack[Asking],
) -> Coroutine[Any, Any, BreakpointResult]:
    """Do the same as `breakpoint` without blocking the event loop; inside a run, use `ctx.breakpoint`."""
    run = current.get()
    if run is not None:
        if timeout is not None:
            msg = "timeout is not available in a run. Use ttl_seconds to set a deadline for the reviewers."
            raise InvalidRequest(msg)
        return run.breakpoint(question, files=files, require=require, on_comment=on_comment, **asking)
    text, read, said = _prepared(question, files, asking)

    async def ask() -> BreakpointResult:
        if server_is_set():
            result = await _from_server_async(text, read, said, on_comment, timeout)
        else:
            result = await _from_terminal_async(_local_body(text, read, said, timeout))
        return passed(result) if require else result

    # Not `async def`, so that a missing `await` is reported with the line of the call.
    return Pending(issued("abreakpoint"), ask)


marked(abreakpoint)


def _from_server(
    question: str | None,
    files: Sequence[ContextFile],
    asking: Asking,
    on_comment: Callable[[Feedback], object] | None,
    timeout: float | None,
) -> BreakpointResult:
    key = uuid.uuid4().hex
    with Assent(patience=PATIENCE, on_trouble=Notices()) as assent:
        flow = ask_and_wait(assent.calls, key, question, asking, files=files, timeout=timeout, on_comment=on_comment)
        return _result(assent.perform(flow))


async def _from_server_async(
    question: str | None,
    files: Sequence[ContextFile],
    asking: Asking,
    on_comment: Callable[[Feedback], object] | None,
    timeout: float | None,  # noqa: ASYNC109  # as in the synchronous version
) -> BreakpointResult:
    key = uuid.uuid4().hex
    async with AsyncAssent(patience=PATIENCE, on_trouble=Notices()) as assent:
        flow = ask_and_wait(assent.calls, key, question, asking, files=files, timeout=timeout, on_comment=on_comment)
        return _result(await assent.perform(flow))


def _refuse_unchecked() -> None:
    if os.environ.get("ASSENT_RECEIPT_KEY", "").strip():
        from assent.sdk import receipts  # noqa: PLC0415  # rarely needed and slow to import

        receipts.refuse_unchecked(os.environ)


def _from_terminal(body: Mapping[str, Any]) -> BreakpointResult:
    from assent.sdk import local  # noqa: PLC0415  # loads the rule language, which clients do not need

    _refuse_unchecked()
    return local.ask(body, local.desk()).asked()


async def _from_terminal_async(body: Mapping[str, Any]) -> BreakpointResult:
    from assent.sdk import local  # noqa: PLC0415  # the same
    from assent.sdk.local_terminal import open_terminal  # noqa: PLC0415  # the same

    _refuse_unchecked()
    opened: list[Terminal] = []

    def opening(ttl_seconds: int | None) -> "Terminal | None":
        terminal = open_terminal(ttl_seconds)
        opened.extend([terminal] if terminal else [])
        return terminal

    try:
        asked = partial(local.ask, body, local.desk(opening))
        # Reading a terminal blocks, and a thread cannot be cancelled, so abandon the thread and interrupt its read.
        return (await anyio.to_thread.run_sync(asked, abandon_on_cancel=True)).asked()
    except anyio.get_cancelled_exc_class():
        for terminal in opened:
            terminal.interrupt()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(terminal.left)
        raise


def _result(ended: Status) -> BreakpointResult:
    if ended.result is None:
        return BreakpointResult(approved=False, status=ended.status, auto=False)
    return ended.result


def _prepared(
    question: Question, files: Sequence[str | ContextFile], asking: Asking
) -> tuple[str | None, list[ContextFile], Asking]:
    """Separate the arguments, read files that are specified only by their path, and add the agent's name."""
    text, given = opened(question, asking)
    creation(text, given)  # raises for mistakes before reading a file
    said = given.copy()
    said["agent_id"] = given.get("agent_id") or agent_name()
    read = [snapshot(each, root=Path.cwd()) if isinstance(each, str) else each for each in files]
    context = said.pop("context", None)
    if context is not None:
        payload = dict(said.get("payload") or {})
        # The same context twice is harmless, but one of two different contexts would be lost silently.
        if payload.setdefault("context", context) != context:
            msg = "context is set twice: as an argument and in the payload."
            raise InvalidRequest(msg)
        # Entries with content or a hash are complete; the others name a file to read.
        entries: Sequence[Mapping[str, Any]] = context.get("files") or ()
        read += [_named(entry) for entry in entries if not _PROVIDED & set(entry)]
        kept = [entry for entry in entries if _PROVIDED & set(entry)]
        payload["context"] = {name: value for name, value in context.items() if name != "files"} | (
            {"files": kept} if kept else {}
        )
        said["payload"] = payload
    return text, read, said


def _named(entry: Mapping[str, Any]) -> ContextFile:
    found = snapshot(str(entry.get("path", "")), root=Path.cwd(), format=entry.get("format"))
    language = entry.get("language") or found.language
    return ContextFile(found.path, found.format, found.content, language)


def agent_name() -> str:
    """Return the default agent name: ASSENT_AGENT_ID, or the name of the program."""
    # sys.argv is empty when Python is embedded in another program.
    name = os.environ.get("ASSENT_AGENT_ID") or Path(sys.argv[0] if sys.argv else "").stem
    return name if name and name.isprintable() else "python"


def _local_body(
    question: str | None, files: Sequence[ContextFile], asking: Asking, timeout: float | None
) -> Mapping[str, Any]:
    return local_body(creation(question, asking), files, timeout=timeout)


def local_body(body: Mapping[str, Any], files: Sequence[ContextFile], *, timeout: float | None) -> Mapping[str, Any]:
    """Return the question for a terminal: with complete files, and with the timeout as its deadline."""
    whole = dict(with_files(body, [file.entry() for file in files]))
    if timeout is not None:
        # At least one second, because the API does not accept a deadline of zero.
        whole["ttlSeconds"] = min(whole.get("ttlSeconds") or sys.maxsize, max(1, round(timeout)))
    return whole
