"""Digests that identify one call: a tool, function or command with all of its arguments."""

from collections.abc import Mapping

from assent.core.canonical import Json, canonical, is_object, sha256
from assent.core.protected_paths import COMMANDS, PATHS

CALL_DIGEST = "callDigest"
"""Payload field that contains the digest."""
HIDDEN = "hidden"
"""Payload field that lists the parts of a call that are not shown."""
CALL = ("tool", "function", "arguments", "command")
"""Payload fields that indicate a call."""
# The prefixes keep digests of different kinds of calls apart even if their JSON is the same.
_TOOL, _FUNCTION, _COMMAND = b"assent-tool-call/1\n", b"assent-call/1\n", b"assent-command/1\n"
_WHOLE = b"assent-whole-call/1\n"
_MORE = COMMANDS | PATHS | {"input", "inputs", "params", "parameters", "cwd", HIDDEN}
"""Other payload fields that are part of the call in a payload that shows a call; names are compared in lowercase."""


def tool_digest(tool: str, arguments: Mapping[str, Json]) -> str:
    return sha256(_TOOL + canonical({"tool": tool, "arguments": dict(arguments)}))


def function_digest(function: str, arguments: Mapping[str, Json]) -> str:
    return sha256(_FUNCTION + canonical({"function": function, "arguments": dict(arguments)}))


def call_digest(payload: Mapping[str, Json]) -> str | None:
    """Compute the digest of the call in a payload, ignoring any digest in the payload; return None without a call.

    The digest covers the whole call: every additional field that belongs to the call changes it.
    """
    said = call_parts(payload)
    arguments: Json = said.get("arguments")
    if not is_object(arguments):
        if said.get("command") is None:
            return None
        return sha256((_COMMAND if said.keys() <= {"command", "program"} else _WHOLE) + canonical(said))
    tool, function = said.get("tool"), said.get("function")
    # Calls with only these fields have the digest that integrations compute before they send the payload.
    if said.keys() == {"tool", "arguments"} and isinstance(tool, str):
        return tool_digest(tool, arguments)
    if said.keys() == {"function", "arguments"} and isinstance(function, str):
        return function_digest(function, arguments)
    return tool_digest("", arguments) if said.keys() == {"arguments"} else sha256(_WHOLE + canonical(said))


def call_parts(payload: Mapping[str, Json]) -> dict[str, Json]:
    """Return the payload fields that determine what a call does."""
    return {name: value for name, value in payload.items() if name in CALL or name.lower() in _MORE}


def shows_call(payload: Mapping[str, Json]) -> bool:
    return any(name in payload for name in CALL)


def hides(payload: Mapping[str, Json]) -> bool:
    """Return whether part of a call is hidden, in which case calls that look alike may differ."""
    return bool(payload.get(HIDDEN))
