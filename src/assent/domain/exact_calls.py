"""“Always approve” for calls: the predicates for exactly this call, so that no rule is proposed for a whole tool."""

import re
from collections.abc import Mapping

from assent.domain.call_digests import CALL_DIGEST, call_digest
from assent.domain.canonical import Json, is_object
from assent.domain.errors import InvalidRequest
from assent.domain.expressions import Literal
from assent.domain.grammar import sayable
from assent.domain.protected_paths import DIRECTORY, protected

LONGEST_READABLE = 200
_NAME = re.compile(r"[\w-]+")
_WHOLE_TOOLS = ("tool.", "shell.", "call.")


def is_whole_tool(gate: str) -> bool:
    """Return whether a rule on the gate alone would approve every call of a tool or a shell."""
    return gate.startswith(_WHOLE_TOOLS)


def is_offered(gate: str, payload: Mapping[str, Json]) -> bool:
    """Return whether a rule can be proposed for a question."""
    try:
        exact_call(gate, payload)
    except InvalidRequest:
        return False
    return True


def exact_call(gate: str, payload: Mapping[str, Json]) -> tuple[list[str], list[str]]:
    """Return predicates for exactly the call that a payload shows: those it takes, and those that help the reader.

    Refuses where only a rule for a whole tool could be written, or where no rule would be followed.
    """
    why = protected(gate, payload)
    if why is not None:
        raise InvalidRequest(f"No rule is offered for this call. {why}")
    digest = call_digest(payload)
    if digest is None:
        if is_whole_tool(gate):
            raise InvalidRequest(
                "No rule is offered: this question shows no arguments, so a rule would approve every call of the tool."
            )
        return [], []
    return _predicates(payload, digest), _readable(payload)


def _predicates(payload: Mapping[str, Json], digest: str) -> list[str]:
    found = [f"payload.{CALL_DIGEST} = {Literal.of(digest).text}"]
    directory: Json = payload.get(DIRECTORY)
    if directory is None:
        return found
    if not isinstance(directory, str) or not sayable(directory):
        raise InvalidRequest("No rule is offered: the working directory cannot be written in a pattern.")
    return [f"payload.{DIRECTORY} = {Literal.of(directory).text}", *found]


def _readable(payload: Mapping[str, Json]) -> list[str]:
    arguments: Json = payload.get("arguments")
    return [
        f"payload.arguments.{name} = {Literal.of(value).text}"
        for name, value in (arguments.items() if is_object(arguments) else ())
        if _NAME.fullmatch(name) and _is_readable(value)
    ]


def _is_readable(value: Json) -> bool:
    if isinstance(value, str):
        return len(value) <= LONGEST_READABLE and sayable(value)
    return isinstance(value, bool | int)
