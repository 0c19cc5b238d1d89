"""The building blocks of all checks: locations, values, and the wording of findings."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.agents.doctor.findings import (
    TOKEN,
    URL,
    Access,
    Document,
    Finding,
    Machine,
    Place,
    Severity,
    access_findings,
    at,
    effective,
    fine,
    is_persons,
    items,
    problem,
    same_host,
    same_server,
    split,
    texts,
    unreadable,
    warning,
    whole_number,
)
from tests.agents.doctor.test_checkup import AGENT, PERSON, SERVICE, resolved

HERE = Place("/s.json", "/hooks")


def test_variable_names_and_severities_are_stable() -> None:
    assert (TOKEN, URL) == ("ASSENT_TOKEN", "ASSENT_URL")
    assert [each.value for each in Severity] == ["problem", "warning", "ok"]


@given(st.lists(st.text(max_size=6), min_size=1, max_size=4))
def test_a_pointer_resolves_to_the_value_it_was_created_for(keys: list[str]) -> None:
    content: Any = "found"
    for key in reversed(keys):
        content = {key: content}
    pointer = Document(path="f", content=content).place.at(*keys).pointer
    assert pointer is not None
    assert resolved(content, pointer) == "found"


@pytest.mark.parametrize(
    ("place", "keys", "pointer"),
    [
        (Place("f"), ("a",), "/a"),
        (Place("f", ""), ("a", 1, "b"), "/a/1/b"),
        (Place("f", "/x/0"), ("y",), "/x/0/y"),
        (Place("f"), ("~/x/~",), "/~0~1x~1~0"),
        (Place("f", "/x"), (), "/x"),
    ],
)
def test_keys_can_be_appended_to_a_location(place: Place, keys: tuple[str | int, ...], pointer: str) -> None:
    assert place.at(*keys) == Place("f", pointer)


def test_a_new_document_points_to_its_root_and_has_defaults() -> None:
    bare = Document(path="f")
    assert (bare.place, bare.content, bare.managed, bare.trouble) == (Place("f", ""), None, False, "")


def test_a_machine_has_no_environment_server_or_project_by_default() -> None:
    bare = Machine()
    assert (bare.env, bare.server, bare.project) == ({}, "", "")


@pytest.mark.parametrize(("make", "severity"), [(problem, Severity.PROBLEM), (warning, Severity.WARNING)])
def test_problems_and_warnings_have_a_location_and_a_remedy(make: Any, severity: Severity) -> None:
    told = make("some-check", HERE, "It is wrong.", "Mend it.")
    assert told == Finding(check="some-check", severity=severity, place=HERE, what="It is wrong.", todo="Mend it.")


def test_an_ok_finding_has_no_remedy() -> None:
    told = fine("some-check", HERE, "It is right.")
    assert (told.check, told.severity, told.place, told.what, told.todo) == (
        *("some-check", Severity.OK, HERE, "It is right."),
        "",
    )


@pytest.mark.parametrize(
    ("keys", "found"),
    [((), {"a": {"b": 1}}), (("a",), {"b": 1}), (("a", "b"), 1), (("a", "c"), None), (("a", "b", "c"), None)],
)
def test_at_looks_up_nested_keys_and_returns_none_for_missing_ones(keys: tuple[str, ...], found: Any) -> None:
    assert at({"a": {"b": 1}}, *keys) == found
    assert at([1], *keys) == ([1] if not keys else None)


@pytest.mark.parametrize("other", [None, 7, "text", [["a", "b"]], True])
def test_values_of_the_wrong_type_have_no_members_or_items(other: Any) -> None:
    assert texts(other) == {}
    assert list(items(other)) == (other if isinstance(other, list) else [])
    assert list(items({"a": 1})) == []


def test_only_string_members_are_returned_as_texts() -> None:
    assert texts({"a": "1", "b": 2, "c": None, "d": "", "e": ["x"]}) == {"a": "1", "d": ""}


def test_the_last_document_with_a_value_determines_the_setting() -> None:
    said: list[Any] = [{"x": 1}, {"x": 2}, {"x": None}, {}, 7]
    documents = [Document(path=str(n), content=content) for n, content in enumerate(said)]
    assert effective(documents, "x") == (Place("1", "/x"), 2)
    assert effective(documents, "y") is None
    assert effective([], "x") is None
    assert effective([Document(path="f", content={"x": False})], "x") == (Place("f", "/x"), False)


@pytest.mark.parametrize(
    ("url", "other", "same"),
    [
        ("http://h", "http://h:80", True),
        ("http://h", "http://h:81", False),
        ("http://h", "http://h:79", False),
        ("http://h", "http://h:443", False),
        ("https://h", "https://h:443", True),
        ("https://h", "https://h:444", False),
        ("https://h", "https://h:442", False),
        ("http://h:1", "http://g:1", False),
        ("http://h:99999", "http://h:99999", True),
        ("http://h:99999", "http://h", False),
    ],
)
def test_each_scheme_has_its_own_default_port(url: str, other: str, *, same: bool) -> None:
    assert same_server(url, other) is same
    assert same_server(other, url) is same


@pytest.mark.parametrize(
    ("url", "other", "same"),
    [
        ("http://h:1/mcp", "https://h", True),
        ("http://H", "http://h", True),
        ("http://h", "http://g", False),
        ("http://127.0.0.1:7374/mcp", "http://127.0.0.1:7373", True),
        ("http://127.0.0.1", "http://localhost", False),
        ("http://[", "http://h", False),
    ],
)
def test_hosts_are_compared_without_their_ports(url: str, other: str, *, same: bool) -> None:
    assert same_host(url, other) is same


@pytest.mark.parametrize("url", ["http://[", "http://[::1", "//[x]y"])
def test_splitting_an_invalid_address_yields_empty_parts(url: str) -> None:
    parts = split(url)
    assert (parts.scheme, parts.netloc, parts.path, parts.query) == ("", "", "", "")
    assert split("https://h/p?q=1")[:4] == ("https", "h", "/p", "q=1")


@given(st.text(max_size=30))
def test_any_text_can_be_compared_as_an_address(url: str) -> None:
    assert same_server(url, url)
    assert same_host(url, url)


@given(st.text(max_size=16) | st.integers(0, 10**13).map(str))
def test_only_up_to_twelve_digits_are_parsed_as_a_number(text: str) -> None:
    number = whole_number(text)
    assert (number is not None) == (0 < len(text) <= 12 and all(sign in "0123456789" for sign in text))
    assert number is None or number == int(text)


@pytest.mark.parametrize("text", ["²", "1²", "1.0", "1e3", " 1", "1_000", "+1", "0x1", "9" * 5000, "abc"])
def test_text_that_only_resembles_a_number_is_not_parsed(text: str) -> None:
    assert whole_number(text) is None


@pytest.mark.parametrize(("token", "persons"), [(PERSON, True), ("astp_", True), (AGENT, False), (SERVICE, False)])
def test_a_personal_token_is_recognized_by_its_prefix(token: str, *, persons: bool) -> None:
    assert is_persons(token) is persons


@pytest.mark.parametrize(
    ("token", "what", "todo"),
    [
        (PERSON[:-1], "not a valid Assent token", "Copy the token again"),
        (PERSON, "a person's token", "assent token create --kind agent"),
        (SERVICE, "is not an agent token", "assent token create --kind agent"),
    ],
    ids=["cut off", "person", "service"],
)
def test_a_wrong_token_is_reported_with_its_location_and_a_remedy(token: str, what: str, todo: str) -> None:
    (found,) = access_findings(Access(HERE, token))
    assert found.place == HERE
    assert what in found.what
    assert todo in found.todo


def test_an_unreadable_file_is_reported_with_the_reason() -> None:
    found = unreadable(Document(path="/x.json", trouble="it is not a file"))
    assert (found.check, found.severity, found.place) == ("unreadable", Severity.PROBLEM, Place("/x.json"))
    assert "(it is not a file)" in found.what
    assert "one JSON object" in found.todo
