"""A difference, applied to the one text, gives the other."""

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
def test_a_difference_leads_from_one_text_to_the_other(before: str, after: str) -> None:
    found = difference(before, after)
    assert found is not None
    assert _applied(before, found) == _lines(after)
    assert (found == "") == (before == after)


@given(TEXT, TEXT)
def test_our_own_differences_have_right_counts(before: str, after: str) -> None:
    found = difference(before, after)
    assert not found or len(diff(found).notes) == 1


@given(LINES, st.integers(0, 40), st.sampled_from(["new", "other"]))
def test_one_line_more_is_one_line_of_difference(lines: list[str], place: int, line: str) -> None:
    changed = [*lines[:place], line, *lines[place:]]
    found = difference("".join(f"{each}\n" for each in lines), "".join(f"{each}\n" for each in changed))
    assert diff(found or "").notes == ("1 added, 0 removed.",)


def test_a_change_of_line_ends_is_a_change() -> None:
    assert "-a⟦U+000D⟧" in (difference("a\r\nb\r\n", "a\nb\n") or "")
    assert difference("a\r\nb\r\n", "a\r\nb\r\n") == ""


def test_what_is_too_long_is_not_compared() -> None:
    assert difference("a\n" * (MAX_LINES + 1), "b\n") is None


def test_texts_made_to_nest_do_no_harm() -> None:
    ladder = [str(n) for n in range(1200)]
    before = [*ladder, "x", *ladder[::-1]]
    after = [*ladder[::-1], "x", *ladder]
    assert difference("\n".join(before), "\n".join(after))
