"""Valid saved views and how they are stored."""

import pytest

from assent.breakpoints.saved_views import MOST, SavedView, saved_view
from assent.core.errors import InvalidRequest

AT = 1_800_000_000_000_000


@pytest.mark.parametrize(
    ("name", "query", "kept"),
    [
        ("prod", "tag=prod&mine=1", ("prod", "tag=prod&mine=1")),
        ("  to do \n", "?tag=prod", ("to do", "tag=prod")),
        ("x", "", ("x", "")),
        ("Zölle 🔥", "q=%C3%B6", ("Zölle 🔥", "q=%C3%B6")),
        ("x", "??a", ("x", "?a")),
        ("x", "!a~", ("x", "!a~")),
    ],
)
def test_surrounding_whitespace_and_a_leading_question_mark_are_removed(
    name: str, query: str, kept: tuple[str, str]
) -> None:
    assert saved_view(name, query, at=AT) == SavedView(*kept, AT)


def test_names_are_limited_to_60_characters_and_queries_to_2000() -> None:
    view = saved_view(" " + "n" * 60 + " ", "?" + "q" * 2_000, at=AT)
    assert (len(view.name), len(view.query)) == (60, 2_000)


@pytest.mark.parametrize("name", ["", " ", "\n", "n" * 61, "a\nb", "a\u200bb", "a\x00", "a\u202eb", "a\ud800"])
def test_an_unreadable_name_is_rejected(name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        saved_view(name, "tag=x", at=AT)
    what = "must be 1 to 60 visible characters"
    assert refused.value.details == {"errors": [{"pointer": "/name", "detail": what}]}


@pytest.mark.parametrize("query", ["q" * 2_001, "a b", "a#b", "#", "a\n", "ö", "a\x7f", "a\x00", "\ud800", " "])
def test_an_invalid_query_string_is_rejected(query: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        saved_view("x", query, at=AT)
    what = "must be a URL query string of at most 2000 characters"
    assert refused.value.details == {"errors": [{"pointer": "/query", "detail": what}]}


def test_a_person_can_have_fifty_saved_views() -> None:
    assert MOST == 50
