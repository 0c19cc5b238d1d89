"""The end of an undo window, and valid saved views."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.breakpoints.saved_views import SavedView, saved_view
from assent.breakpoints.undo_window import MARGIN, window_end
from assent.core.breakpoint import NEVER
from assent.core.errors import InvalidRequest
from assent.core.timestamps import SECOND

NOW = 1_800_000_000 * SECOND


@pytest.mark.parametrize(
    ("seconds", "left", "window"),
    [
        (6, None, 6 * SECOND),
        (0, None, None),
        (6, 8 * SECOND, 6 * SECOND),
        (6, 8 * SECOND - 1, 6 * SECOND - 1),
        (6, 3 * SECOND, SECOND),
        (6, 2 * SECOND + 1, 1),
        (6, 2 * SECOND, None),
        (6, SECOND, None),
        (6, -SECOND, None),
    ],
)
def test_an_undo_window_ends_after_its_duration_or_before_the_deadline(
    seconds: int, left: int | None, window: int | None
) -> None:
    deadline = NEVER if left is None else NOW + left
    end = window_end(NOW, seconds=seconds, deadline=deadline)
    assert end == (None if window is None else NOW + window)


@given(st.integers(0, 60), st.integers(-100 * SECOND, 100 * SECOND))
def test_no_undo_window_reaches_the_deadline(seconds: int, left: int) -> None:
    end = window_end(NOW, seconds=seconds, deadline=NOW + left)
    assert end is None or NOW < end <= NOW + left - MARGIN


def test_a_saved_view_has_a_name_and_a_query_string() -> None:
    assert saved_view(" Prod, mine ", "?tag=prod&mine=1", at=7) == SavedView("Prod, mine", "tag=prod&mine=1", 7)
    assert saved_view("n" * 60, "q" * 2000, at=7) == SavedView("n" * 60, "q" * 2000, 7)
    assert saved_view("Everything", "", at=7).query == ""


@pytest.mark.parametrize("name", ["", "  ", "n" * 61, "a\nb", "a\u202eb", "a\x00b"])
def test_a_saved_view_without_a_readable_name_is_rejected(name: str) -> None:
    with pytest.raises(InvalidRequest):
        saved_view(name, "tag=prod", at=7)


@pytest.mark.parametrize("query", ["q" * 2001, "q=ä", "q=a b", "q=1#top", "q=\n", "q=\x7f"])
def test_a_query_with_characters_not_allowed_in_urls_is_rejected(query: str) -> None:
    with pytest.raises(InvalidRequest):
        saved_view("Mine", query, at=7)
