"""Connects to the server for one tool call, and waits no longer than clients wait for the call to finish."""

import contextlib
from collections.abc import AsyncGenerator

from mcp.server.mcpserver.exceptions import ToolError

from assent.agents.mcp.callers import Caller
from assent.agents.mcp.tool_results import sentence
from assent.contracts.breakpoints import Feedback, Status
from assent.sdk.aio import AsyncAssent
from assent.sdk.errors import AssentError, StillWaiting


@contextlib.asynccontextmanager
async def reached(caller: Caller) -> AsyncGenerator[AsyncAssent, None]:
    """Connect to the server as the caller, and report errors to the model as a sentence."""
    try:
        async with AsyncAssent(caller.url, caller.token) as assent:
            yield assent
    except AssentError as error:
        raise ToolError(sentence(error)) from error


class _NewComment(Exception):
    """A comment was added that the agent has not seen."""


async def waited(assent: AsyncAssent, breakpoint_id: str, *, seconds: float, seen: int | None = None) -> Status:
    """Return the status when the breakpoint ends, the time is up, or there are comments that the agent has not seen."""
    heard = 0

    def on_comment(_: Feedback) -> None:
        nonlocal heard
        heard += 1
        if seen is not None and heard > seen:
            raise _NewComment

    try:
        return await assent.wait(breakpoint_id, timeout=seconds, on_comment=None if seen is None else on_comment)
    except (StillWaiting, _NewComment):
        # Neither is an error for the agent, which calls the tool again while the status is waiting.
        return await assent.status(breakpoint_id)
