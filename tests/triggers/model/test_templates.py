"""Templates contain paths into an event. They are filled or rejected, and event content is never executed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.errors import InvalidRequest
from assent.core.patterns.expressions import Attribute, Kind
from assent.triggers.event import EVENT_ATTRIBUTES
from assent.triggers.templates import LONGEST, Hole, check, cut, fill, gaps, holes, spelt

SEEN: dict[str, Any] = {
    "repo": "acme/shop",
    "attempt": 2,
    "title": None,
    "paths": ["a.md", "b.md"],
    "data": {"number": 7, "draft": False, "labels": [{"name": "bug"}], "half": 0.5},
}


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("plain", "plain"),
        ("{{ event.repo }}", "acme/shop"),
        ("{{event.repo}}", "acme/shop"),
        ("  {{ event.attempt }}  ", 2),
        ("{{ event.data.draft }}", False),
        ("{{ event.paths }}", ["a.md", "b.md"]),
        ("{{ event.paths[1] }}", "b.md"),
        ("{{ event.paths[2] }}", None),
        ("{{ event.data.labels[0].name }}", "bug"),
        ("{{ event.data.labels.name }}", None),
        ("{{ event.data.number[0] }}", None),
        ("{{ event.data.nothing.there }}", None),
        ("{{ event.title }}", None),
        ("{{ event.repo }}@{{ event.attempt }}", "acme/shop@2"),
        ("<{{ event.title }}>", "<>"),
        ("draft: {{ event.data.draft }}, {{ event.data.half }}", "draft: false, 0.5"),
        ("in {{ event.paths }}.", "in a.md,b.md."),
        ({"a": ["{{ event.repo }}", 1, None]}, {"a": ["acme/shop", 1, None]}),
        (True, True),
    ],
)
def test_templates_are_filled_with_values_from_an_event(template: object, filled: object) -> None:
    check(template, EVENT_ATTRIBUTES, "/inputs")
    assert fill(template, SEEN) == filled


def test_booleans_in_a_text_are_formatted_as_in_json() -> None:
    assert fill("{{ event.data.yes }}!", {"data": {"yes": True}}) == "true!"


def test_null_in_a_list_is_formatted_as_an_empty_string() -> None:
    assert fill("in {{ event.paths }}", {"paths": ["a", None, "b"]}) == "in a,,b"
    assert fill("in {{ event.paths }}", {"paths": [None]}) == "in "


def test_values_from_an_event_are_not_interpreted_as_templates() -> None:
    assert fill("{{ event.repo }}!", {"repo": "{{ event.title }}", "title": "secret"}) == "{{ event.title }}!"


def test_long_values_are_truncated() -> None:
    exact, longer = "x" * LONGEST, "x" * (LONGEST + 1)
    assert fill("{{ event.title }}", {"title": exact}) == exact
    assert fill("{{ event.title }}", {"title": longer}) == exact + "…"
    assert fill("a {{ event.title }}", {"title": longer}) == f"a {exact}…"


@pytest.mark.parametrize(
    ("template", "place", "said"),
    [
        ("{{ event.repo", "/inputs", "unmatched"),
        ("event.repo }}", "/inputs", "unmatched"),
        ("{{ repo }}", "/inputs", "is not a path"),
        ("{{ event }}", "/inputs", "is not a path"),
        ("{{ event.repo | upper }}", "/inputs", "is not a path"),
        ("{{ 1 + 1 }}", "/inputs", "is not a path"),
        ("{{ event.rep }}", "/inputs", "events do not have a field named rep"),
        ("{{ event.repo.name }}", "/inputs", "repo is a single value"),
        ({"a": {"b": ["fine", "{{ event.rep }}"]}}, "/inputs/a/b/1", "events do not have a field named rep"),
    ],
)
def test_templates_that_can_never_be_filled_are_rejected(template: object, place: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said) as refused:
        check(template, EVENT_ATTRIBUTES, "/inputs")
    assert refused.value.message.startswith(place)


@given(st.text(), st.dictionaries(st.sampled_from(["repo", "title", "data"]), st.text()))
def test_filling_a_template_never_fails(text: str, seen: dict[str, Any]) -> None:
    fill(text, seen)


FEW = {
    "repo": Attribute(kind=Kind.TEXT),
    "paths": Attribute(kind=Kind.LIST),
    "data": Attribute(kind=Kind.OBJECT),
    "attempt": Attribute(kind=Kind.NUMBER),
}


def test_every_placeholder_is_found_with_its_path() -> None:
    assert holes("a {{ event.repo }} b {{event.data.x-y[12].z}} {{\tevent.paths[0]\n}}", FEW) == [
        Hole("event.repo", ("repo",)),
        Hole("event.data.x-y[12].z", ("data", "x-y", 12, "z")),
        Hole("event.paths[0]", ("paths", 0)),
    ]
    assert holes("no place at all, not even { here }", FEW) == []
    assert holes("}{{ event.repo }}}", FEW) == [Hole("event.repo", ("repo",))]
    assert fill("}{{ event.repo }}}", {"repo": "shop"}) == "}shop}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ event.rep }}", "events do not have a field named rep; available fields: attempt, data, paths, repo"),
        ("{{ event[0] }}", "events do not have a field named 0; available fields: attempt, data, paths, repo"),
        ("{{ event.repo[0] }}", "repo is a single value and does not have fields"),
        ("{{ event.attempt.x.y }}", "attempt is a single value and does not have fields"),
        ("{{ event.data[12345] }}", "{{ event.data[12345] }} is not a path, for example {{ event.repo }} or "),
        ("{{ event.data.1 }}", "{{ event.data.1 }} is not a path, for example {{ event.repo }} or "),
        ("{{}}", "{{}} is not a path, for example {{ event.repo }} or "),
        ("{{ event.repo }} }}", "has an unmatched {{ or }}"),
        ("{{ event.repo }} {{", "has an unmatched {{ or }}"),
    ],
)
def test_the_error_for_an_invalid_path_explains_the_problem(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r".+") as refused:
        holes(text, FEW)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize("value", [None, 7, True, [], {}, [1, {"a": None}], ("{{ event.repo }}",)])
def test_a_value_without_text_is_not_a_template(value: object) -> None:
    check(value, FEW, "/inputs")
    assert fill(value, {"repo": "r"}) == (["r"] if isinstance(value, tuple) else value)


def test_an_invalid_template_is_detected_at_any_depth() -> None:
    for wrong, place in (
        ({"a": 1, "b": "{{ x }}"}, "/b"),
        ([1, ["{{ x }}"]], "/1/0"),
        ([{"a": {"b": "{{ x }}"}}], "/0/a/b"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            check(wrong, FEW, "")
        assert refused.value.message.startswith(f"{place}: {{{{ x }}}} is not a path")


def test_a_value_from_an_event_has_at_most_4000_characters() -> None:
    assert cut("x" * 4_000) == "x" * 4_000
    assert cut("x" * 4_001) == "x" * 4_000 + "…"
    assert cut(["x" * 5_000]) == ["x" * 5_000]


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("plain", []),
        ("{{ event.repo }}@{{ event.attempt }}", []),
        ("{{ event.title }}", ["event.title"]),
        ("{{ event.repo }}/{{ event.data.x }}/{{ event.paths[2] }}", ["event.data.x", "event.paths[2]"]),
        ("{{ event.data.draft }}{{ event.data.zero }}", []),
        ("{{ event.data.none }}{{ event.data.text }}{{ event.data.list }}{{ event.data.object }}",
         ["event.data.none", "event.data.text", "event.data.list", "event.data.object"]),
    ],
)  # fmt: skip
def test_missing_values_are_listed_by_their_paths(text: str, missing: list[str]) -> None:
    empty: dict[str, Any] = {"none": None, "text": "", "list": [], "object": {}, "zero": 0}
    assert gaps(text, SEEN | {"data": SEEN["data"] | empty}) == missing


@pytest.mark.parametrize(
    ("text", "filled", "whole"),
    [
        ("plain", "plain", True),
        ("", "", True),
        ("{{ event.repo }}@{{ event.attempt }}", "acme/shop@2", True),
        ("{{ event.title }}", "", False),
        ("{{ event.repo }}@{{ event.title }}", "acme/shop@", False),
        ("{{ event.title }}@{{ event.repo }}", "@acme/shop", False),
        ("{{ event.data.draft }}", "false", True),
        ("{{ event.paths }}", "a.md,b.md", True),
        ("  {{ event.attempt }} ", "  2 ", True),
    ],
)
def test_filling_a_text_reports_whether_all_values_were_present(text: str, filled: str, *, whole: bool) -> None:
    assert spelt(text, SEEN) == (filled, whole)


def test_a_filled_text_is_neither_truncated_nor_interpreted_again() -> None:
    long = "x" * 9_000
    assert spelt("{{ event.title }}", {"title": long}) == (long, True)
    assert spelt("{{ event.title }}!", {"title": "{{ event.repo }}", "repo": "r"}) == ("{{ event.repo }}!", True)


@given(st.text(st.characters(exclude_characters="{}")), st.text())
def test_text_around_a_placeholder_is_unchanged(around: str, title: str) -> None:
    assert spelt(f"{around}{{{{ event.title }}}}{around}", {"title": title}) == (
        f"{around}{title}{around}",
        bool(title),
    )
    assert fill(f"-{around}{{{{ event.title }}}}", {"title": title}) == f"-{around}{title}"
