"""Digests that name one call: the tool, function or command with all of its arguments."""

from collections.abc import Mapping

from assent.domain.canonical import Json, canonical, is_object, sha256
from assent.domain.protected_paths import COMMANDS, PATHS

CALL_DIGEST = "callDigest"
"""Payload field that carries the digest."""
HIDDEN = "hidden"
"""Payload field: the names of what is not shown of a call."""
CALL = ("tool", "function", "arguments", "command")
"""Payload fields that show a call."""
_TOOL, _FUNCTION, _COMMAND = b"assent-tool-call/1\n", b"assent-call/1\n", b"assent-command/1\n"
_WHOLE = b"assent-whole-call/1\n"
_MORE = COMMANDS | PATHS | {"input", "inputs", "params", "parameters", "cwd", HIDDEN}
"""Payload fields that say more about a call where it is shown."""


def tool_digest(tool: str, arguments: Mapping[str, Json]) -> str:
    return sha256(_TOOL + canonical({"tool": tool, "arguments": dict(arguments)}))


def function_digest(function: str, arguments: Mapping[str, Json]) -> str:
    return sha256(_FUNCTION + canonical({"function": function, "arguments": dict(arguments)}))


def call_digest(payload: Mapping[str, Json]) -> str | None:
    """Return the digest of the call that a payload shows, or None where it shows none; a claimed one is not read.

    It covers the call whole: whatever is shown beside a tool or function and its arguments makes it another call.
    """
    said = call_parts(payload)
    arguments: Json = said.get("arguments")
    if not is_object(arguments):
        if said.get("command") is None:
            return None
        return sha256((_COMMAND if said.keys() <= {"command", "program"} else _WHOLE) + canonical(said))
    tool, function = said.get("tool"), said.get("function")
    if said.keys() == {"tool", "arguments"} and isinstance(tool, str):
        return tool_digest(tool, arguments)
    if said.keys() == {"function", "arguments"} and isinstance(function, str):
        return function_digest(function, arguments)
    return tool_digest("", arguments) if said.keys() == {"arguments"} else sha256(_WHOLE + canonical(said))


def call_parts(payload: Mapping[str, Json]) -> dict[str, Json]:
    """Return the fields of a payload that say what a call does."""
    return {name: value for name, value in payload.items() if name in CALL or name.lower() in _MORE}


def shows_call(payload: Mapping[str, Json]) -> bool:
    return any(name in payload for name in CALL)


def hides(payload: Mapping[str, Json]) -> bool:
    """Return whether a call is not shown whole, so that two that look alike may differ."""
    return bool(payload.get(HIDDEN))
