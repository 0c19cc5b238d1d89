"""The exact format of timestamps."""

from datetime import UTC, datetime

import pytest

from assent.core.timestamps import SECOND, from_iso, iso


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (1_800_000_000_000_000, "2027-01-15T08:00:00.000000Z"),
    ],
)
def test_timestamps_are_always_formatted_with_microseconds(at: int, text: str) -> None:
    assert iso(at) == text
    assert from_iso(text) == at


def test_timestamps_are_counted_in_microseconds() -> None:
    moment = datetime(2026, 11, 16, tzinfo=UTC)
    assert from_iso("2026-11-16T00:00:00Z") == int(moment.timestamp()) * SECOND


def test_fractions_of_a_microsecond_are_truncated() -> None:
    assert from_iso("1970-01-01T00:00:00.0000019Z") == 1
