"""Edge cases of preferences: limits, validation errors, and extreme times."""

from datetime import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.breakpoint import NEVER
from assent.core.errors import InvalidRequest
from assent.core.timestamps import SECOND, from_iso
from assent.people.preferences import NONE, Away, Preferences, QuietHours, deputy, quiet_until, read, written

HOUR = 3600 * SECOND
NIGHT = QuietHours(time(22), time(7), "UTC")


def error_of(body: dict[str, Any]) -> tuple[str, str]:
    """Return the field and the detail of a validation error."""
    with pytest.raises(InvalidRequest) as refused:
        read(body)
    details: Any = refused.value.details
    (error,) = details["errors"]
    return error["pointer"], error["detail"]


def quiet(**changes: Any) -> dict[str, Any]:
    return {"quiet": {"from": "22:00", "to": "07:00", "timezone": "UTC"} | changes}


def away(**changes: Any) -> dict[str, Any]:
    return {"away": {"deputy": "bo"} | changes}


@pytest.mark.parametrize(
    ("body", "pointer", "detail"),
    [
        ({"chanels": []}, "/chanels", "is not a known field. Use one of channels, quiet, away"),
        (quiet(days=[]), "/quiet/days", "is not a known field. Use one of from, to, timezone"),
        (away(for_="me"), "/away/for_", "is not a known field. Use one of deputy, from, until"),
        ({"quiet": []}, "/quiet", "must be an object with from, to, timezone"),
        ({"away": "bo"}, "/away", "must be an object with deputy, from, until"),
        ({"away": False}, "/away", "must be an object with deputy, from, until"),
        ({"channels": {"mail": True}}, "/channels", "must be a list of at most 20 channel names"),
        ({"channels": ["a"] * 21}, "/channels", "must be a list of at most 20 channel names"),
        ({"channels": ["a", None]}, "/channels/1", "must be a name of 1 to 100 characters"),
        ({"channels": ["a", "b", ""]}, "/channels/2", "must be a name of 1 to 100 characters"),
        (away(deputy="n" * 101), "/away/deputy", "must be a name of 1 to 100 characters"),
        (quiet(timezone=7), "/quiet/timezone", "must be a name of 1 to 100 characters"),
        (quiet(timezone="Europe"), "/quiet/timezone", "must be a time zone, for example Europe/Berlin or UTC"),
        (quiet(to="22:00"), "/quiet/to", "must differ from the start"),
        (away(**{"from": 7}), "/away/from", "must be a time, for example 2027-01-31T18:00:00Z"),
        (away(until=""), "/away/until", "must be a time, for example 2027-01-31T18:00:00Z"),
        (
            away(**{"from": "2027-01-01", "until": "2027-01-01T00:00:00Z"}),
            "/away/until",
            "must be later than the start",
        ),
    ],
)
def test_validation_errors_have_the_expected_field_and_detail(body: dict[str, Any], pointer: str, detail: str) -> None:
    assert error_of(body) == (pointer, detail)


@pytest.mark.parametrize("given_", ["", 0, False, {}], ids=repr)
def test_channels_must_be_a_list_even_if_empty(given_: Any) -> None:
    assert error_of({"channels": given_})[0] == "/channels"


@pytest.mark.parametrize("field", ["from", "to"])
@pytest.mark.parametrize("clock", [22, None, "", "7:00", "24:00", "23:60", "22:00:00", "22:00\n", "٢٢:٠٠", "T2:00"])
def test_a_time_of_day_must_have_four_digits_and_a_colon(field: str, clock: Any) -> None:
    assert error_of(quiet(**{field: clock})) == (f"/quiet/{field}", "must be a time, for example 22:00")


@pytest.mark.parametrize("clock", ["00:00", "09:59", "19:00", "20:30", "23:59"])
def test_every_minute_of_a_day_is_accepted(clock: str) -> None:
    body = quiet(**{"from": clock})
    assert read(body).quiet == QuietHours(time.fromisoformat(clock), time(7), "UTC")
    assert written(read(body))["quiet"] == body["quiet"]


def test_names_of_up_to_100_characters_and_up_to_20_channels_are_accepted() -> None:
    names = [chr(ord("a") + n) for n in range(20)]
    assert read({"channels": names}).channels == tuple(names)
    assert read({"channels": ["n" * 100]}).channels == ("n" * 100,)
    assert read(away(deputy="b")).away == Away("b")


def test_a_duplicate_channel_keeps_its_first_position() -> None:
    assert read({"channels": ["b", "a", "b"]}).channels == ("b", "a")


def test_missing_and_null_fields_are_equivalent() -> None:
    assert read({"channels": None, "quiet": None, "away": None}) == read({"channels": []}) == NONE
    assert read(away(**{"from": None, "until": None})).away == Away("bo")


@pytest.mark.parametrize(
    ("begins", "ends"), [(None, "2027-01-02T00:00:00.000000Z"), ("2027-01-01T00:00:00.000000Z", None)]
)
def test_an_absence_needs_neither_a_start_nor_an_end(begins: str | None, ends: str | None) -> None:
    body = away(**{"from": begins, "until": ends})
    found = read(body)
    assert found.away == Away("bo", from_iso(begins) if begins else None, from_iso(ends) if ends else None)
    assert written(found)["away"] == body["away"]


def test_times_are_accepted_with_any_utc_offset() -> None:
    found = read(away(**{"from": "2027-01-01T01:00:00+01:00", "until": "2027-01-01T00:00:00.000001Z"})).away
    assert found is not None
    assert (found.begins_at, found.ends_at) == (from_iso("2027-01-01"), from_iso("2027-01-01") + 1)


@given(st.none() | st.integers(0, 50), st.none() | st.integers(0, 50), st.integers(-1, 51))
def test_a_deputy_is_active_only_between_start_and_end(begins: int | None, ends: int | None, at: int) -> None:
    begun, over = begins is None or begins <= at, ends is not None and ends <= at
    assert deputy(Preferences(away=Away("bo", begins, ends)), at) == ("bo" if begun and not over else None)


@pytest.mark.parametrize(
    ("at", "until"),
    [(0, 7 * HOUR), (7 * HOUR - 1, 7 * HOUR), (7 * HOUR, None), (22 * HOUR, 31 * HOUR), (22 * HOUR - 1, None)],
)
def test_quiet_hours_are_exact_to_the_microsecond_even_in_1970(at: int, until: int | None) -> None:
    assert quiet_until(Preferences(quiet=NIGHT), at) == until


@pytest.mark.parametrize("at", [-1, -HOUR, NEVER, from_iso("9999-12-31T23:00:00Z"), from_iso("9999-12-31T01:00:00Z")])
def test_quiet_hours_do_not_apply_outside_the_supported_range_of_times(at: int) -> None:
    assert quiet_until(Preferences(quiet=NIGHT), at) is None


def test_quiet_hours_work_until_the_year_9980() -> None:
    at = from_iso("9980-06-01T23:00:00Z")
    assert quiet_until(Preferences(quiet=NIGHT), at) == at + 8 * HOUR


@pytest.mark.parametrize(("zone", "hours"), [("Pacific/Kiritimati", 14), ("Pacific/Pago_Pago", -11)])
def test_quiet_hours_use_the_local_date_even_if_it_differs_from_utc(zone: str, hours: int) -> None:
    wishes = Preferences(quiet=QuietHours(time(22), time(7), zone))
    for local in ("2027-01-15T22:00:00Z", "2027-01-16T00:30:00Z", "2027-01-16T06:59:59Z"):
        assert quiet_until(wishes, from_iso(local) - hours * HOUR) == from_iso("2027-01-16T07:00:00Z") - hours * HOUR
    for local in ("2027-01-15T21:59:59Z", "2027-01-16T07:00:00Z"):
        assert quiet_until(wishes, from_iso(local) - hours * HOUR) is None
