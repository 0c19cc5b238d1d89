"""Durations such as 90s and 2h."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.durations import duration, seconds, whole_seconds


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("0s", 0),
        ("1s", 1),
        ("90s", 90),
        ("1m", 60),
        ("2h", 7_200),
        ("1d", 86_400),
        ("1h30m", 5_400),
        ("1d2h3m4s", 93_784),
        ("1d4s", 86_404),
        ("007m", 420),
        ("999999d", 999_999 * 86_400),
        ("999999h", 999_999 * 3_600),
        ("999999m", 999_999 * 60),
        ("999999999s", 999_999_999),
        ("500ms", 0.5),
        ("1500ms", 1.5),
        ("1s500ms", 1.5),
        ("2000ms", 2),
        ("1m1ms", 60.001),
    ],
)
def test_a_duration_is_parsed_into_seconds(text: str, length: int) -> None:
    assert seconds(text) == length


@pytest.mark.parametrize(
    "text",
    ["", "5", "m", "soon", "1w", "1M", "-1s", "+1s", "1.5h", "1 h", " 1h", "1h ", "1h\n", "1h, 2m", "1s1m", "30m2h",
     "1h1h", "١h", "²s", "1000000d", "1000000h", "1000000m", "1000000000s", "1ms1s", "ms", "1 ms", "1.5ms"],
)  # fmt: skip
def test_an_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="must be a duration, for example 500ms, 30s, 30m, 2h or 1d"):
        seconds(text)


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (0, "0s"),
        (59, "59s"),
        (60, "1m"),
        (61, "1m1s"),
        (3_599, "59m59s"),
        (3_600, "1h"),
        (86_399, "23h59m59s"),
        (86_400, "1d"),
        (604_800, "7d"),
        (93_784, "1d2h3m4s"),
        (0.5, "500ms"),
        (1.5, "1s500ms"),
        (60.001, "1m1ms"),
    ],
)
def test_a_duration_is_formatted_with_the_largest_possible_units(length: int, text: str) -> None:
    assert duration(length) == text


@given(st.integers(0, 999_999 * 86_400))
def test_parsing_a_formatted_duration_restores_the_value(length: int) -> None:
    assert seconds(duration(length)) == length


@given(st.integers(0, 10**9))
def test_formatting_a_duration_preserves_milliseconds(length: int) -> None:
    assert seconds(duration(length / 1000)) == length / 1000


@pytest.mark.parametrize(("text", "length"), [("500ms", 1), ("1s", 1), ("1s1ms", 2), ("30m", 1_800)])
def test_whole_seconds_rounds_fractions_up(text: str, length: int) -> None:
    found = whole_seconds(text)
    assert (found, type(found)) == (length, int)
