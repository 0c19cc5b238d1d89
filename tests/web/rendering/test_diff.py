"""Diffs are parsed as agents write them, including incorrect ones."""

import re

import pytest

from assent.web.rendering.diff import NO_HUNKS, WRONG_COUNTS, diff

GIT = """diff --git a/x.py b/x.py
index 1..2 100644
--- a/x.py
+++ b/x.py
@@ -10,3 +10,4 @@ class X:
 same
-old
+new
+newer
 end
"""


def rows(text: str) -> list[tuple[str, ...]]:
    """Return each line as (kind, old number, new number, sign, text) or (kind, text)."""
    found: list[tuple[str, ...]] = []
    for kind, inner in re.findall(
        r'<div class="(\w+)">(.*?)</div>', str(diff(text).html).removeprefix('<div class="diff">'), re.DOTALL
    ):
        cells = re.findall(r"<span[^>]*>(.*?)</span>", inner, re.DOTALL)
        found.append((kind, *(cells or [inner])))
    return found


def test_diff_lines_have_numbers_and_signs() -> None:
    assert rows(GIT)[4:] == [
        ("hunk", "@@ -10,3 +10,4 @@ class X:"),
        ("same", "10", "10", " ", "same"),
        ("removed", "11", "", "-", "old"),
        ("added", "", "11", "+", "new"),
        ("added", "", "12", "+", "newer"),
        ("same", "12", "13", " ", "end"),
    ]
    assert diff(GIT).notes == ("2 added, 1 removed.",)


def test_each_file_in_a_diff_starts_only_once() -> None:
    assert [row[0] for row in rows(GIT + GIT)].count("start") == 2
    assert [row[0] for row in rows("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n--- c\n+++ d\n@@ -1 +1 @@\n-x\n+y")].count(
        "start"
    ) == 2


def test_wrong_line_counts_are_reported_and_lose_no_lines() -> None:
    text = "--- a\n+++ b\n@@ -1,9 +1,1 @@\n a\n-b\n+c\n+d\n"
    assert WRONG_COUNTS in diff(text).notes
    assert [row[0] for row in rows(text)] == ["start", "header", "hunk", "same", "removed", "added", "added"]


def test_the_next_file_is_found_despite_wrong_line_counts() -> None:
    text = "--- a\n+++ b\n@@ -1,9 +1,9 @@\n-x\n--- c\n+++ d\n@@ -1 +1 @@\n-y\n+z\n"
    assert [row[0] for row in rows(text)][4] == "start"


def test_a_removed_line_of_dashes_is_not_mistaken_for_a_header() -> None:
    text = "--- a\n+++ b\n@@ -1,2 +1,2 @@\n--- x\n+++ y\n same\n"
    assert [row[0] for row in rows(text)][3:] == ["removed", "added", "same"]


@pytest.mark.parametrize(
    "line", ["\\ No newline at end of file", "rename from a", "Binary files a and b differ", "GIT binary patch"]
)
def test_metadata_lines_count_as_neither_added_nor_removed(line: str) -> None:
    assert ("header", line) in rows(f"{GIT}{line}\n")


def test_an_empty_line_in_a_hunk_is_an_unchanged_line() -> None:
    assert rows("@@ -1,3 +1,3 @@\n a\n\n b\n")[2] == ("same", "2", "2", " ", "")


def test_text_without_hunks_is_shown_with_a_note() -> None:
    assert diff("just words").notes == (NO_HUNKS,)
    assert rows("just words") == [("header", "just words")]


def test_line_numbers_with_more_than_nine_digits_are_not_parsed() -> None:
    assert diff("@@ -99999999999,1 +1 @@\n-x").notes == (NO_HUNKS,)
    assert rows("@@ -999999999 +1 @@\n-x\n+y")[1] == ("removed", "999999999", "", "-", "x")
