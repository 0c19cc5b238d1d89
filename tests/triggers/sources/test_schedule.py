"""When schedules fire, across daylight saving time, jitter and downtime."""

from itertools import islice, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.errors import InvalidRequest
from assent.core.timestamps import SECOND, from_iso, iso
from assent.triggers.file_format import checked
from assent.triggers.schedules import MOST_TICKS, due, first_at, read, tick_at
from assent.triggers.sources.registry import KINDS, Way
from tests.triggers.sources.desks import tools

NEW_YORK = "America/New_York"
HOUR = 3600 * SECOND


def after(start: str, count: int, cron: str, zone: str = "UTC", **settings: Any) -> list[str]:
    schedule = read({"cron": cron, "timezone": zone} | settings)
    return [iso(each)[:16] for each in islice(schedule.after(from_iso(start)), count)]


SPRING, AUTUMN = "2027-03-14T00:00:00-05:00", "2027-11-07T00:00:00-04:00"


@pytest.mark.parametrize(
    ("cron", "start", "expected"),
    [
        pytest.param("30 2 * * *", SPRING, ["2027-03-14T07:00", "2027-03-15T06:30"], id="spring: once, at three"),
        pytest.param("0,30 2 * * *", SPRING, ["2027-03-14T07:00", "2027-03-15T06:00"], id="spring: two become one"),
        pytest.param("30 1 * * *", AUTUMN, ["2027-11-07T05:30", "2027-11-08T06:30"], id="autumn: once"),
        pytest.param(
            "30 1 * * *", "2027-11-07T01:45:00-04:00", ["2027-11-08T06:30", "2027-11-09T06:30"], id="autumn: between"
        ),
        pytest.param("0 9 1 * 1", "2027-05-30T00:00:00Z", ["2027-05-31T13:00", "2027-06-01T13:00"], id="either day"),
        pytest.param("0 9 * * 1", "2027-05-30T00:00:00Z", ["2027-05-31T13:00", "2027-06-07T13:00"], id="monday is 1"),
        pytest.param("0 9 * * 7", "2027-05-29T00:00:00Z", ["2027-05-30T13:00", "2027-06-06T13:00"], id="sunday is 7"),
        pytest.param("0 9 * * 0", "2027-05-29T00:00:00Z", ["2027-05-30T13:00", "2027-06-06T13:00"], id="sunday is 0"),
        pytest.param("0 9 L * *", "2027-02-01T00:00:00Z", ["2027-02-28T14:00", "2027-03-31T13:00"], id="last day"),
        pytest.param("0 9 * * 5#2", "2027-02-01T00:00:00Z", ["2027-02-12T14:00", "2027-03-12T14:00"], id="2nd friday"),
        pytest.param("@daily", SPRING, ["2027-03-15T04:00", "2027-03-16T04:00"], id="daily"),
        pytest.param("@weekly", SPRING, ["2027-03-21T04:00", "2027-03-28T04:00"], id="weekly"),
        pytest.param("@monthly", SPRING, ["2027-04-01T04:00", "2027-05-01T04:00"], id="monthly"),
        pytest.param("@YEARLY", SPRING, ["2028-01-01T05:00", "2029-01-01T05:00"], id="yearly"),
        pytest.param("0 0 29 2 *", SPRING, ["2028-02-29T05:00", "2032-02-29T05:00"], id="leap days"),
    ],
)
def test_an_expression_produces_the_expected_times(cron: str, start: str, expected: list[str]) -> None:
    assert after(start, 2, cron, NEW_YORK) == expected


def test_an_hourly_schedule_fires_25_or_23_times_when_the_clocks_change() -> None:
    schedule = read({"cron": "@hourly", "timezone": NEW_YORK})
    for day, next_day, count in (
        ("2027-11-07T00:00:00-04:00", "2027-11-08T00:00:00-05:00", 25),
        ("2027-03-14T00:00:00-05:00", "2027-03-15T00:00:00-04:00", 23),
    ):
        found = list(islice(schedule.after(from_iso(day) - 1), count + 1))
        assert found == [from_iso(day) + n * HOUR for n in range(count + 1)]
        assert found[count] == from_iso(next_day)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "must be a cron expression"),
        ({"cron": 5}, "must be a cron expression"),
        ({"cron": "0 0 31 2 *"}, "/settings/cron"),
        ({"cron": "0 0 30 2 *"}, "/settings/cron"),
        ({"cron": "0 0 31 4,6,9,11 *"}, "/settings/cron"),
        ({"cron": "61 * * * *"}, "bad minute"),
        ({"cron": "* * * * * *"}, "five fields"),
        ({"cron": "* * *"}, "five fields"),
        ({"cron": "@every 5m"}, r"\*/15 \* \* \* \*"),
        ({"cron": "@noon"}, "@daily"),
        ({"cron": "@daily", "timezone": "Mars/Olympus"}, "time zone"),
        ({"cron": "@daily", "timezone": "../../etc/passwd"}, "time zone"),
        ({"cron": "@daily", "timezone": 3}, "time zone"),
        ({"cron": "@daily", "jitter": "soon"}, "/settings/jitter"),
        ({"cron": "@daily", "jitter": "25h"}, "at most 24h"),
        ({"cron": "@daily", "missed": "some"}, "last, skip, all"),
        ({"cron": "@daily", "max_age": 7}, "/settings/max_age"),
        ({"cron": "@daily", "crom": "x"}, "is not one of"),
        ({"cron": "@daily", "expect_every": "often"}, "/settings/expect_every"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        KINDS["schedule"].make(settings, tools())


def test_the_schedule_source_is_driven_by_the_clock() -> None:
    assert KINDS["schedule"].way is Way.CLOCK
    assert KINDS["schedule"].make({"cron": "30 2 * * 1-5", "timezone": "Europe/Paris"}, tools()) is None
    assert checked({"id": "a", "on": "schedule.tick(source = 'nightly')", "run": "audit"}).on


@given(
    st.sampled_from(["* * * * *", "*/5 * * * *", "30 1 * * *", "0 9 1 * 1", "@hourly"]),
    st.sampled_from([NEW_YORK, "UTC", "Australia/Lord_Howe", "Europe/Paris"]),
    st.integers(min_value=0, max_value=7200),
    st.integers(min_value=1_790_000_000, max_value=1_830_000_000),
)
def test_jitter_preserves_the_order_and_is_deterministic(cron: str, zone: str, jitter: int, start: int) -> None:
    schedule = read({"cron": cron, "timezone": zone, "jitter": f"{jitter}s"})
    found = list(islice(schedule.after(start * SECOND), 20))
    ticks = [tick_at(schedule, each, "src_1") for each in found]
    assert ticks == [tick_at(schedule, each, "src_1") for each in found]
    assert all(before < then for before, then in pairwise(ticks))
    assert all(0 <= tick - each <= jitter * SECOND for each, tick in zip(found, ticks, strict=True))
    for each, tick in zip(found[:-1], ticks, strict=False):
        assert due(schedule, tick, tick, "src_1").instants == (each,)


def test_jitter_differs_between_sources() -> None:
    schedule = read({"cron": "@hourly", "jitter": "30m"})
    instant = next(schedule.after(1_800_000_000 * SECOND))
    assert len({tick_at(schedule, instant, f"src_{n}") for n in range(20)}) > 10


NOW = from_iso("2027-06-10T12:00:30Z")


@pytest.mark.parametrize(
    ("missed", "down_since", "expected"),
    [
        ("skip", "2027-06-10T11:59:00Z", ["12:00"]),
        ("skip", "2027-06-10T09:00:00Z", ["12:00"]),
        ("last", "2027-06-10T09:00:00Z", ["12:00"]),
        ("all", "2027-06-10T09:00:00Z", ["10:00", "11:00", "12:00"]),
    ],
)
def test_missed_schedule_times_are_caught_up_as_configured(missed: str, down_since: str, expected: list[str]) -> None:
    schedule = read({"cron": "@hourly", "missed": missed})
    next_at = first_at(schedule, from_iso(down_since), "src_1")
    assert next_at is not None
    found = due(schedule, next_at, NOW, "src_1")
    assert [iso(each)[11:16] for each in found.instants] == expected
    assert found.next_at == from_iso("2027-06-10T13:00:00Z")


@pytest.mark.parametrize(("missed", "count"), [("skip", 0), ("last", 1), ("all", 3)])
def test_a_time_that_is_over_a_minute_late_counts_as_missed(missed: str, count: int) -> None:
    schedule = read({"cron": "@hourly", "missed": missed})
    late = from_iso("2027-06-10T12:01:01Z")
    assert len(due(schedule, from_iso("2027-06-10T10:00:00Z"), late, "src_1").instants) == count


def test_the_number_of_missed_times_that_fire_is_limited() -> None:
    schedule = read({"cron": "* * * * *", "missed": "all"})
    a_year_ago = NOW - 365 * 24 * HOUR
    found = due(schedule, first_at(schedule, a_year_ago, "src_1") or 0, NOW, "src_1")
    assert len(found.instants) == MOST_TICKS
    assert iso(found.instants[-1]).startswith("2027-06-10T12:00:00")

    short = read({"cron": "@daily", "missed": "all", "max_age": "3d"})
    found = due(short, first_at(short, a_year_ago, "src_1") or 0, NOW, "src_1")
    assert [iso(each)[:10] for each in found.instants] == ["2027-06-08", "2027-06-09", "2027-06-10"]


def test_a_next_time_that_is_not_in_the_schedule_resets_it() -> None:
    schedule = read({"cron": "@hourly"})
    found = due(schedule, from_iso("2027-06-10T09:13:00Z"), NOW, "src_1")
    assert found.instants == ()
    assert found.next_at == from_iso("2027-06-10T13:00:00Z")


NIGHTLY = {"cron": "0 2 * * *", "jitter": "1h", "missed": "all", "max_age": "10m"}
AT_TWO = from_iso("2027-05-01T02:00:00Z")


def late() -> tuple[str, int]:
    """Return a source whose jitter is long, and the time at which it fires."""
    schedule = read(NIGHTLY)
    ticks = ((each, tick_at(schedule, AT_TWO, each)) for each in (f"src_{n}" for n in range(1_000)))
    return next((each, at) for each, at in ticks if at - AT_TWO > 20 * 60 * SECOND)


def test_jitter_does_not_make_a_time_too_old_to_fire() -> None:
    name, at = late()
    for settings in (NIGHTLY, NIGHTLY | {"max_age": "0s"}):
        assert due(read(settings), at, at, name).instants == (AT_TWO,), "the instant is on time"
        assert due(read(settings), at, at + 30 * SECOND, name).instants == (AT_TWO,)


def test_the_age_of_a_missed_time_excludes_its_jitter() -> None:
    name, at = late()
    assert due(read(NIGHTLY), at, at + 600 * SECOND, name).instants == (AT_TWO,)
    found = due(read(NIGHTLY), at, at + 601 * SECOND, name)
    assert (found.instants, found.next_at) == ((), tick_at(read(NIGHTLY), AT_TWO + 86_400 * SECOND, name))


def test_the_next_time_is_kept_even_if_all_earlier_ones_are_too_old() -> None:
    name, at = late()
    schedule, before = read(NIGHTLY), AT_TWO - 86_400 * SECOND
    found = due(schedule, tick_at(schedule, before, name), at - SECOND, name)
    assert (found.instants, found.next_at) == ((), at)
