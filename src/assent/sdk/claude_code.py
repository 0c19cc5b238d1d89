"""Claude Code's hooks as questions and verdicts, for whoever asks: the command, or the server for its own callers."""

from typing import Any, cast

from assent.domain.claude_code import Hook, answered, shown, terms_of
from assent.domain.tool_calls import ToolCall, Verdict
from assent.sdk.protocol import Asking, creation
from assent.sdk.tool_calls import Terms, asking, verdict
from assent.sdk.values import Status


def question(hook: Hook, call: ToolCall, terms: Terms) -> dict[str, Any]:
    """Return the body that raises the breakpoint of a hook."""
    said: dict[str, Any] = {**asking(call, terms), **terms_of(hook)}
    said["payload"] = {**call.payload, **shown(hook)}
    return creation(call.question, cast("Asking", said))


def judged(hook: Hook, call: ToolCall, status: Status) -> Verdict:
    """Return what a breakpoint that has ended says about the call: only an explicit approval lets it run."""
    result = status.result
    option, answers = (result.option, result.answers) if result is not None else (None, None)
    return answered(hook, verdict(call, status), option=option, answers=answers)
