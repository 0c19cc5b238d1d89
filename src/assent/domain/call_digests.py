"""Digests that name one call: the tool, function or command with all of its arguments."""

from collections.abc import Mapping

from assent.domain.canonical import Json, canonical, is_object, sha256

CALL_DIGEST = "callDigest"
"""Payload field that carries the digest."""
_TOOL, _FUNCTION, _COMMAND = b"assent-tool-call/1\n", b"assent-call/1\n", b"assent-command/1\n"


def tool_digest(tool: str, arguments: Mapping[str, Json]) -> str:
    return sha256(_TOOL + canonical({"tool": tool, "arguments": dict(arguments)}))


def function_digest(function: str, arguments: Mapping[str, Json]) -> str:
    return sha256(_FUNCTION + canonical({"function": function, "arguments": dict(arguments)}))


def call_digest(payload: Mapping[str, Json]) -> str | None:
    """Return the digest of the call that a payload shows, or None where it shows none; a claimed one is not read."""
    arguments: Json = payload.get("arguments")
    tool: Json = payload.get("tool")
    function: Json = payload.get("function")
    if not is_object(arguments):
        said = {name: payload[name] for name in ("command", "program") if name in payload}
        return sha256(_COMMAND + canonical(said)) if "command" in said else None
    if isinstance(function, str) and not isinstance(tool, str):
        return function_digest(function, arguments)
    return tool_digest(tool if isinstance(tool, str) else "", arguments)
