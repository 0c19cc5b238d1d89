"""What Claude Code sends to an http hook, and what it is told: in its own spelling."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

Word = Annotated[str, StringConstraints(min_length=1)]


class ClaudeHook(BaseModel):
    """A tool call before it runs. Other fields are ignored."""

    model_config = ConfigDict(strict=True, extra="allow")

    hook_event_name: Literal["PreToolUse", "PermissionRequest"]
    session_id: Word
    """Becomes the breakpoint's runId."""
    cwd: Word
    """The tool's working directory."""
    tool_name: Word
    tool_input: dict[str, Any]
    tool_use_id: Word | None = None
    """ID of the call. Required for PreToolUse."""


class ClaudeHookOutput(BaseModel):
    """The decision: `permissionDecision` for PreToolUse, `decision` for PermissionRequest."""

    model_config = ConfigDict(strict=True, extra="forbid")

    hookSpecificOutput: dict[str, Any]  # noqa: N815  # the client's spelling
