"""Formatting and parsing of timestamps."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.timestamps import SECOND, from_iso, iso

# Starting with the year 1000, the text has a fixed width. strftime does not pad earlier years.
moments = st.integers(0, 250_000_000_000 * SECOND)


@given(moments)
def test_parsing_a_formatted_timestamp_restores_it(at: int) -> None:
    assert from_iso(iso(at)) == at


@given(moments, moments)
def test_formatted_timestamps_sort_chronologically(one: int, other: int) -> None:
    assert (iso(one) < iso(other)) == (one < other)


@given(st.datetimes(datetime(1970, 1, 2), datetime(9000, 1, 1)), st.integers(-14 * 60, 14 * 60))  # noqa: DTZ001
def test_a_timestamps_utc_offset_is_applied(local: datetime, minutes: int) -> None:
    moment = local.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    expected = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert from_iso(moment.isoformat()) == expected


def test_a_timestamp_without_an_offset_is_utc() -> None:
    assert from_iso("2026-11-15T09:30:00") == from_iso("2026-11-15T09:30:00Z") == 1_794_735_000 * SECOND


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z", "1794735000", "2026-11-15T25:00:00Z"])
def test_an_invalid_timestamp_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        from_iso(text)
