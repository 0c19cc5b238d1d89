"""Strict JSON parsing, canonical JSON (RFC 8785), digests, and the hashes of the audit chain."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias, TypeGuard

import rfc8785

from assent.core.errors import MalformedJson

Json: TypeAlias = Any

MAX_DEPTH = 64
MAX_INTEGER = 2**53 - 1
GENESIS = "0" * 64
# Matches runs of ordinary characters at once; matching one character at a time takes four times as long.
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
# A brace that opens an object is followed by whitespace, a key or a closing brace.
_OPENER = re.compile(r'\{(?=[\s"}])|\[')
_ATOMS = frozenset({str, int, bool, type(None)})


def is_object(value: Json) -> TypeGuard[dict[str, Json]]:
    return isinstance(value, dict)


def is_array(value: Json) -> TypeGuard[list[Json]]:
    return isinstance(value, (list, tuple))


def pointer_step(key: str | int) -> str:
    """Escape a key for a JSON pointer (RFC 6901)."""
    return str(key).replace("~", "~0").replace("/", "~1")


def pointer_key(step: str) -> str:
    """Unescape a step of a JSON pointer."""
    return step.replace("~1", "/").replace("~0", "~")


def strict_loads(body: bytes) -> Json:
    """Parse JSON that both databases and every browser interpret the same way, or raise MalformedJson.

    Rejects NaN and infinities, duplicate keys, integers beyond ±(2^53 - 1), NUL, lone surrogates, nesting deeper than
    64 levels, and encodings other than UTF-8.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        msg = "The body is not UTF-8."
        raise MalformedJson(msg) from error
    # The number of opening brackets is an upper bound on the depth, so most bodies do not have to be scanned. The regex
    # then excludes the braces of URL templates such as {/path}.
    if text.count("{") + text.count("[") > MAX_DEPTH and len(_OPENER.findall(text)) > MAX_DEPTH:
        _refuse_deep(text)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        msg = f"{error.msg} at line {error.lineno}, column {error.colno}."
        raise MalformedJson(msg, line=error.lineno, column=error.colno) from error
    # Only escapes can produce surrogates or NUL: UTF-8 cannot encode surrogates, and the strict decoder rejects NUL.
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
        # Count in a single pass, because a body can have a hundred thousand keys.
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        msg = f"The key {twice!r} appears twice in one object."
        raise MalformedJson(msg)
    return result


def _bounded_int(digits: str) -> int:
    # Check the length first: int() is slow for a million digits and raises a different error.
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
# check_circular=False saves time, and values that were parsed from JSON cannot be circular.
_PLAIN = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False, check_circular=False
)


def canonical(value: Json) -> bytes:
    """Return the canonical form (RFC 8785), which has the same bytes in every implementation."""
    # If there are no floats or non-ASCII keys, the C encoder produces the same bytes ten times as fast.
    if _plain(value):
        return _PLAIN.encode(value).encode("utf-8")
    return rfc8785.dumps(value)


def _plain(value: Json) -> bool:
    # Uses loops instead of all(), and no calls for atoms, because this runs for every body and event.
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
    """Return the content hash of a breakpoint. Files are included as their digests."""
    return sha256(b"assent-content/1\n" + canonical(content))


def terms_digest(terms: Mapping[str, Json]) -> str:
    """Return the digest of a breakpoint's terms, which contain nothing that needs special canonicalization."""
    return sha256(b"assent-terms/1\n" + _PLAIN.encode(terms).encode("utf-8"))


def link(previous: str, event: Mapping[str, Json]) -> str:
    """Return the hash that links an event to the previous one in its chain."""
    return seal(previous, {**event, "metadata": sha256(canonical(event.get("metadata", {})))})


def seal(previous: str, event: Mapping[str, Json]) -> str:
    """Hash an event whose metadata is replaced by its digest, so that the chain stays verifiable after a purge."""
    # All keys are ASCII and no value is a float, so the plain encoder produces the canonical form.
    return sha256(f"assent-event/1\n{previous}\n{_PLAIN.encode(event)}".encode())
