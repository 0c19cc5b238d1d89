"""YAML without surprises: `on` and `no` are text, keys are unique, and every value has a location."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from assent.core.canonical import Json, is_object, pointer_step

LARGEST = 1024 * 1024
MOST_VALUES = 100_000
"""Counted after anchors are expanded, because a few lines can expand to millions of values."""
DEEPEST = 50
_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Place:
    """A line and a column, both counted from 1."""

    line: int
    column: int


class Unreadable(ValueError):
    """The text is not supported YAML; `text` says why, and `place` says where."""

    def __init__(self, text: str, place: Place | None = None) -> None:
        super().__init__(f"line {place.line}, column {place.column}: {text}" if place else text)
        self.text = text
        self.place = place


@dataclass(frozen=True, slots=True)
class Document:
    value: Json
    places: Mapping[str, Place]
    """The location of each value by JSON pointer: where its key starts or, in a list, where the item starts."""


class _Resolver(BaseResolver):
    """The core schema of YAML 1.2, and `<<`; every other unquoted scalar is text."""


for _name, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
):
    _add = _Resolver.add_implicit_resolver  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    _add(f"{_TAG}{_name}", re.compile(rf"(?:{_pattern})\Z"), _first)


class _Composer(Reader, Scanner, Parser, Composer, _Resolver):
    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        _Resolver.__init__(self)


def read(content: bytes) -> Document:
    """Parse one document; an empty one is an empty mapping. Raises Unreadable."""
    if len(content) > LARGEST:
        msg = f"is larger than {LARGEST // 1024:,} KiB"
        raise Unreadable(msg)
    try:
        root = _Composer(content.decode("utf-8-sig")).get_single_node()
        built = _Builder()
        value: Json = built.value(root, "") if root is not None else None
    except UnicodeDecodeError as error:
        msg = "is not UTF-8 text"
        raise Unreadable(msg) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ", ".join(filter(None, (error.context, error.problem)))
        raise Unreadable(said, Place(mark.line + 1, mark.column + 1) if mark else None) from error
    except yaml.YAMLError as error:
        raise Unreadable(str(error).splitlines()[0]) from error
    except RecursionError as error:
        msg = "is nested too deeply"
        raise Unreadable(msg) from error
    return Document({} if value is None else value, built.places)


@dataclass(slots=True)
class _Builder:
    places: dict[str, Place] = field(default_factory=dict[str, Place])
    count: int = 0

    def value(self, node: Node, pointer: str, depth: int = 0) -> Json:
        self.count += 1
        if self.count > MOST_VALUES:
            msg = f"expands to more than {MOST_VALUES:,} values"
            raise Unreadable(msg, place_of(node))
        if depth > DEEPEST:
            msg = f"is nested more than {DEEPEST} levels deep"
            raise Unreadable(msg, place_of(node))
        # The caller may already have recorded the location of the key.
        self.places.setdefault(pointer, place_of(node))
        if isinstance(node, MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, pointer, depth)
        if isinstance(node, SequenceNode) and node.tag == f"{_TAG}seq":
            return [self.value(each, f"{pointer}/{n}", depth + 1) for n, each in enumerate(node.value)]
        if isinstance(node, ScalarNode):
            return _scalar(node)
        msg = f"the tag {node.tag} is not supported"
        raise Unreadable(msg, place_of(node))

    def _mapping(self, node: MappingNode, pointer: str, depth: int) -> dict[str, Json]:
        """Build a mapping; merging with `<<` adds only missing keys."""
        found: dict[str, Json] = {}
        firsts: dict[str, Place] = {}
        # Merged in reverse order, because the first of several mappings takes precedence.
        for each in [value for key, value in reversed(node.value) if key.tag == _MERGE]:
            found |= self._merged(each, pointer, depth)
        for key, each in node.value:
            if key.tag == _MERGE:
                continue
            name, place = _key(key), place_of(key)
            first = firsts.setdefault(name, place)
            if first is not place:
                msg = f"{name} is defined twice, first on line {first.line}"
                raise Unreadable(msg, place)
            inside = f"{pointer}/{pointer_step(name)}"
            # The key replaces a merged value completely, including what was inside it.
            self._forget(inside)
            self.places[inside] = place
            found[name] = self.value(each, inside, depth + 1)
        return found

    def _merged(self, node: Node, pointer: str, depth: int) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for each in reversed(node.value) if isinstance(node, SequenceNode) else [node]:
            value = self.value(each, pointer, depth + 1)
            if not is_object(value):
                msg = "<< requires a mapping, or a list of mappings"
                raise Unreadable(msg, place_of(each))
            found |= value
        return found

    def _forget(self, pointer: str) -> None:
        """Remove the places inside a merged value that an explicit key replaces."""
        if pointer in self.places:
            for known in [each for each in self.places if each.startswith(f"{pointer}/")]:
                del self.places[known]


def place_of(node: Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)


def _key(node: Node) -> str:
    if not isinstance(node, ScalarNode):
        msg = "a key must be a plain string"
        raise Unreadable(msg, place_of(node))
    return _text(node)


def _text(node: ScalarNode) -> str:
    text: str = node.value
    if _UNSTORABLE.search(text):
        msg = "contains a character that cannot be stored"
        raise Unreadable(msg, place_of(node))
    return text


def _scalar(node: ScalarNode) -> Json:
    text = _text(node)
    kind = node.tag.removeprefix(_TAG)
    if kind in {"str", "merge"}:
        return text
    if kind == "null":
        return None
    if kind == "bool" and text.lower() in {"true", "false"}:
        return text.lower() == "true"
    return _number(node, kind, text)


def _number(node: ScalarNode, kind: str, text: str) -> Any:  # noqa: ANN401  # an int or a float
    try:
        if kind == "int":
            return int(text, 0 if text[:2] in {"0o", "0x"} else 10)
        if kind == "float" and math.isfinite(number := float(text)):
            return number
    except ValueError as error:
        msg = f"{text[:40]} is not a supported number"
        raise Unreadable(msg, place_of(node)) from error
    msg = f"the tag {node.tag} is not supported"
    raise Unreadable(msg, place_of(node))
