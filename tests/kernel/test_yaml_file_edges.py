"""Exact limits of the accepted YAML, and the locations in errors."""

from typing import Any

import pytest

from assent.kernel.yaml_file import Place, Unreadable, read


def refused(content: bytes) -> Unreadable:
    with pytest.raises(Unreadable) as caught:
        read(content)
    return caught.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None), ("Null", None), ("NULL", None), ("~", None), ("", None), ("nULL", "nULL"), ("nil", "nil"),
        ("true", True), ("True", True), ("TRUE", True), ("tRUE", "tRUE"), ("truely", "truely"),
        ("false", False), ("False", False), ("FALSE", False), ("fALSE", "fALSE"),
        ("0", 0), ("7", 7), ("-7", -7), ("+7", 7), ("007", 7), ("1_000", "1_000"), ("1 000", "1 000"),
        ("0o17", 15), ("0o18", "0o18"), ("0O17", "0O17"), ("0x1f", 31), ("0XFF", "0XFF"), ("-0x1F", "-0x1F"),
        ("0b1", "0b1"), ("9" * 30, int("9" * 30)),
        ("1.5", 1.5), ("-1.5", -1.5), ("+.5", 0.5), (".5", 0.5), ("1.", 1.0), ("1e3", 1000.0), ("1E-1", 0.1),
        ("-.5e+1", -5.0), ("5.0", 5.0), (".", "."), ("e3", "e3"), ("1e", "1e"), (".nan", ".nan"),
        ("<<", "<<"), ("< <", "< <"), ("'null'", "null"), ('"true"', "true"), ("'1'", "1"), ("'<<'", "<<"),
    ],
)  # fmt: skip
def test_a_plain_scalar_follows_the_core_schema(text: str, value: Any) -> None:
    found = read(f"a: {text}\nb:\n  - {text}".encode()).value
    assert found == {"a": value, "b": [value]}
    assert type(found["a"]) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("!!str 1", "1"), ("!!str true", "true"), ("!!str", ""), ("!!int '7'", 7), ("!!int 0o17", 15),
        ("!!int 0x1F", 31), ("!!int 010", 10), ("!!float 1", 1.0), ("!!null x", None), ("!!bool TRUE", True),
        ("!!bool false", False), ("!!map {b: 1}", {"b": 1}), ("!!seq [1]", [1]),
    ],
)  # fmt: skip
def test_values_can_have_an_explicit_type_tag(text: str, value: Any) -> None:
    found = read(f"a: {text}".encode()).value["a"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("!!map [1]", "the tag tag:yaml.org,2002:map is not supported"),
        ("!!seq {b: 1}", "the tag tag:yaml.org,2002:seq is not supported"),
        ("!!set {b}", "the tag tag:yaml.org,2002:set is not supported"),
        ("!!omap [b: 1]", "the tag tag:yaml.org,2002:omap is not supported"),
        ("!!bool yes", "the tag tag:yaml.org,2002:bool is not supported"),
        ("!!bool ''", "the tag tag:yaml.org,2002:bool is not supported"),
        ("!!timestamp 2026-11-16", "the tag tag:yaml.org,2002:timestamp is not supported"),
        ("!!float nan", "the tag tag:yaml.org,2002:float is not supported"),
        ("!!float -inf", "the tag tag:yaml.org,2002:float is not supported"),
        ("!mine 1", "the tag !mine is not supported"),
        ("!!int 0b1", "0b1 is not a supported number"),
        ("!!int 1.5", "1.5 is not a supported number"),
        ("!!int ''", " is not a supported number"),
        ("!!float x", "x is not a supported number"),
        ("1" * 5_000, "1" * 40 + " is not a supported number"),
    ],
)
def test_a_type_tag_must_match_the_value(text: str, said: str) -> None:
    error = refused(f"- 1\n- {text}".encode())
    assert (error.text, error.place) == (said, Place(2, 3))
    assert str(error) == f"line 2, column 3: {said}"


@pytest.mark.parametrize(
    ("text", "value"), [("null", {}), ("~", {}), ("[]", []), ("false", False), ("0", 0), ("a", "a")]
)
def test_only_an_empty_document_is_read_as_an_empty_mapping(text: str, value: Any) -> None:
    document = read(text.encode())
    assert (document.value, document.places) == (value, {"": Place(1, 1)})
    assert read(b"").places == {}


def test_a_byte_order_mark_is_ignored() -> None:
    assert read("\ufeffa: 1".encode()).value == {"a": 1}


def test_files_larger_than_one_mebibyte_are_rejected() -> None:
    assert str(refused(b"\xff" * 1_048_576)) == "is not UTF-8 text"
    error = refused(b"\xff" * 1_048_577)
    assert (str(error), error.text, error.place) == ("is larger than 1,024 KiB", "is larger than 1,024 KiB", None)


def standing_for(values: int) -> bytes:
    """Return a list that expands to this many values: 100 for each repeated inner list, and 1 for the outer list."""
    whole, rest = divmod(values - 1, 100)
    last = f", [{', '.join('0' * (rest - 1))}]" if rest else ""
    return f"[&a [{', '.join('0' * 99)}]{', *a' * (whole - 1)}{last}]".encode()


def test_files_that_expand_to_100000_values_are_accepted() -> None:
    found = read(standing_for(100_000)).value
    assert len(found) + sum(map(len, found)) + 1 == 100_000


def test_files_that_expand_to_more_than_100000_values_are_rejected() -> None:
    assert refused(standing_for(100_001)).text == "expands to more than 100,000 values"


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}")])
def test_more_than_50_levels_of_nesting_are_rejected(opening: str, closing: str) -> None:
    def nested(levels: int) -> bytes:
        return f"{opening * levels}1{closing * levels}".encode()

    read(nested(50))
    error = refused(nested(51))
    assert (error.text, error.place) == ("is nested more than 50 levels deep", Place(1, 51 * len(opening) + 1))


def test_a_mapping_that_merges_itself_is_rejected_as_too_deep() -> None:
    assert refused(b"x: &x {<<: *x}").text == "is nested more than 50 levels deep"
    assert refused(b"x: &x {<<: [*x]}").text == "is nested more than 50 levels deep"


def test_a_merged_mapping_counts_as_one_level_deeper() -> None:
    read(f"{'[' * 48}{{<<: {{a: 1}}}}{']' * 48}".encode())
    error = refused(f"{'[' * 49}{{<<: {{a: 1}}}}{']' * 49}".encode())
    assert error.text == "is nested more than 50 levels deep"


@pytest.mark.parametrize(
    ("content", "said", "place"),
    [
        (b"a: b: c", "mapping values are not allowed here", Place(1, 5)),
        (
            b"a: 1\nb: [",
            "while parsing a flow node, expected the node content, but found '<stream end>'",
            Place(2, 5),
        ),
        (b"- 1\n- *b", "found undefined alias 'b'", Place(2, 3)),
        (b"a: 1\n? [1]\n: 2", "a key must be a plain string", Place(2, 3)),
        (b"a: 1\n<<: [{}, 1]", "<< requires a mapping, or a list of mappings", Place(2, 10)),
        (b"a: 1\n<<:", "<< requires a mapping, or a list of mappings", Place(2, 4)),
        (b"a: 1\nb: {c: 1,\n c: 2}", "c is defined twice, first on line 2", Place(3, 2)),
        (b"a: \x01", "unacceptable character #x0001: special characters are not allowed", None),
        (b"[" * 1000, "is nested too deeply", None),
    ],
)
def test_an_error_states_its_reason_and_location(content: bytes, said: str, place: Place | None) -> None:
    error = refused(content)
    assert (error.text, error.place) == (said, place)
    assert str(error) == (f"line {place.line}, column {place.column}: {said}" if place else said)


@pytest.mark.parametrize("mark", ["\\0", "\\x00", "\\ud800", "\\udbff", "\\udc00", "\\udfff"])
def test_characters_that_databases_cannot_store_are_rejected_in_values_and_keys(mark: str) -> None:
    for content, place in (
        (f'a: "b{mark}"', Place(1, 4)),
        (f'- ["{mark}"]', Place(1, 4)),
        (f'"b{mark}": 1', Place(1, 1)),
        (f'a: 1\nb: {{"{mark}": 1}}', Place(2, 5)),
    ):
        error = refused(content.encode())
        assert (error.text, error.place) == ("contains a character that cannot be stored", place)


def test_characters_next_to_the_unsupported_ranges_are_accepted() -> None:
    assert read(b'"\\x01\\ud7ff\\ue000": "\\x01\\ud7ff\\ue000"').value == {"\x01\ud7ff\ue000": "\x01\ud7ff\ue000"}


@pytest.mark.parametrize(
    ("name", "pointer"), [("a", "a"), ("a/b", "a~1b"), ("a~b", "a~0b"), ("~1", "~01"), ("/~/", "~1~0~1"), ("", "")]
)
def test_keys_are_escaped_according_to_json_pointer(name: str, pointer: str) -> None:
    assert read(f'"{name}": 1'.encode()).places == {"": Place(1, 1), f"/{pointer}": Place(1, 1)}


def test_values_are_located_at_their_key_and_items_at_their_start() -> None:
    assert read(b"\na:\n  - 1\n  -   - x\n      - {b: 2}\nc: 3").places == {
        "": Place(2, 1),
        "/a": Place(2, 1),
        "/a/0": Place(3, 5),
        "/a/1": Place(4, 7),
        "/a/1/0": Place(4, 9),
        "/a/1/1": Place(5, 9),
        "/a/1/1/b": Place(5, 10),
        "/c": Place(6, 1),
    }


def test_keys_before_and_after_a_merge_are_parsed() -> None:
    document = read(b"x: &x {a: 1, b: 1, c: 1}\ny:\n  b: 2\n  <<: *x\n  c: 3\n  d: 4")
    assert document.value["y"] == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert {key: each.line for key, each in document.places.items() if key.startswith("/y/")} == {
        "/y/a": 1,
        "/y/b": 3,
        "/y/c": 5,
        "/y/d": 6,
    }


@pytest.mark.parametrize("merged", ["<<: [*x, *y]", "<<: *x\n  <<: *y"])
def test_the_first_merged_mapping_determines_the_value_and_the_line(merged: str) -> None:
    document = read(f"x: &x {{a: {{x: 1}}}}\ny: &y {{a: {{y: 2}}, b: 2}}\nz:\n  {merged}\n".encode())
    assert document.value["z"] == {"a": {"x": 1}, "b": 2}
    assert {key: each.line for key, each in document.places.items() if key.startswith("/z/")} == {
        "/z/a": 1,
        "/z/a/x": 1,
        "/z/b": 2,
    }


def test_a_key_replaces_only_the_merged_value_of_the_same_name() -> None:
    document = read(b"x: &x {b: {c: 1}, bb: {c: 1}}\ny:\n  <<: *x\n  b: {d: 2}\n")
    assert document.value["y"] == {"b": {"d": 2}, "bb": {"c": 1}}
    assert sorted(key for key in document.places if key.startswith("/y/")) == ["/y/b", "/y/b/d", "/y/bb", "/y/bb/c"]
    assert document.places["/y/b/d"] == Place(4, 7)


def test_a_quoted_merge_key_is_an_ordinary_key() -> None:
    assert read(b"'<<': 1").value == {"<<": 1}
