"""The exact input of each digest, and the limits of accepted JSON."""

import hashlib
import json

import pytest

from assent.core.canonical import (
    GENESIS,
    canonical,
    content_digest,
    is_array,
    is_object,
    link,
    pointer_key,
    pointer_step,
    seal,
    sha256,
    strict_loads,
    terms_digest,
)
from assent.core.errors import MalformedJson


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_every_digest_is_computed_as_documented() -> None:
    """Independent audit programs compute the same digests; see docs/explanation/integrity.md."""
    assert sha256(b"a") == sha("a")
    assert content_digest({"b": 1, "a": "é"}) == sha('assent-content/1\n{"a":"é","b":1}')
    assert terms_digest({"b": 1, "a": "é"}) == sha('assent-terms/1\n{"a":"é","b":1}')
    assert seal("p", {"seq": 1, "at": 2}) == sha('assent-event/1\np\n{"at":2,"seq":1}')
    assert link("p", {"seq": 1, "metadata": {"a": 1}}) == seal("p", {"seq": 1, "metadata": sha('{"a":1}')})
    assert link("p", {"seq": 1}) == link("p", {"seq": 1, "metadata": {}})
    assert GENESIS == "0" * 64


def test_canonical_json_contains_no_whitespace_or_escaped_letters() -> None:
    assert canonical({"b": [1, True, None], "a": "é"}) == '{"a":"é","b":[1,true,null]}'.encode()


@pytest.mark.parametrize(
    "value", [1.0, [1.0], [[1.0]], {"a": 1.0}, {"a": [0, {"b": 1.0}]}, {"é": 1}, {"\U0001f600": 1, "\ufb33": 2}]
)
def test_values_that_the_json_module_formats_differently_are_canonical_at_any_depth(value: object) -> None:
    written = canonical(value).decode()
    assert "1.0" not in written
    assert json.loads(written) == value
    assert written.find("\U0001f600") <= written.find("\ufb33")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": float("nan")}])
def test_nan_and_infinity_have_no_canonical_form(value: object) -> None:
    with pytest.raises(ValueError, match=r".+"):
        canonical(value)


def nested(depth: int, shape: str) -> bytes:
    opening, closing = ("[", "]") if shape == "array" else ('{"a":', "}")
    return f"{opening * depth}1{closing * depth}".encode()


@pytest.mark.parametrize("shape", ["array", "object"])
def test_json_nested_deeper_than_64_levels_is_rejected(shape: str) -> None:
    strict_loads(nested(64, shape))
    with pytest.raises(MalformedJson, match=r"deeper than 64 levels"):
        strict_loads(nested(65, shape))


def test_brackets_in_strings_and_siblings_do_not_count_as_depth() -> None:
    assert len(strict_loads(b"[" + b",".join([b"[]"] * 200) + b"]")) == 200
    assert len(strict_loads(b"[" + b",".join([b"{}"] * 200) + b"]")) == 200
    assert strict_loads(b'["' + b"[" * 100 + b'", "' + b"{" * 100 + b'", "a\\"[["]')[1] == "{" * 100


@pytest.mark.parametrize("shape", ["array", "object"])
def test_a_deep_value_among_many_shallow_ones_is_rejected(shape: str) -> None:
    """The list around the values counts as one level."""
    many = [b"[]", b"{}"] * 100
    for at in (0, 100, 200):
        strict_loads(b"[" + b",".join([*many[:at], nested(63, shape), *many[at:]]) + b"]")
        with pytest.raises(MalformedJson, match=r"deeper than 64 levels"):
            strict_loads(b"[" + b",".join([*many[:at], nested(64, shape), *many[at:]]) + b"]")


def test_only_integers_below_2_to_the_53_are_accepted() -> None:
    assert strict_loads(b"[9007199254740991, -9007199254740991]") == [2**53 - 1, 1 - 2**53]
    for text in (b"9007199254740992", b"-9007199254740992", b"-90071992547409910", b"9" * 5000):
        with pytest.raises(MalformedJson, match=r"outside"):
            strict_loads(text)


def test_parse_errors_describe_the_problem() -> None:
    for text, words in (
        (b'{"a": 1, "b": 2, "b": 3}', "The key 'b' appears twice"),
        (b"[1e999]", "The number 1e999 is out of range"),
        (b"[" + b"9" * 60 + b"e999]", f"The number {'9' * 40} is out of range"),
        (b"[NaN]", "NaN is not valid JSON"),
        (b'["\\u0000"]', "contains NUL"),
        (b'["\\ud800"]', "unpaired surrogate"),
        (b"\xff", "not UTF-8"),
        (b"[1 2]", "at line 1, column 4"),
    ):
        with pytest.raises(MalformedJson) as refused:
            strict_loads(text)
        assert words in refused.value.message


def test_nul_is_rejected_in_values_keys_and_lists_at_any_depth() -> None:
    for text in (b'"\\u0000"', b'["\\u0000"]', b'[["\\u0000"]]', b'{"\\u0000": 1}', b'{"a": [{"b": "\\u0000"}]}'):
        with pytest.raises(MalformedJson, match=r"NUL"):
            strict_loads(text)
    assert strict_loads(b'["\\ud83d\\ude00", "\\u0041"]') == ["\U0001f600", "A"]


def test_only_dicts_are_objects_and_only_lists_and_tuples_are_arrays() -> None:
    assert (is_object({}), is_object([]), is_object("")) == (True, False, False)
    assert (is_array([]), is_array(()), is_array({}), is_array("")) == (True, True, False, False)


@pytest.mark.parametrize(("key", "step"), [("a", "a"), ("a/b", "a~1b"), ("~1/~", "~01~1~0"), ("", ""), (3, "3")])
def test_escaping_a_pointer_step_is_reversible(key: str | int, step: str) -> None:
    assert pointer_step(key) == step
    assert pointer_key(step) == str(key)
