"""Globs against a reference that tries everything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.domain.patterns import glob_matches

alphabet = st.text("ab.*", max_size=9)
names = st.text("ab.", max_size=9)


def reference(pattern: str, text: str) -> bool:
    """Match the plain way: a table over every prefix of both."""
    reachable = {0}
    for symbol in pattern:
        if symbol == "*":
            reachable = {end for start in reachable for end in range(start, len(text) + 1)}
        else:
            reachable = {start + 1 for start in reachable if text[start : start + 1] == symbol}
    return len(text) in reachable


@given(alphabet, names)
def test_a_glob_matches_what_the_reference_matches(pattern: str, text: str) -> None:
    assert glob_matches(pattern, text) == reference(pattern, text)


@given(names, st.data())
def test_a_name_with_pieces_starred_out_still_matches(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assert glob_matches(f"{text[:start]}*{text[end:]}", text)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("*", "", True),
        ("*", "anything.at-all", True),
        ("", "", True),
        ("", "a", False),
        ("confirm.*", "confirm.deploy.production", True),
        ("confirm.*", "confirm", False),
        ("confirm.*", "xconfirm.a", False),
        ("*.production", "deploy.production", True),
        ("*.production", "deploy.production.eu", False),
        ("a*a", "a", False),
        ("Deploy", "deploy", False),
        ("a?c", "abc", False),
        ("[ab]", "a", False),
        ("a+", "aa", False),
        ("\\*", "\\x", True),
    ],
)
def test_globs_are_anchored_literal_and_case_sensitive(pattern: str, text: str, expected: bool) -> None:  # noqa: FBT001
    assert glob_matches(pattern, text) is expected


def test_a_hostile_glob_is_matched_at_once() -> None:
    assert not glob_matches("*a" * 1000 + "b", "a" * 5000)
