"""The real Claude Code, as its SDK brings it along; the SDK itself is not loaded for it."""

from importlib.util import find_spec
from pathlib import Path

_sdk = find_spec("claude_agent_sdk")
assert _sdk is not None, "installed for the tests"
assert _sdk.origin is not None, "a package"
CLAUDE = Path(_sdk.origin).with_name("_bundled") / "claude"
