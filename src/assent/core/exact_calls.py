"""“Always approve” for calls: suggests rules that match exactly one call instead of a whole tool."""

import re
from collections.abc import Mapping

from assent.core.call_digests import CALL_DIGEST, call_digest, hides, shows_call
from assent.core.canonical import Json, is_object
from assent.core.errors import InvalidRequest
from assent.core.patterns.expressions import Literal
from assent.core.patterns.grammar import sayable
from assent.core.protected_paths import DIRECTORY, protected

PROGRAM_DIGEST = "programSha256"
LONGEST_READABLE = 200
_NAME = re.compile(r"[\w-]+")
WITHOUT_PROGRAM = ("tool.", "call.")
"""Prefixes of gates whose calls do not run a program that a rule could name."""
_WHOLE_TOOLS = (*WITHOUT_PROGRAM, "shell.")


def is_whole_tool(gate: str) -> bool:
    """Return whether a rule for the gate alone would approve every call to a tool or shell."""
    return gate.startswith(_WHOLE_TOOLS)


def is_offered(gate: str, payload: Mapping[str, Json]) -> bool:
    """Return whether a rule can be suggested for a breakpoint."""
    try:
        exact_call(gate, payload)
    except InvalidRequest:
        return False
    return True


def exact_call(gate: str, payload: Mapping[str, Json]) -> tuple[list[str], list[str]]:
    """Return predicates that match exactly this call: the required ones, and those that only make the rule readable.

    Raises InvalidRequest if only a rule for a whole tool would be possible, or if a rule would have no effect.
    """
    why = protected(gate, payload)
    if why is not None:
        raise InvalidRequest(f"No rule can be suggested for this call. {why}")
    if hides(payload):
        raise InvalidRequest(
            "No rule can be suggested: part of this call is hidden, so a rule would also match other calls."
        )
    digest = call_digest(payload)
    if digest is None:
        if shows_call(payload):
            raise InvalidRequest(
                "No rule can be suggested: this call's arguments are not an object, so a rule cannot match it exactly."
            )
        if is_whole_tool(gate):
            raise InvalidRequest(
                "No rule can be suggested: this request does not include arguments, so a rule would approve every call "
                "to the tool."
            )
        return [], []
    return _predicates(gate, payload, digest), _readable(payload)


def _predicates(gate: str, payload: Mapping[str, Json], digest: str) -> list[str]:
    # The same command can do something else in another directory or with another program.
    found = [_exactly(payload, DIRECTORY, "the working directory")]
    if "program" in payload or PROGRAM_DIGEST in payload or not gate.startswith(WITHOUT_PROGRAM):
        found.append(_exactly(payload, PROGRAM_DIGEST, "the program's digest"))
    # The digest covers all arguments, so a rule that requires it cannot match a different call.
    return [*found, f"payload.{CALL_DIGEST} = {Literal.of(digest).text}"]


def _exactly(payload: Mapping[str, Json], name: str, called: str) -> str:
    """Return a predicate that requires the payload's value, or its absence if the payload does not have one."""
    if name not in payload:
        return f"NOT payload.{name} exists"
    value: Json = payload[name]
    if not isinstance(value, str) or not sayable(value):
        raise InvalidRequest(f"No rule can be suggested: a pattern cannot express {called}.")
    return f"payload.{name} = {Literal.of(value).text}"


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
