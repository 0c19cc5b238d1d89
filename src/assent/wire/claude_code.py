"""What Claude Code sends to an http hook, and what it is told: in its own spelling."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

Word = Annotated[str, StringConstraints(min_length=1)]


class ClaudeHook(BaseModel):
    """A tool call before it runs. What else the client says is passed over."""

    model_config = ConfigDict(strict=True, extra="allow")

    hook_event_name: Literal["PreToolUse", "PermissionRequest"]
    session_id: Word
    cwd: Word
    tool_name: Word
    tool_input: dict[str, Any]
    tool_use_id: Word | None = None


class ClaudeHookOutput(BaseModel):
    """What it may do: a `permissionDecision` for PreToolUse, a `decision` for PermissionRequest."""

    model_config = ConfigDict(strict=True, extra="forbid")

    hookSpecificOutput: dict[str, Any]  # noqa: N815  # the client's spelling
