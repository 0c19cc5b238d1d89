"""JSON models of requests from Claude Code's HTTP hook and of the responses, with Claude Code's field names."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

Word = Annotated[str, StringConstraints(min_length=1)]


class ClaudeHook(BaseModel):
    """A tool call that Claude Code is about to make. Unknown fields are ignored."""

    model_config = ConfigDict(strict=True, extra="allow")

    hook_event_name: Literal["PreToolUse", "PermissionRequest"]
    """Type of the hook event."""
    session_id: Word
    """ID of the session, used as the breakpoint's `runId`."""
    cwd: Word
    """Working directory of the tool."""
    tool_name: Word
    """Name of the tool."""
    tool_input: dict[str, Any]
    """Arguments of the tool."""
    tool_use_id: Word | None = None
    """ID of the tool call. Required for `PreToolUse`."""


class ClaudeHookOutput(BaseModel):
    """The decision: `permissionDecision` for PreToolUse, `decision` for PermissionRequest."""

    model_config = ConfigDict(strict=True, extra="forbid")

    hookSpecificOutput: dict[str, Any]  # noqa: N815  # the client's spelling
