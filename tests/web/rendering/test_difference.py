"""Generated diffs are correct: applied to the old text, they yield the new one."""

import re

from hypothesis import given
from hypothesis import strategies as st

from assent.web.rendering.diff import diff
from assent.web.rendering.difference import MAX_LINES, NO_NEWLINE, difference

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "--- d", "+++ e", "@@ -1 +1 @@", "f" * 30]), max_size=40)
TEXT = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    return [*lines, last + NO_NEWLINE] if last else lines


def _applied(before: str, found: str) -> list[str]:
    old, made, place = _lines(before), [], 0
    for line in re.split(r"\n(?!\\)", found)[:-1]:
        if header := re.match(r"@@ -(\d+),(\d+) \+\d+,\d+ @@$", line):
            start = int(header[1]) - (header[2] != "0")
            made += old[place:start]
            place = start
        elif line[0] == "+":
            made.append(line[1:])
        else:
            assert old[place] == line[1:]
            place += 1
            made += [line[1:]] if line[0] == " " else []
    return made + old[place:]


@given(TEXT, TEXT)
def test_applying_a_diff_to_the_old_text_yields_the_new_text(before: str, after: str) -> None:
    found = difference(before, after)
    assert found is not None
    assert _applied(before, found) == _lines(after)
    assert (found == "") == (before == after)


@given(TEXT, TEXT)
def test_generated_diffs_have_correct_line_counts(before: str, after: str) -> None:
    found = difference(before, after)
    assert not found or len(diff(found).notes) == 1


@given(LINES, st.integers(0, 40), st.sampled_from(["new", "other"]))
def test_inserting_one_line_yields_one_added_line(lines: list[str], place: int, line: str) -> None:
    changed = [*lines[:place], line, *lines[place:]]
    found = difference("".join(f"{each}\n" for each in lines), "".join(f"{each}\n" for each in changed))
    assert diff(found or "").notes == ("1 added, 0 removed.",)


def test_changed_line_endings_are_shown_in_the_diff() -> None:
    assert "-a⟦U+000D⟧" in (difference("a\r\nb\r\n", "a\nb\n") or "")
    assert difference("a\r\nb\r\n", "a\r\nb\r\n") == ""


def test_texts_with_too_many_lines_are_not_compared() -> None:
    assert difference("a\n" * (MAX_LINES + 1), "b\n") is None


def test_deeply_nested_changes_do_not_exceed_the_recursion_limit() -> None:
    ladder = [str(n) for n in range(1200)]
    before = [*ladder, "x", *ladder[::-1]]
    after = [*ladder[::-1], "x", *ladder]
    assert difference("\n".join(before), "\n".join(after))
