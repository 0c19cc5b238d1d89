"""Strict JSON in, canonical JSON (RFC 8785) out, digests, and the audit chain."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias, TypeGuard

import rfc8785

from assent.domain.errors import MalformedJson

Json: TypeAlias = Any

MAX_DEPTH = 64
MAX_INTEGER = 2**53 - 1
GENESIS = "0" * 64
# Runs of plain characters at once: one by one takes four times as long.
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
_OPENER = re.compile(r'\{(?=[\s"}])|\[')
_ATOMS = frozenset({str, int, bool, type(None)})


def is_object(value: Json) -> TypeGuard[dict[str, Json]]:
    return isinstance(value, dict)


def is_array(value: Json) -> TypeGuard[list[Json]]:
    return isinstance(value, (list, tuple))


def pointer_step(key: str | int) -> str:
    """Return a key as it stands in a JSON pointer (RFC 6901)."""
    return str(key).replace("~", "~0").replace("/", "~1")


def pointer_key(step: str) -> str:
    """Return the key that a step of a JSON pointer stands for."""
    return step.replace("~1", "/").replace("~0", "~")


def strict_loads(body: bytes) -> Json:
    """Parse JSON as both databases and every browser will read it, or raise MalformedJson.

    Refused: anything but UTF-8, NaN and infinities, duplicate keys, integers beyond 2^53, NUL, lone surrogates,
    nesting deeper than 64.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        msg = "The body is not UTF-8."
        raise MalformedJson(msg) from error
    # Openers bound the depth from above: most bodies need no walk, also if they are full of {/templates}.
    if text.count("{") + text.count("[") > MAX_DEPTH and len(_OPENER.findall(text)) > MAX_DEPTH:
        _refuse_deep(text)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        msg = f"{error.msg} at line {error.lineno}, column {error.colno}."
        raise MalformedJson(msg, line=error.lineno, column=error.colno) from error
    # Raw UTF-8 holds neither surrogates nor (inside strict strings) NUL: only an escape can bring them in.
    if "\\u" in text:
        _refuse_hostile_text(value)
    return value


def _refuse_deep(text: str) -> None:
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "{[" else -1
        if depth > MAX_DEPTH:
            msg = f"The JSON is nested deeper than {MAX_DEPTH} levels."
            raise MalformedJson(msg)


def _refuse_hostile_text(value: Json) -> None:
    if isinstance(value, str):
        if "\x00" in value:
            msg = "A string contains NUL (\\u0000)."
            raise MalformedJson(msg)
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            msg = "A string contains an unpaired surrogate."
            raise MalformedJson(msg) from error
    elif is_object(value):
        for key, item in value.items():
            _refuse_hostile_text(key)
            _refuse_hostile_text(item)
    elif is_array(value):
        for item in value:
            _refuse_hostile_text(item)


def _unique_pairs(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        # Counted, not searched: a body holds a hundred thousand keys.
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        msg = f"The key {twice!r} appears twice in one object."
        raise MalformedJson(msg)
    return result


def _bounded_int(digits: str) -> int:
    # The length first: int() of a million digits is slow, and refuses with another error.
    if len(digits) > len("-9007199254740991") or abs(number := int(digits)) > MAX_INTEGER:
        msg = "An integer is outside ±(2^53 - 1). Send it as a string."
        raise MalformedJson(msg)
    return number


def _finite_float(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        msg = f"The number {digits[:40]} is out of range."
        raise MalformedJson(msg)
    return number


def _refuse_constant(name: str) -> NoReturn:
    msg = f"{name} is not valid JSON."
    raise MalformedJson(msg)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique_pairs, parse_int=_bounded_int, parse_float=_finite_float, parse_constant=_refuse_constant
)
_PLAIN = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False, check_circular=False
)


def canonical(value: Json) -> bytes:
    """Return the RFC 8785 form: one byte string for one value, whoever computes it."""
    # For text, integers and Basic-Multilingual-Plane keys the C encoder gives the same bytes ten times as fast.
    if _plain(value):
        return _PLAIN.encode(value).encode("utf-8")
    return rfc8785.dumps(value)


def _plain(value: Json) -> bool:
    # Loops, not all(), and atoms without a call: this runs over every body and event.
    if is_object(value):
        for key, item in value.items():
            if not key.isascii() or (type(item) not in _ATOMS and not _plain(item)):
                return False
        return True
    if is_array(value):
        for item in value:  # noqa: SIM110
            if type(item) not in _ATOMS and not _plain(item):
                return False
        return True
    return not isinstance(value, float)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def content_digest(content: Mapping[str, Json]) -> str:
    """Digest what a reviewer is asked about; files stand in it by their own digests."""
    return sha256(b"assent-content/1\n" + canonical(content))


def terms_digest(terms: Mapping[str, Json]) -> str:
    """Digest under which conditions a breakpoint is answered: text and integers under our own names."""
    return sha256(b"assent-terms/1\n" + _PLAIN.encode(terms).encode("utf-8"))


def link(previous: str, event: Mapping[str, Json]) -> str:
    """Hash one event onto the chain of its breakpoint."""
    return seal(previous, {**event, "metadata": sha256(canonical(event.get("metadata", {})))})


def seal(previous: str, event: Mapping[str, Json]) -> str:
    """Hash an event whose metadata is given by its digest: it can be purged, and the chain still be checked."""
    # Nothing but text and integers under our own names: the canonical form without looking.
    return sha256(f"assent-event/1\n{previous}\n{_PLAIN.encode(event)}".encode())
