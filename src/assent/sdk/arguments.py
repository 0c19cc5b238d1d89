"""The arguments of a call as shown to reviewers: JSON values unchanged, other values described, secrets hidden."""

import dataclasses
import inspect
import math
import re
from collections import deque
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

from assent.contracts.breakpoints import BreakpointResult
from assent.core.call_digests import function_digest
from assent.core.canonical import MAX_INTEGER, Json, canonical
from assent.sdk.errors import ArgumentsRefused, InvalidRequest
from assent.sdk.visible import visible

HIDDEN = "(hidden)"
DEEPEST = 16
LONGEST_WORD = 200
_NAMES = re.compile(r"[.\[\]]")


def described(value: Any, hide: Sequence[str] = (), *, depth: int = 0) -> Json:  # noqa: ANN401  # any argument
    """Return a value as JSON. Values that JSON cannot represent are described by type and content, or by repr."""
    if depth > DEEPEST:
        msg = f"An argument is nested deeper than {DEEPEST} levels or contains itself, so it cannot be shown."
        raise InvalidRequest(msg)
    if _is_atom(value):
        return value
    if _exactly(value, list, tuple):
        return [described(each, hide, depth=depth + 1) for each in value]
    if _exactly(value, dict) and all(type(key) is str and _is_atom(key) for key in value):
        return _described_fields(value, hide, depth)
    return {"type": f"{type(value).__module__}.{type(value).__qualname__}"} | _described_inside(value, hide, depth)


def _described_fields(value: Mapping[str, Any], hide: Sequence[str], depth: int) -> dict[str, Json]:
    return {key: HIDDEN if key in hide else described(each, hide, depth=depth + 1) for key, each in value.items()}


def _described_inside(value: Any, hide: Sequence[str], depth: int) -> dict[str, Json]:  # noqa: ANN401  # any argument
    # Inspect the value instead of using its repr if it might contain something to hide.
    if _has(value, "__dataclass_fields__") and not _is_a(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {"fields": _described_fields(fields, hide, depth)}
    if any(_has(value, name) for name in hide):
        return {"repr": HIDDEN}
    if _is_a(value, Mapping):
        pairs = [[key, HIDDEN if key in hide else each] for key, each in value.items()]
        return {"items": described(pairs, hide, depth=depth + 1)}
    if _is_a(value, list, tuple, set, frozenset, deque):
        items = [described(each, hide, depth=depth + 1) for each in value]
        # The order of a set can differ between processes, but equal calls must have equal digests.
        return {"items": sorted(items, key=canonical) if _is_a(value, set, frozenset) else items}
    return {"repr": _harmless(repr(value))}


def _is_atom(value: object) -> bool:
    """Return whether JSON represents the value exactly; an instance of a subclass might have more content."""
    if value is None or type(value) is bool:
        return True
    if type(value) is str:
        return _harmless(value) == value
    if type(value) is int:
        return abs(value) <= MAX_INTEGER
    return type(value) is float and math.isfinite(value)


def _is_json(value: Any) -> bool:  # noqa: ANN401  # any argument
    if _exactly(value, list):
        return all(_is_json(each) for each in value)
    if _exactly(value, dict):
        return all(type(key) is str and _is_atom(key) and _is_json(each) for key, each in value.items())
    return _is_atom(value)


def _is_a(value: object, *kinds: type) -> bool:
    return isinstance(value, kinds)


def _exactly(value: object, *kinds: type) -> bool:
    return type(value) in kinds


def _harmless(text: str) -> str:
    """Return text that both databases can store."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")


def _has(value: object, name: str) -> bool:
    # A static lookup does not run any of the value's code.
    return inspect.getattr_static(value, name, None) is not None


def digest(function: str, arguments: Mapping[str, Json]) -> str:
    return function_digest(function, arguments)


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A call with all of its arguments, as they were when the question was asked."""

    bound: inspect.BoundArguments
    shown: Mapping[str, Json]
    editable: tuple[str, ...]
    """Only arguments that JSON represents exactly, because a reviewer could not enter any others."""
    _before: bytes

    @classmethod
    def of(cls, bound: inspect.BoundArguments, *, hide: Sequence[str], editable: Sequence[str]) -> "Call":
        values = bound.arguments
        shown = {name: HIDDEN if name in hide else described(value, hide) for name, value in values.items()}
        # An argument with hidden content is not editable, because the new value would lack that content.
        may_change = tuple(
            name for name in editable if _is_json(values[name]) and canonical(shown[name]) == canonical(values[name])
        )
        return cls(bound, shown, may_change, _state(bound))

    def released(self, result: BreakpointResult) -> inspect.BoundArguments:
        """Return the arguments to run with; raise if they differ from the approved ones."""
        if _state(self.bound) != self._before:
            msg = "An argument changed during the review, so the approval no longer applies. Call the function again."
            raise ArgumentsRefused(msg, result=result)
        edits = agreed(result)
        changed = {name: self._changed(name, value, result) for name, value in edits.items()}
        # Copy the arguments, because `released` may be called again and must then compare the originals.
        bound = inspect.BoundArguments(self.bound.signature, self.bound.arguments.copy())
        bound.arguments.update(changed)
        return bound

    def _changed(self, name: str, value: Json, result: BreakpointResult) -> Json:
        if name not in self.editable:
            msg = f"The reviewer changed {name[:100]!r}, which is not editable. Nothing was run."
            raise ArgumentsRefused(msg, result=result)
        before = self.bound.arguments[name]
        # JSON writers may turn 3.0 into 3, so an integer is accepted for a float.
        if type(before) is float and type(value) is int:
            return float(value)
        if type(value) is not type(before):
            kinds = f"{type(before).__name__}, got {type(value).__name__}"
            msg = f"The reviewer's value for {name!r} has the wrong type: expected {kinds}. Nothing was run."
            raise ArgumentsRefused(msg, result=result)
        return value


def _state(bound: inspect.BoundArguments) -> bytes:
    return canonical({name: described(value) for name, value in bound.arguments.items()})


def agreed(result: BreakpointResult) -> Mapping[str, Json]:
    """Return the edits; raise if approvals differ, because reviewers approve only changes that they have seen."""
    approvals = [each for each in result.all_responses or () if each.get("approved") is True]
    said: list[Json] = [each.get("edits") or {} for each in approvals]
    edits = result.edits or {}
    if any(canonical(each) != canonical(edits) for each in said):
        msg = "The reviewers who approved made different changes. Nothing was run."
        raise ArgumentsRefused(msg, result=result)
    return edits


class Template(Formatter):
    """A template with arguments, such as "Pay {amount} to {to}?". Names are checked when it is created."""

    def __init__(self, text: str, *, names: Sequence[str], hide: Sequence[str]) -> None:
        self._text = text
        self._hide = hide
        for _, field, spec, _ in self.parse(text):
            if field is None:
                continue
            if _NAMES.split(field, maxsplit=1)[0] not in names or "{" in (spec or ""):
                msg = f"{{{field}}} in {text!r} is not an argument. Available arguments: {', '.join(names) or 'none'}."
                raise ValueError(msg)
            if set(_NAMES.split(field)) & set(hide):
                msg = f"{{{field}}} in {text!r} is a hidden argument. Remove it from the text."
                raise ValueError(msg)

    def filled(self, call: Call) -> str:
        # If values may contain secrets, insert them as they are shown.
        values = {
            name: call.shown[name] if self._hide and not _is_atom(value) else value
            for name, value in call.bound.arguments.items()
        }
        return self.vformat(self._text, (), values)

    def format_field(self, value: Any, format_spec: str) -> str:  # noqa: ANN401  # signature of the base class
        """Format an argument on one line, without hidden characters and truncated."""
        word = visible(_harmless(str(super().format_field(value, format_spec))))
        return word if len(word) <= LONGEST_WORD else word[: LONGEST_WORD - 1] + "…"
