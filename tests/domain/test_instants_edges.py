"""Exact forms of moments."""

from datetime import UTC, datetime

import pytest

from assent.domain.instants import SECOND, from_iso, iso


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (1_800_000_000_000_000, "2027-01-15T08:00:00.000000Z"),
    ],
)
def test_a_moment_is_always_formatted_with_microseconds(at: int, text: str) -> None:
    assert iso(at) == text
    assert from_iso(text) == at


def test_a_second_has_a_million_units() -> None:
    moment = datetime(2026, 11, 16, tzinfo=UTC)
    assert from_iso("2026-11-16T00:00:00Z") == int(moment.timestamp()) * SECOND


def test_a_fraction_of_a_microsecond_is_cut_off() -> None:
    assert from_iso("1970-01-01T00:00:00.0000019Z") == 1
