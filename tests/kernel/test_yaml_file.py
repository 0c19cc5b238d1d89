"""YAML is parsed as people expect, with the location of every value."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.kernel.yaml_file import LARGEST, Place, Unreadable, read

WORDS = st.text("abcxyz on_yes.-:#'\"\\/{}[]", max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)
BOMB = b"a: &a [1,2,3,4,5,6,7,8,9]\n" + b"".join(
    b"%c: &%c [%s]\n" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(8)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on: push", {"on": "push"}),
        ("{on: 1, off: 2, yes: 3, no: 4, y: 5}", {"on": 1, "off": 2, "yes": 3, "no": 4, "y": 5}),
        ("a: on", {"a": "on"}),
        ("a: no", {"a": "no"}),
        ("a: True", {"a": True}),
        ("a: ~", {"a": None}),
        ("a:", {"a": None}),
        ("1: a", {"1": "a"}),
        ("a: 010", {"a": 10}),
        ("a: 0o17", {"a": 15}),
        ("a: 0x1F", {"a": 31}),
        ("a: -1.5e3", {"a": -1500.0}),
        ("a: 12:30", {"a": "12:30"}),
        ("a: 2026-11-16", {"a": "2026-11-16"}),
        ("a: .inf", {"a": ".inf"}),
        ("a: '7'", {"a": "7"}),
        ("a: 30 2 * * 1-5", {"a": "30 2 * * 1-5"}),
        ("", {}),
        ("# only a remark\n", {}),
    ],
)  # fmt: skip
def test_only_true_and_false_are_booleans_and_every_key_is_text(text: str, value: Any) -> None:
    assert read(text.encode()).value == value


@given(VALUES)
def test_json_is_parsed_to_the_same_values(value: Any) -> None:
    found = read(json.dumps({"value": value}).encode()).value["value"]
    assert (found, json.dumps(found)) == (value, json.dumps(value))


def test_every_value_has_a_line_and_a_column() -> None:
    places = read(b"triggers:\n  - id: a\n    on: >\n      github.push\n  - {id: b}\n").places
    assert places["/triggers"] == Place(1, 1)
    assert places["/triggers/0/on"] == Place(3, 5)
    assert places["/triggers/1"] == Place(5, 5)
    assert places["/triggers/1/id"] == Place(5, 6)


def test_a_slash_in_a_key_is_escaped_in_its_pointer() -> None:
    assert "/a~1b~0" in read(b"a/b~: 1").places


def test_merging_adds_only_missing_keys_with_their_original_line() -> None:
    document = read(b"x: &x {a: 1, b: {c: 1}}\ny:\n  b: 2\n  <<: *x\n")
    assert document.value["y"] == {"a": 1, "b": 2}
    assert (document.places["/y/a"].line, document.places["/y/b"].line) == (1, 3)
    assert "/y/b/c" not in document.places


def test_the_first_of_several_merged_mappings_takes_precedence() -> None:
    assert read(b"x: &x {a: 1}\ny: &y {a: 2, b: 2}\nz: {<<: [*x, *y]}\n").value["z"] == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: 1\nb: 2\na: 3", "line 3, column 1: a is defined twice, first on line 1"),
        (b"x:\n  - {on: 1, 'on': 2}", "line 2, column 13: on is defined twice, first on line 2"),
        (b"a: [", "line 1, column 5: "),
        (b"a: *b", "line 1, column 4: found undefined alias 'b'"),
        (
            b"a: !!python/name:os.system x",
            "line 1, column 4: the tag tag:yaml.org,2002:python/name:os.system is not supported",
        ),
        (b"a: !!binary aGk=", "line 1, column 4: "),
        (b"a: !!int x", "line 1, column 4: x is not a supported number"),
        (b"a: 1e999", "line 1, column 4: "),
        (b"? [1]\n: 2", "line 1, column 3: a key must be a plain string"),
        (b"<<: 1", "line 1, column 5: << requires a mapping"),
        (b"---\na: 1\n---\nb: 2", "line 3, column 1: "),
        (b"- &a [*a]", "line 1, column 3: is nested more than 50 levels deep"),
        (b"[" * 5000, "is nested too deeply"),
        (BOMB, "line 1, column 10: expands to more than 100,000 values"),
        (b"a: \xff", "is not UTF-8 text"),
        (b"a: \x01", "unacceptable character"),
        (b'a: "\\0"', "line 1, column 4: contains a character that cannot be stored"),
        (b"a" * (LARGEST + 1), "is larger than 1,024 KiB"),
    ],
)  # fmt: skip
def test_the_error_for_unsupported_yaml_states_its_location(content: bytes, said: str) -> None:
    with pytest.raises(Unreadable) as refused:
        read(content)
    assert str(refused.value).startswith(said)
