"""Templates: paths into an event, filled or refused; nothing an event says is ever run."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.domain.errors import InvalidRequest
from assent.domain.templates import LONGEST, check, fill
from assent.domain.trigger_events import EVENT_ATTRIBUTES

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
def test_templates_are_filled(template: object, filled: object) -> None:
    check(template, EVENT_ATTRIBUTES, "/inputs")
    assert fill(template, SEEN) == filled


def test_true_in_a_text_is_written_as_in_json() -> None:
    assert fill("{{ event.data.yes }}!", {"data": {"yes": True}}) == "true!"


def test_what_an_event_says_is_not_read_again() -> None:
    assert fill("{{ event.repo }}!", {"repo": "{{ event.title }}", "title": "secret"}) == "{{ event.title }}!"


def test_long_texts_are_cut() -> None:
    exact, longer = "x" * LONGEST, "x" * (LONGEST + 1)
    assert fill("{{ event.title }}", {"title": exact}) == exact
    assert fill("{{ event.title }}", {"title": longer}) == exact + "…"
    assert fill("a {{ event.title }}", {"title": longer}) == f"a {exact}…"


@pytest.mark.parametrize(
    ("template", "place", "said"),
    [
        ("{{ event.repo", "/inputs", "without its other half"),
        ("event.repo }}", "/inputs", "without its other half"),
        ("{{ repo }}", "/inputs", "is not a path"),
        ("{{ event }}", "/inputs", "is not a path"),
        ("{{ event.repo | upper }}", "/inputs", "is not a path"),
        ("{{ 1 + 1 }}", "/inputs", "is not a path"),
        ("{{ event.rep }}", "/inputs", "events have no rep"),
        ("{{ event.repo.name }}", "/inputs", "repo is a single value"),
        ({"a": {"b": ["fine", "{{ event.rep }}"]}}, "/inputs/a/b/1", "events have no rep"),
    ],
)
def test_templates_that_could_never_be_filled_are_refused(template: object, place: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said) as refused:
        check(template, EVENT_ATTRIBUTES, "/inputs")
    assert refused.value.message.startswith(place)


@given(st.text(), st.dictionaries(st.sampled_from(["repo", "title", "data"]), st.text()))
def test_filling_never_fails(text: str, seen: dict[str, Any]) -> None:
    fill(text, seen)
