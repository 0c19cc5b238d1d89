"""Quiet hours in local time, and deputies of absent people."""

from datetime import UTC, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.errors import InvalidRequest
from assent.core.timestamps import from_iso, iso
from assent.people.preferences import NONE, Away, Preferences, QuietHours, deputy, quiet_until, read, written

WHOLE = {
    "channels": ["slack", "mail"],
    "quiet": {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin"},
    "away": {"deputy": "bo", "from": "2026-07-01T00:00:00.000000Z", "until": "2026-07-15T00:00:00.000000Z"},
}


def quiet(begin: str, end: str, zone: str = "Europe/Berlin") -> Preferences:
    return Preferences(quiet=QuietHours(time.fromisoformat(begin), time.fromisoformat(end), zone))


def local(text: str, zone: str = "Europe/Berlin") -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()) * 1_000_000


@pytest.mark.parametrize(
    ("at", "until"),
    [
        ("2026-06-01 21:59:59", None),
        ("2026-06-01 22:00", "2026-06-02 07:00"),
        ("2026-06-01 23:59:59", "2026-06-02 07:00"),
        ("2026-06-02 00:00", "2026-06-02 07:00"),
        ("2026-06-02 06:59:59", "2026-06-02 07:00"),
        ("2026-06-02 07:00", None),
    ],
)
def test_quiet_hours_can_span_midnight(at: str, until: str | None) -> None:
    assert quiet_until(quiet("22:00", "07:00"), local(at)) == (local(until) if until else None)


def test_quiet_hours_can_start_and_end_on_the_same_day() -> None:
    lunch = quiet("12:00", "13:00")
    assert quiet_until(lunch, local("2026-06-01 12:30")) == local("2026-06-01 13:00")
    assert quiet_until(lunch, local("2026-06-01 11:59")) is None
    assert quiet_until(lunch, local("2026-06-01 13:00")) is None


def test_quiet_hours_are_in_local_time() -> None:
    night = quiet("22:00", "07:00", "America/New_York")
    assert quiet_until(night, local("2026-06-01 22:30")) is None
    assert quiet_until(night, local("2026-06-01 22:30", "America/New_York")) is not None


@pytest.mark.parametrize(
    ("night", "hours"),
    [("2026-03-28 22:00", 8), ("2026-10-24 22:00", 10), ("2026-06-01 22:00", 9)],
)
def test_quiet_hours_end_at_the_same_local_time_after_a_clock_change(night: str, hours: int) -> None:
    begin = local(night)
    end = quiet_until(quiet("22:00", "07:00"), begin)
    assert end == begin + hours * 3600 * 1_000_000


def test_quiet_hours_that_start_in_a_skipped_hour_start_after_it() -> None:
    gap = quiet("02:30", "06:00")
    assert quiet_until(gap, local("2026-03-29 03:29")) is None
    assert quiet_until(gap, local("2026-03-29 03:30")) == local("2026-03-29 06:00")


@given(
    st.integers(0, 1439),
    st.integers(0, 1439),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]),
    st.integers(1_700_000_000, 1_900_000_000),
)
def test_quiet_hours_end_at_the_configured_time_and_within_26_hours(begin: int, end: int, zone: str, at: int) -> None:
    if begin == end:
        return
    wishes = Preferences(quiet=QuietHours(time(*divmod(begin, 60)), time(*divmod(end, 60)), zone))
    until = quiet_until(wishes, at * 1_000_000)
    if until is None:
        return
    assert at * 1_000_000 < until <= (at + 26 * 3600) * 1_000_000
    shown = datetime.fromtimestamp(until // 1_000_000, UTC).astimezone(ZoneInfo(zone))
    assert (shown.hour * 60 + shown.minute - end) % 1440 in {0, 30, 60}, "in a skipped hour, they end later"


def test_a_person_without_quiet_hours_is_always_notified() -> None:
    assert quiet_until(NONE, local("2026-06-01 03:00")) is None


def test_an_unknown_time_zone_means_no_quiet_hours() -> None:
    assert quiet_until(quiet("22:00", "07:00", "Mars/Olympus"), local("2026-06-01 23:00")) is None


@pytest.mark.parametrize(
    ("away", "at", "name"),
    [
        (Away("bo", 10, 20), 9, None),
        (Away("bo", 10, 20), 10, "bo"),
        (Away("bo", 10, 20), 19, "bo"),
        (Away("bo", 10, 20), 20, None),
        (Away("bo"), 0, "bo"),
        (Away("bo", ends_at=20), 20, None),
        (None, 10, None),
    ],
)
def test_a_deputy_is_active_from_the_start_until_the_end_of_an_absence(
    away: Away | None, at: int, name: str | None
) -> None:
    assert deputy(Preferences(away=away), at) == name


def test_preferences_survive_a_round_trip() -> None:
    assert written(read(WHOLE)) == WHOLE
    assert read({}) == NONE
    assert written(NONE) == {"channels": [], "quiet": None, "away": None}
    assert read(written(NONE)) == NONE


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"chanels": []}, "/chanels"),
        ({"channels": "mail"}, "/channels"),
        ({"channels": [7]}, "/channels/0"),
        ({"quiet": "night"}, "/quiet"),
        ({"quiet": {"from": "22:00", "to": "07:00"}}, "/quiet/timezone"),
        ({"quiet": {"from": "22", "to": "07:00", "timezone": "UTC"}}, "/quiet/from"),
        ({"quiet": {"from": "22:00", "to": "24:00", "timezone": "UTC"}}, "/quiet/to"),
        ({"quiet": {"from": "22:00", "to": "22:00", "timezone": "UTC"}}, "/quiet/to"),
        ({"quiet": {"from": "22:00", "to": "07:00", "timezone": "Mars/Olympus"}}, "/quiet/timezone"),
        ({"quiet": {"from": "22:00", "to": "07:00", "timezone": "../../etc/passwd"}}, "/quiet/timezone"),
        ({"quiet": {"from": "22:00", "to": "07:00", "timezone": "UTC", "days": []}}, "/quiet/days"),
        ({"away": {}}, "/away/deputy"),
        ({"away": {"deputy": "bo", "from": "soon"}}, "/away/from"),
        ({"away": {"deputy": "bo", "from": "2026-07-02", "until": "2026-07-01"}}, "/away/until"),
        ({"away": {"deputy": "bo", "until": "9999-12-31T23:59:59-23:00"}}, "/away/until"),
    ],
)
def test_a_validation_error_names_the_invalid_field(body: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(body)
    assert refused.value.details["errors"][0]["pointer"] == pointer  # type: ignore[index]


def test_a_date_without_a_time_means_midnight_utc() -> None:
    found = read({"away": {"deputy": "bo", "from": "2026-07-01"}}).away
    assert found is not None
    assert found.begins_at == from_iso("2026-07-01T00:00:00Z")
    assert iso(found.begins_at) == "2026-07-01T00:00:00.000000Z"
