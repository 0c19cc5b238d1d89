"""Templates: `{{ event.repo }}` inserts a value from an event. Templates never execute event content."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assent.core.canonical import Json, is_array, is_object, pointer_step
from assent.core.errors import InvalidRequest
from assent.core.patterns.expressions import Attributes, Kind

LONGEST = 4_000
"""Maximum length of a string inserted from an event."""
_HOLE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_PATH = re.compile(r"\s*event((?:\.[A-Za-z_][\w-]*|\[\d{1,4}\])+)\s*", re.ASCII)
_STEP = re.compile(r"\.([A-Za-z_][\w-]*)|\[(\d+)\]", re.ASCII)


@dataclass(frozen=True, slots=True)
class Hole:
    """A placeholder that is filled from the event."""

    text: str
    path: tuple[str | int, ...]


def holes(text: str, attributes: Attributes) -> list[Hole]:
    """Return the placeholders in a template, or raise ValueError with the reason if one is invalid."""
    around = _HOLE.split(text)[::2]
    if any("{{" in part or "}}" in part for part in around):
        msg = "has an unmatched {{ or }}"
        raise ValueError(msg)
    return [_hole(found, attributes) for found in _HOLE.findall(text)]


def _hole(inside: str, attributes: Attributes) -> Hole:
    found = _PATH.fullmatch(inside)
    if found is None:
        msg = f"{{{{{inside}}}}} is not a path, for example {{{{ event.repo }}}} or {{{{ event.data.number }}}}"
        raise ValueError(msg)
    path = tuple(name or int(index) for name, index in _STEP.findall(found[1]))
    first = str(path[0])
    if first not in attributes:
        msg = f"events do not have a field named {first}; available fields: {', '.join(sorted(attributes))}"
        raise ValueError(msg)
    if len(path) > 1 and attributes[first].kind not in {Kind.OBJECT, Kind.LIST}:
        msg = f"{first} is a single value and does not have fields"
        raise ValueError(msg)
    return Hole(inside.strip(), path)


def check(value: Json, attributes: Attributes, pointer: str) -> None:
    """Raise InvalidRequest with the location of a template that could never be filled."""
    if isinstance(value, str):
        try:
            holes(value, attributes)
        except ValueError as error:
            raise InvalidRequest.at(pointer, str(error)) from error
    elif is_object(value):
        for name, each in value.items():
            check(each, attributes, f"{pointer}/{pointer_step(name)}")
    elif is_array(value):
        for n, each in enumerate(value):
            check(each, attributes, f"{pointer}/{n}")


def fill(value: Json, seen: Mapping[str, Any]) -> Json:
    """Fill in templates anywhere in a value. A string that is a single placeholder becomes a value of any type."""
    if isinstance(value, str):
        return _filled(value, seen)
    if is_object(value):
        return {name: fill(each, seen) for name, each in value.items()}
    if is_array(value):
        return [fill(each, seen) for each in value]
    return value


def gaps(text: str, seen: Mapping[str, Any]) -> list[str]:
    """Return the paths in a template for which this event has no value."""
    found = [inside.strip() for inside in _HOLE.findall(text)]
    return [each for each in found if _at(_path(each), seen) in (None, "", [], {})]


def _filled(text: str, seen: Mapping[str, Any]) -> Json:
    alone = _HOLE.fullmatch(text.strip())
    if alone is not None and _PATH.fullmatch(alone[1]):
        return cut(_at(_path(alone[1]), seen))
    return _HOLE.sub(lambda found: _spelt(cut(_at(_path(found[1]), seen))), text)


def spelt(text: str, seen: Mapping[str, Any]) -> tuple[str, bool]:
    """Fill in a template without truncating values, and also return whether the event has all of them."""
    parts = [_spelt(_at(_path(found), seen)) for found in _HOLE.findall(text)]
    filled = iter(parts)
    return _HOLE.sub(lambda _: next(filled), text), all(parts)


def _path(inside: str) -> tuple[str | int, ...]:
    return tuple(name or int(index) for name, index in _STEP.findall(inside))


def _at(path: tuple[str | int, ...], seen: Mapping[str, Any]) -> Json:
    value: Json = seen
    for step in path:
        if isinstance(step, int):
            value = value[step] if is_array(value) and step < len(value) else None
        else:
            value = value.get(step) if is_object(value) else None
    return value


def cut(value: Json) -> Json:
    return f"{value[:LONGEST]}…" if isinstance(value, str) and len(value) > LONGEST else value


def _spelt(value: Json) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(_spelt, value)) if is_array(value) else str(value)
