"""Strict JSON parsing, canonical JSON, and digests."""

import json
import math
from random import Random
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from assent.core.canonical import GENESIS, MAX_DEPTH, MAX_INTEGER, canonical, content_digest, link, sha256, strict_loads
from assent.core.errors import MalformedJson

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
integers = st.integers(-MAX_INTEGER, MAX_INTEGER)
floats = st.floats(allow_nan=False, allow_infinity=False)
astral = st.sampled_from('\U0001f600\uffff\U00010000\ue000\u00e9aZ\u2028\x7f\u20ac\ufb33\x1f"\\')
scalars = st.none() | st.booleans() | integers | floats | texts
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(texts | astral | st.text(astral, max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)

REFUSED = {
    "nothing": b"",
    "blanks": b"  ",
    "NaN": b"NaN",
    "NaN inside": b'{"a": [NaN]}',
    "Infinity": b'{"a": Infinity}',
    "-Infinity": b"[-Infinity]",
    "too large a float": b"[1e999]",
    "too small a float": b'{"a": -1e999}',
    "a key twice": b'{"a": 1, "a": 1}',
    "a key twice, deeper": b'[{"x": {"a": 1, "b": 2, "a": 3}}]',
    "a key twice, once escaped": b'{"a": 1, "\\u0061": 2}',
    "a lone high surrogate": b'["\\ud800"]',
    "a lone low surrogate": b'{"a": "x\\udc00y"}',
    "surrogates the wrong way round": b'["\\udc00\\ud800"]',
    "a lone surrogate in a key": b'{"\\ud83d": 1}',
    "a lone surrogate in a nested key": b'[[{"a": {"\\uDBFF": 1}}]]',
    "NUL": b'["\\u0000"]',
    "NUL in a key": b'{"a\\u0000b": 1}',
    "a raw NUL": b'["\x00"]',
    "a raw line feed in a string": b'["a\nb"]',
    "a raw surrogate": b'["\xed\xa0\x80"]',
    "not UTF-8": b'["\xff"]',
    "an overlong encoding": b'["\xc0\xaf"]',
    "Latin-1": '["é"]'.encode("latin-1"),
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "UTF-16 without a mark": '{"a": 1}'.encode("utf-16-le"),
    "UTF-32": '{"a": 1}'.encode("utf-32"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "2^53": b"[9007199254740992]",
    "-2^53": b"[-9007199254740992]",
    "2^64": b"18446744073709551616",
    "a huge integer": b"[" + b"9" * 100_000 + b"]",
    "a huge negative integer": b'{"a": -' + b"1" * 5_000 + b"}",
    "65 levels": b"[" * 65 + b"]" * 65,
    "65 levels of objects": b'{"a":' * 65 + b"1" + b"}" * 65,
    "5,000 levels": b"[" * 5_000 + b"]" * 5_000,
    "100,000 unclosed levels": b"[" * 100_000,
    "levels behind a string with brackets": b'["]]]]]]' + b"]" * 90 + b'",' + b"[" * 65 + b"]" * 66,
    "trailing garbage": b"{} x",
    "two values": b"{}{}",
    "a trailing comma": b"[1,]",
    "single quotes": b"{'a': 1}",
    "a comment": b"[1] // one",
    "an unclosed object": b'{"a": 1',
    "a leading zero": b"[01]",
    "a leading plus": b"[+1]",
    "a bare point": b"[1.]",
    "hexadecimal": b"[0x10]",
    "an unknown escape": b'["\\x41"]',
    "a half escape": b'["\\u12"]',
    "a bare word": b"undefined",
    "an unquoted key": b"{a: 1}",
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_invalid_json_is_rejected(body: bytes) -> None:
    with pytest.raises(MalformedJson):
        strict_loads(body)


ACCEPTED = {
    "64 levels": b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
    "brackets in a string": b'["' + b"[{" * 500 + b'"]',
    "an escaped quote before brackets": b'["\\"' + b"[" * 100 + b'"]',
    "many shallow lists": b"[" + b",".join([b"[]"] * 500) + b"]",
    "an unpaired surrogate": b'["\\ud83d\\ude00"]',
    "2^53 - 1": b"[9007199254740991, -9007199254740991]",
    "the largest float": b"[1.7976931348623157e308]",
    "an underflow": b"[1e-999]",
    "minus zero": b"[-0, -0.0]",
    "blanks around": b' \t\r\n{"a": [1, 2.5, "x", null, true]} \n',
    "the same key in different objects": b'[{"a": 1}, {"a": {"a": 2}}]',
}


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED)
def test_unusual_but_valid_json_is_accepted(body: bytes) -> None:
    assert strict_loads(body) == json.loads(body)


@given(values, st.booleans(), st.sampled_from([None, 1]))
def test_strict_parsing_restores_any_serialized_value(value: Any, ascii_only: bool, indent: int | None) -> None:  # noqa: FBT001
    body = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    assert strict_loads(body) == value


@given(
    st.binary(max_size=40) | st.text(st.sampled_from('[]{}",:0123456789.eE+-tfn\\u \n'), max_size=30).map(str.encode)
)
@example(b'{"a":1}')
def test_accepted_input_is_parsed_exactly_as_the_json_module_parses_it(body: bytes) -> None:
    try:
        value = strict_loads(body)
    except MalformedJson:
        return
    assert value == json.loads(body)
    assert is_strict(value)


def is_strict(value: Any) -> bool:
    if isinstance(value, dict):
        return all(is_strict(each) for pair in value.items() for each in pair)
    if isinstance(value, list):
        return all(map(is_strict, value))
    if isinstance(value, str):
        return "\x00" not in value and not any(0xD800 <= ord(char) <= 0xDFFF for char in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) <= MAX_INTEGER


@given(st.integers())
def test_integers_are_parsed_exactly_or_rejected(number: int) -> None:
    body = str(number).encode()
    if abs(number) <= MAX_INTEGER:
        assert strict_loads(body) == number
    else:
        with pytest.raises(MalformedJson):
            strict_loads(body)


def test_parse_errors_include_the_line_and_column() -> None:
    with pytest.raises(MalformedJson) as refused:
        strict_loads(b'{"a": 1,\n "b": }')
    assert (refused.value.details["line"], refused.value.details["column"]) == (2, 7)


@given(values)
def test_canonical_output_conforms_to_rfc_8785_for_every_value(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@given(st.dictionaries(astral | texts, integers, max_size=6))
def test_canonical_json_sorts_keys_as_rfc_8785_requires(value: dict[str, int]) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@given(values)
def test_parsing_canonical_json_restores_the_value(value: Any) -> None:
    assert json.loads(canonical(value), parse_int=float) == value


@given(st.dictionaries(texts, values, max_size=5), st.randoms(use_true_random=False))
def test_key_order_does_not_change_the_digest(value: dict[str, Any], random: Random) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert content_digest(dict(items)) == content_digest(value)


@given(st.dictionaries(texts, values, max_size=4), st.dictionaries(texts, values, max_size=4))
def test_different_content_has_different_digests(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (content_digest(one) == content_digest(other)) == (rfc8785.dumps(one) == rfc8785.dumps(other))


def test_content_and_event_digests_of_the_same_value_differ() -> None:
    value = {"a": 1}
    assert len({content_digest(value), link(GENESIS, value), sha256(canonical(value))}) == 3


@given(texts, texts)
def test_a_link_hash_depends_on_the_previous_link_and_the_event(one: str, other: str) -> None:
    first, second = link(GENESIS, {"comment": one}), link(GENESIS, {"comment": other})
    assert (first == second) == (one == other)
    assert (link(first, {"a": 1}) == link(second, {"a": 1})) == (one == other)
