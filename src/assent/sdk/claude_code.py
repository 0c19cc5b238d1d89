"""Converts Claude Code's hooks to questions, and answers to verdicts, for both the command and the server."""

from typing import Any, cast

from assent.contracts.breakpoints import Status
from assent.core.claude_code import Hook, answered, shown, terms_of
from assent.core.tool_calls import ToolCall, Verdict
from assent.sdk.protocol import Asking, creation
from assent.sdk.tool_calls import Terms, asking, verdict


def question(hook: Hook, call: ToolCall, terms: Terms) -> dict[str, Any]:
    """Return the request body that creates the breakpoint for a hook."""
    said: dict[str, Any] = {**asking(call, terms), **terms_of(hook)}
    said["payload"] = {**call.payload, **shown(hook)}
    return creation(call.question, cast("Asking", said))


def judged(hook: Hook, call: ToolCall, status: Status) -> Verdict:
    """Return the verdict on the call from a breakpoint that has ended: only an explicit approval lets it run."""
    result = status.result
    option, answers = (result.option, result.answers) if result is not None else (None, None)
    return answered(hook, verdict(call, status), option=option, answers=answers)
