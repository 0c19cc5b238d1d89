"""The path of the Claude Code executable bundled with its SDK, without importing the SDK."""

from importlib.util import find_spec
from pathlib import Path

_sdk = find_spec("claude_agent_sdk")
assert _sdk is not None, "claude_agent_sdk is not installed"
assert _sdk.origin is not None, "claude_agent_sdk is not a regular package"
CLAUDE = Path(_sdk.origin).with_name("_bundled") / "claude"
