"""The commit subject check: subjects are imperative, short and without a prefix."""

import pytest

from tools.commit_message import complaints


@pytest.mark.parametrize(
    "message",
    [
        "Add a glossary",
        "Speed up the first request",
        "Lock the database file; show mail that failed\n\nWhy it matters.",
        "Merge branch 'x' into main, whose name is much longer than sixty characters are",
        "Fix a typo\n# a comment of git\n",
    ],
)
def test_a_valid_subject_is_accepted(message: str) -> None:
    assert list(complaints(message)) == []


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ("", "empty"),
        ("# only comments", "empty"),
        ("Added a glossary", "imperative"),
        ("Adding a glossary", "imperative"),
        ("A gate behind || is no gate that is well", "imperative"),
        ("What was tried again of the domain", "imperative"),
        ("fix: typo", "prefix"),
        ("fix the typo", "lowercase"),
        ("Fix the typo.", "period"),
        ("Fix " + "x" * 60, "64 characters"),
        ("Fix the typo\nwithout a blank line", "blank line"),
    ],
)
def test_an_invalid_subject_is_rejected_with_the_reason(message: str, complaint: str) -> None:
    assert any(complaint in each for each in complaints(message))
