"""One call that asks wherever it is made: inside a run, from a script against a server, or with no server at all."""

import contextlib
import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import anyio
import anyio.to_thread

from assent.sdk.aio import AsyncAssent
from assent.sdk.client import Assent
from assent.sdk.context import current
from assent.sdk.errors import AssentError, InvalidRequest, passed
from assent.sdk.files import ContextFile, snapshot
from assent.sdk.protocol import Asking, creation, with_files
from assent.sdk.values import BreakpointResult, Feedback, Status

if TYPE_CHECKING:
    from assent.sdk.local_terminal import Terminal

PATIENCE = 120.0
"""For how many seconds the server may be out of reach: longer than a restart takes."""
LAST_WORDS = 5.0
"""How long a question is tried to be taken back by somebody who is leaving."""
_PROVIDED = frozenset({"content", "contentBase64", "sha256"})


def server_is_set() -> bool:
    """Whether the environment names a server; without one, questions are asked in the terminal."""
    return bool(os.environ.get("ASSENT_URL") or os.environ.get("ASSENT_TOKEN"))


def breakpoint(  # noqa: A001  # the word of the product
    question: str | None = None,
    *,
    files: Sequence[str | ContextFile] = (),
    context: Mapping[str, Any] | None = None,
    require: bool = False,
    on_comment: Callable[[Feedback], object] | None = None,
    timeout: float | None = None,
    **asking: Unpack[Asking],
) -> BreakpointResult:
    """Ask, wait, and return how it ended: from the server that ASSENT_URL or ASSENT_TOKEN names, else in the terminal.

    Only an explicit approval has `approved`; with `require`, anything else raises NotApproved. Files are read under the
    current directory. With `timeout`, StillWaiting is raised after so many seconds; a terminal takes it for a deadline.
    """
    if current.get() is not None:
        msg = "This is inside a run: use `await ctx.breakpoint(…)`, or `await abreakpoint(…)`."
        raise RuntimeError(msg)
    read, said = _prepared(files, context, asking)
    if server_is_set():
        result = _from_server(question, read, said, on_comment, timeout)
    else:
        result = _from_terminal(_local_body(question, read, said, timeout))
    return passed(result) if require else result


async def abreakpoint(
    question: str | None = None,
    *,
    files: Sequence[str | ContextFile] = (),
    context: Mapping[str, Any] | None = None,
    require: bool = False,
    on_comment: Callable[[Feedback], object] | None = None,
    timeout: float | None = None,  # noqa: ASYNC109  # the arguments of `breakpoint`
    **asking: Unpack[Asking],
) -> BreakpointResult:
    """Do what `breakpoint` does, without blocking the others; inside a run it is `ctx.breakpoint`."""
    run = current.get()
    if run is not None:
        if timeout is not None:
            msg = "A run waits for as long as it takes; give people a deadline with ttl_seconds."
            raise InvalidRequest(msg)
        return await run.breakpoint(
            question, files=files, context=context, require=require, on_comment=on_comment, **asking
        )
    read, said = _prepared(files, context, asking)
    if server_is_set():
        result = await _from_server_async(question, read, said, on_comment, timeout)
    else:
        result = await _from_terminal_async(_local_body(question, read, said, timeout))
    return passed(result) if require else result


def _from_server(
    question: str | None,
    files: Sequence[ContextFile],
    asking: Asking,
    on_comment: Callable[[Feedback], object] | None,
    timeout: float | None,
) -> BreakpointResult:
    with Assent(patience=PATIENCE) as assent:
        key = uuid.uuid4().hex
        try:
            raised = assent.create(question, files=files, idempotency_key=key, **asking)
            ended = assent.wait(raised.id, timeout=timeout, on_comment=on_comment)
        except (KeyboardInterrupt, SystemExit):
            # Nobody is left to act on the answer. The same key gives the same question, whose id may not have come yet.
            with contextlib.suppress(AssentError), Assent(patience=LAST_WORDS) as leaving:
                leaving.cancel(leaving.create(question, files=files, idempotency_key=key, **asking).id)
            raise
    return _result(ended)


async def _from_server_async(
    question: str | None,
    files: Sequence[ContextFile],
    asking: Asking,
    on_comment: Callable[[Feedback], object] | None,
    timeout: float | None,  # noqa: ASYNC109  # the same
) -> BreakpointResult:
    async with AsyncAssent(patience=PATIENCE) as assent:
        key = uuid.uuid4().hex
        try:
            raised = await assent.create(question, files=files, idempotency_key=key, **asking)
            ended = await assent.wait(raised.id, timeout=timeout, on_comment=on_comment)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True), contextlib.suppress(AssentError):
                async with AsyncAssent(patience=LAST_WORDS) as leaving:
                    asked = await leaving.create(question, files=files, idempotency_key=key, **asking)
                    await leaving.cancel(asked.id)
            raise
    return _result(ended)


def _from_terminal(body: Mapping[str, Any]) -> BreakpointResult:
    from assent.sdk import local  # noqa: PLC0415  # with the language of rules, which a client can do without

    return local.ask(body, local.desk()).result


async def _from_terminal_async(body: Mapping[str, Any]) -> BreakpointResult:
    from assent.sdk import local  # noqa: PLC0415  # the same
    from assent.sdk.local_terminal import open_terminal  # noqa: PLC0415  # the same

    opened: list[Terminal] = []

    def opening(ttl_seconds: int | None) -> "Terminal | None":
        terminal = open_terminal(ttl_seconds)
        opened.extend([terminal] if terminal else [])
        return terminal

    try:
        asked = partial(local.ask, body, local.desk(opening))
        return (await anyio.to_thread.run_sync(asked, abandon_on_cancel=True)).result
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
    files: Sequence[str | ContextFile], context: Mapping[str, Any] | None, asking: Asking
) -> tuple[list[ContextFile], Asking]:
    """Read the files that are only named, and say who asks."""
    said = asking.copy()
    said["agent_id"] = asking.get("agent_id") or agent_name()
    read = [snapshot(each, root=Path.cwd()) if isinstance(each, str) else each for each in files]
    if context is not None:
        payload = dict(asking.get("payload") or {})
        if payload.setdefault("context", context) != context:
            msg = "context is given twice: as an argument and in the payload."
            raise InvalidRequest(msg)
        entries: Sequence[Mapping[str, Any]] = context.get("files") or ()
        read += [_named(entry) for entry in entries if not _PROVIDED & set(entry)]
        kept = [entry for entry in entries if _PROVIDED & set(entry)]
        payload["context"] = {name: value for name, value in context.items() if name != "files"} | (
            {"files": kept} if kept else {}
        )
        said["payload"] = payload
    return read, said


def _named(entry: Mapping[str, Any]) -> ContextFile:
    found = snapshot(str(entry.get("path", "")), root=Path.cwd(), format=entry.get("format"))
    language = entry.get("language") or found.language
    return ContextFile(found.path, found.format, found.content, language)


def agent_name() -> str:
    """Return who asks where nobody says: the program."""
    name = os.environ.get("ASSENT_AGENT_ID") or Path(sys.argv[0] if sys.argv else "").stem
    return name if name and name.isprintable() else "python"


def _local_body(
    question: str | None, files: Sequence[ContextFile], asking: Asking, timeout: float | None
) -> Mapping[str, Any]:
    return local_body(creation(question, asking), files, timeout=timeout)


def local_body(body: Mapping[str, Any], files: Sequence[ContextFile], *, timeout: float | None) -> Mapping[str, Any]:
    """Return what is asked in a terminal: files go along whole, and who stops waiting ends the question."""
    whole = dict(with_files(body, [file.entry() for file in files]))
    if timeout is not None:
        whole["ttlSeconds"] = min(whole.get("ttlSeconds") or sys.maxsize, max(1, round(timeout)))
    return whole
