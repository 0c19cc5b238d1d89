"""Reaching the server for one call, and waiting there for no longer than a client waits for a call."""

import contextlib
from collections.abc import AsyncGenerator

from mcp.server.mcpserver.exceptions import ToolError

from assent.mcp.callers import Caller
from assent.mcp.told import sentence
from assent.sdk.aio import AsyncAssent
from assent.sdk.errors import AssentError, StillWaiting
from assent.sdk.values import Feedback, Status


@contextlib.asynccontextmanager
async def reached(caller: Caller) -> AsyncGenerator[AsyncAssent, None]:
    """Reach the server as the caller; what goes wrong there is told to the model in a sentence."""
    try:
        async with AsyncAssent(caller.url, caller.token) as assent:
            yield assent
    except AssentError as error:
        raise ToolError(sentence(error)) from error


class _NewComment(Exception):
    """A person has said something that the agent does not know yet."""


async def waited(assent: AsyncAssent, breakpoint_id: str, *, seconds: float, seen: int | None = None) -> Status:
    """Return how a breakpoint stands when it has ended, the time is over, or more was said than the agent has seen."""
    heard = 0

    def on_comment(_: Feedback) -> None:
        nonlocal heard
        heard += 1
        if seen is not None and heard > seen:
            raise _NewComment

    try:
        return await assent.wait(breakpoint_id, timeout=seconds, on_comment=None if seen is None else on_comment)
    except (StillWaiting, _NewComment):
        return await assent.status(breakpoint_id)
