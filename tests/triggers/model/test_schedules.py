"""When a schedule fires, which missed times are caught up, and its settings, with exact times."""

from datetime import UTC
from itertools import islice, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.errors import InvalidRequest
from assent.core.timestamps import from_iso, iso
from assent.triggers.schedules import NAMES, Due, Missed, Schedule, due, first_at, read, tick_at

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND
BERLIN = "Europe/Berlin"
NEVER = "0 0 */8 * 1#5"
"""This expression never matches, because the fifth Monday of a month is never on day 1, 9, 17 or 25."""


def at(text: str) -> int:
    return from_iso(f"2027-{text}Z")


def following(cron: str, start: str, count: int = 2, zone: str = "UTC") -> list[str]:
    schedule = read({"cron": cron, "timezone": zone})
    return [iso(each).removesuffix(":00.000000Z") for each in islice(schedule.after(from_iso(start)), count)]


def told(found: Due) -> list[str]:
    return [iso(each)[5:16] for each in found.instants]


def source_late_by(schedule: Schedule, instant: int, late: int) -> str:
    """Return the name of a source whose jitter at this time is this many seconds."""
    names = (f"src_{n}" for n in range(100_000))
    return next(name for name in names if tick_at(schedule, instant, name) == instant + late * SECOND)


@pytest.mark.parametrize(
    ("short", "instants"),
    [
        ("@hourly", ["2027-05-05T11:00", "2027-05-05T12:00"]),
        ("@daily", ["2027-05-06T00:00", "2027-05-07T00:00"]),
        ("@midnight", ["2027-05-06T00:00", "2027-05-07T00:00"]),
        ("@weekly", ["2027-05-09T00:00", "2027-05-16T00:00"]),
        ("@monthly", ["2027-06-01T00:00", "2027-07-01T00:00"]),
        ("@yearly", ["2028-01-01T00:00", "2029-01-01T00:00"]),
        ("@annually", ["2028-01-01T00:00", "2029-01-01T00:00"]),
        ("  @Daily ", ["2027-05-06T00:00", "2027-05-07T00:00"]),
        (" 15 10 * * 1-5 ", ["2027-05-05T10:15", "2027-05-06T10:15"]),
        ("15\t10  *\t* mon", ["2027-05-10T10:15", "2027-05-17T10:15"]),
    ],
)
def test_shortcuts_and_cron_expressions_produce_the_expected_times(short: str, instants: list[str]) -> None:
    assert following(short, "2027-05-05T10:00:00Z") == instants


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("2027-05-05T09:59:59.999999Z", "2027-05-05T10:00"),
        ("2027-05-05T10:00:00Z", "2027-05-05T11:00"),
        ("2027-05-05T10:00:00.000001Z", "2027-05-05T11:00"),
        ("1970-01-01T00:00:00Z", "1970-01-01T01:00"),
    ],
)
def test_the_next_time_is_strictly_after_the_given_time(start: str, first: str) -> None:
    assert following("0 * * * *", start, 1) == [first]


def test_a_time_of_day_follows_daylight_saving_time() -> None:
    assert following("0 9 * * *", "2027-03-27T00:00:00Z", 2, BERLIN) == ["2027-03-27T08:00", "2027-03-28T07:00"]
    assert following("0 9 * * *", "2027-10-30T00:00:00Z", 2, BERLIN) == ["2027-10-30T07:00", "2027-10-31T08:00"]


@pytest.mark.parametrize("start", ["2027-10-31T00:15:00Z", "2027-10-31T00:30:00Z", "2027-10-31T00:45:00Z"])
def test_a_time_that_occurs_twice_fires_once(start: str) -> None:
    """On that night, 02:30 occurs twice in Berlin, at 00:30 and 01:30 UTC."""
    days = ["2027-10-31T00:30", "2027-11-01T01:30", "2027-11-02T01:30"]
    expected = days[:2] if start < f"{days[0]}:00Z" else days[1:]
    assert following("30 2 * * *", start, 2, BERLIN) == expected


@given(
    st.sampled_from(["* * * * *", "*/7 1-3 * * *", "30 2 * * *", "0 0 1 * 1"]),
    st.sampled_from(["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"]),
    st.integers(at("01-01T00:00:00"), at("12-31T00:00:00")),
)
def test_scheduled_times_are_in_order_and_independent_of_the_starting_point(cron: str, zone: str, start: int) -> None:
    schedule = read({"cron": cron, "timezone": zone})
    found = list(islice(schedule.after(start), 12))
    assert all(before < then for before, then in pairwise([start, *found]))
    assert list(islice(schedule.after(found[3]), 8)) == found[4:]


def test_schedule_settings_have_these_defaults() -> None:
    assert {"cron", "timezone", "jitter", "missed", "max_age"} == NAMES
    plain = read({"cron": "@daily"})
    assert (plain.cron, str(plain.zone), plain.jitter, plain.missed) == ("0 0 * * *", "UTC", 0, Missed.LAST)
    assert plain.max_age == 7 * DAY
    assert Schedule("0 0 * * *", UTC) == Schedule("0 0 * * *", UTC, 0, Missed.LAST, 7 * DAY)


def test_schedule_settings_are_parsed() -> None:
    settings = {"cron": "@daily", "timezone": f" {BERLIN} ", "jitter": "1m30s", "missed": "all", "max_age": "2h"}
    found = read(settings)
    assert (str(found.zone), found.jitter, found.missed, found.max_age) == (BERLIN, 90, Missed.ALL, 2 * HOUR)
    assert [read(settings | {"missed": each}).missed for each in ("last", "skip", "all")] == list(Missed)


@pytest.mark.parametrize(
    "settings",
    [
        {"cron": "@daily" + " " * 194},
        {"timezone": "UTC" + " " * 197},
        {"jitter": "24h"},
        {"jitter": "86400s"},
        {"jitter": "0s"},
        {"max_age": "366d"},
        {"max_age": "0s"},
    ],
)
def test_values_at_the_limits_are_accepted(settings: dict[str, Any]) -> None:
    read({"cron": "@daily"} | settings)


FORM = "must be a cron expression, for example 30 2 * * 1-5"
FIVE = "must have five fields: minute, hour, day of the month, month, day of the week"
ZONE = "must be a time zone, for example Europe/Paris or UTC"
SHORTS = "@hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually"
JITTER = "must be a duration, for example 30s, 2m or 1h, and at most 24h"
AGE = "must be a duration, for example 30s, 2m or 1h, and at most 8784h"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("cron", None, FORM),
        ("cron", 5, FORM),
        ("cron", "", FORM),
        ("cron", "  ", FORM),
        ("cron", "@daily" + " " * 195, FORM),
        ("cron", "* * * *", FIVE),
        ("cron", "0 * * * * *", FIVE),
        ("cron", " @Noon ", f"@Noon is not one of {SHORTS}"),
        ("cron", "60 * * * *", "is not a valid cron expression: bad minute"),
        ("cron", "0 0 31 2 *", "is not a valid cron expression: bad day-of-month"),
        ("cron", "0 0 * * x", "is not a valid cron expression: bad day-of-week"),
        ("cron", NEVER, "never matches, because the date does not exist"),
        ("timezone", None, ZONE),
        ("timezone", 5, ZONE),
        ("timezone", "", ZONE),
        ("timezone", "Mars/Olympus", ZONE),
        ("timezone", "../UTC", ZONE),
        ("timezone", "/etc/localtime", ZONE),
        ("timezone", "UTC\x00", ZONE),
        ("timezone", "Europe", ZONE),
        ("timezone", "UTC" + " " * 198, ZONE),
        ("jitter", 30, JITTER),
        ("jitter", "soon", JITTER),
        ("jitter", "-1s", JITTER),
        ("jitter", "86401s", JITTER),
        ("max_age", None, AGE),
        ("max_age", "", AGE),
        ("max_age", "366d1s", AGE),
        ("missed", "some", "must be one of last, skip, all"),
        ("missed", "LAST", "must be one of last, skip, all"),
        ("missed", None, "must be one of last, skip, all"),
        ("missed", ["all"], "must be one of last, skip, all"),
    ],
)
def test_the_error_for_an_invalid_setting_points_to_it(name: str, value: object, said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read({"cron": "@daily", name: value})
    assert refused.value.details == {"errors": [{"pointer": f"/settings/{name}", "detail": said}]}


def test_the_error_for_a_missing_expression_or_an_unsupported_shortcut_says_what_to_enter() -> None:
    with pytest.raises(InvalidRequest, match=r"^/settings/cron: must be a cron expression"):
        read({})
    for line in ("@every 5m", "@every"):
        with pytest.raises(InvalidRequest, match=r"^/settings/cron: @every is not supported.*\*/15 \* \* \* \* for"):
            read({"cron": line})


def test_jitter_is_the_same_on_every_node_and_in_every_version() -> None:
    """During an update, nodes running different versions check the same schedule."""
    schedule = read({"cron": "@hourly", "jitter": "30m"})
    ticks = [tick_at(schedule, at(f"05-05T{hour:02}:00:00"), "src_1") for hour in range(10, 14)]
    assert [iso(each)[11:19] for each in ticks] == ["10:15:36", "11:01:30", "12:02:43", "13:24:27"]


@pytest.mark.parametrize(
    ("cron", "jitter", "most"), [("@hourly", "5s", 5), ("@hourly", "1s", 1), ("* * * * *", "2h", 59)]
)
def test_jitter_never_exceeds_its_maximum_and_is_less_than_the_interval(cron: str, jitter: str, most: int) -> None:
    schedule, instant = read({"cron": cron, "jitter": jitter}), at("05-05T10:00:00")
    late = {tick_at(schedule, instant, f"src_{n}") - instant for n in range(1_000)}
    assert late == {seconds * SECOND for seconds in range(most + 1)}


def test_without_jitter_a_schedule_fires_on_time() -> None:
    instant = at("05-05T10:00:00")
    assert tick_at(read({"cron": "@hourly"}), instant, "src_1") == instant


def test_the_last_time_in_a_schedule_can_be_delayed_by_the_full_jitter() -> None:
    schedule, instant = Schedule(NEVER, UTC, 3), at("05-05T10:00:00")
    late = {tick_at(schedule, instant, f"src_{n}") - instant for n in range(20)}
    assert late == {0, SECOND, 2 * SECOND, 3 * SECOND}
    assert first_at(schedule, instant, "src_1") is None


def test_a_new_schedule_fires_at_its_next_time() -> None:
    schedule = read({"cron": "@hourly"})
    assert first_at(schedule, at("05-05T10:00:00"), "src_1") == at("05-05T11:00:00")
    late = read({"cron": "@hourly", "jitter": "5s"})
    name = source_late_by(late, at("05-05T11:00:00"), 3)
    assert first_at(late, at("05-05T10:00:00"), name) == at("05-05T11:00:03")


@pytest.mark.parametrize("missed", ["last", "skip", "all"])
@pytest.mark.parametrize("late", [0, 1, 30 * SECOND, MINUTE])
def test_a_time_that_is_up_to_a_minute_late_always_fires(missed: str, late: int) -> None:
    schedule = read({"cron": "@hourly", "missed": missed, "max_age": "0s"})
    found = due(schedule, at("05-05T10:00:00"), at("05-05T10:00:00") + late, "src_1")
    assert found == Due((at("05-05T10:00:00"),), at("05-05T11:00:00"))


@pytest.mark.parametrize(("missed", "expected"), [("last", ["05-05T10:00"]), ("skip", []), ("all", ["05-05T10:00"])])
def test_a_time_that_is_more_than_a_minute_late_counts_as_missed(missed: str, expected: list[str]) -> None:
    schedule = read({"cron": "@hourly", "missed": missed})
    found = due(schedule, at("05-05T10:00:00"), at("05-05T10:01:00") + 1, "src_1")
    assert (told(found), found.next_at) == (expected, at("05-05T11:00:00"))


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ("last", ["05-05T12:00"]),
        ("skip", ["05-05T12:00"]),
        ("all", ["05-05T09:00", "05-05T10:00", "05-05T11:00", "05-05T12:00"]),
    ],
)
def test_missed_times_before_a_current_one_are_caught_up_as_configured(missed: str, expected: list[str]) -> None:
    schedule = read({"cron": "@hourly", "missed": missed})
    found = due(schedule, at("05-05T09:00:00"), at("05-05T12:00:10"), "src_1")
    assert (told(found), found.next_at) == (expected, at("05-05T13:00:00"))


@pytest.mark.parametrize(
    ("missed", "expected"), [("last", ["05-05T12:00"]), ("skip", []), ("all", ["05-05T11:00", "05-05T12:00"])]
)
def test_missed_times_without_a_current_one_are_caught_up_as_configured(missed: str, expected: list[str]) -> None:
    schedule = read({"cron": "@hourly", "missed": missed})
    found = due(schedule, at("05-05T11:00:00"), at("05-05T12:30:00"), "src_1")
    assert (told(found), found.next_at) == (expected, at("05-05T13:00:00"))


def test_two_current_times_both_fire_with_every_setting() -> None:
    for missed in Missed:
        schedule = read({"cron": "* * * * *", "missed": missed.value})
        found = due(schedule, at("05-05T10:00:00"), at("05-05T10:01:00"), "src_1")
        assert told(found) == ["05-05T10:00", "05-05T10:01"]


def test_the_last_missed_time_fires_regardless_of_its_age() -> None:
    found = due(read({"cron": "@yearly"}), at("01-01T00:00:00"), at("12-31T00:00:00"), "src_1")
    assert found == Due((at("01-01T00:00:00"),), from_iso("2028-01-01T00:00:00Z"))


@pytest.mark.parametrize(("late", "count"), [(0, 3), (1, 2)])
def test_all_missed_times_up_to_the_maximum_age_fire(late: int, count: int) -> None:
    schedule = read({"cron": "@hourly", "missed": "all", "max_age": "2h"})
    found = due(schedule, at("05-01T00:00:00"), at("05-05T12:00:00") + late, "src_1")
    assert told(found) == ["05-05T10:00", "05-05T11:00", "05-05T12:00"][-count:]


def test_missed_times_from_the_last_seven_days_fire_by_default() -> None:
    schedule = read({"cron": "@daily", "missed": "all"})
    found = due(schedule, at("04-01T00:00:00"), at("05-10T00:00:00"), "src_1")
    assert told(found) == [f"05-{day:02}T00:00" for day in range(3, 11)]


def test_at_most_the_newest_1000_missed_times_fire() -> None:
    schedule = read({"cron": "* * * * *", "missed": "all"})
    found = due(schedule, at("05-04T00:00:00"), at("05-05T12:00:00"), "src_1")
    assert len(found.instants) == 1_000
    assert (told(found)[0], told(found)[-1]) == ("05-04T19:21", "05-05T12:00")
    assert all(then - before == MINUTE for before, then in pairwise(found.instants))


def test_a_thousand_missed_times_fire_while_the_next_is_delayed_by_jitter() -> None:
    schedule, last = read({"cron": "* * * * *", "missed": "all", "jitter": "30s"}), at("05-05T12:00:00")
    name = source_late_by(schedule, last, 20)
    found = due(schedule, tick_at(schedule, at("05-04T00:00:00"), name), last + 10 * SECOND, name)
    assert len(found.instants) == 1_000
    assert (told(found)[-1], found.next_at) == ("05-05T11:59", last + 20 * SECOND)


def test_after_a_long_pause_the_newest_missed_times_fire() -> None:
    """The schedule fires every minute from January to May, and no node runs from January to August."""
    schedule = read({"cron": "* * * 1-5 *", "missed": "all", "max_age": "366d"})
    found = due(schedule, at("01-10T00:00:00"), at("08-26T12:00:00"), "src_1")
    assert (told(found)[-1], found.next_at) == ("05-31T23:59", from_iso("2028-01-01T00:00:00Z"))
    assert len(found.instants) == 1_000


@pytest.mark.parametrize("missed", ["last", "skip", "all"])
def test_nothing_fires_early_and_the_next_time_is_returned(missed: str) -> None:
    schedule = read({"cron": "@hourly", "missed": missed})
    assert due(schedule, at("05-05T11:00:00"), at("05-05T10:59:59"), "src_1") == Due((), at("05-05T11:00:00"))
    late = read({"cron": "@hourly", "missed": missed, "jitter": "5s"})
    name = source_late_by(late, at("05-05T11:00:00"), 4)
    for now in ("10:59:59", "11:00:00", "11:00:03"):
        assert due(late, at("05-05T11:00:04"), at(f"05-05T{now}"), name) == Due((), at("05-05T11:00:04"))
    assert told(due(late, at("05-05T11:00:04"), at("05-05T11:00:04"), name)) == ["05-05T11:00"]


@pytest.mark.parametrize("missed", ["last", "skip", "all"])
@pytest.mark.parametrize("late", [0, 1, 2, 3])
def test_a_delayed_time_is_reported_without_its_jitter(missed: str, late: int) -> None:
    schedule = read({"cron": "@hourly", "missed": missed, "jitter": "3s", "max_age": "0s"})
    name = source_late_by(schedule, at("05-05T10:00:00"), late)
    tick = at("05-05T10:00:00") + late * SECOND
    for now in (tick, tick + MINUTE):
        assert told(due(schedule, tick, now, name)) == ["05-05T10:00"]
    assert len(due(schedule, tick, tick + MINUTE + 1, name).instants) == (1 if missed == "last" else 0)


def test_the_age_of_a_missed_time_is_measured_from_the_end_of_its_jitter() -> None:
    schedule = read({"cron": "@hourly", "missed": "all", "jitter": "30m", "max_age": "1h"})
    instant = at("05-05T10:00:00")
    name = source_late_by(schedule, instant, 1_700)
    tick = instant + 1_700 * SECOND
    assert instant in due(schedule, tick, tick + HOUR, name).instants
    assert instant not in due(schedule, tick, tick + HOUR + 1, name).instants


@pytest.mark.parametrize("next_at", ["05-05T09:13:00", "05-05T10:00:00.000001", "05-05T09:59:59.999999"])
def test_an_unexpected_next_time_resets_the_schedule(next_at: str) -> None:
    found = due(read({"cron": "@hourly", "missed": "all"}), at(next_at), at("05-05T12:00:00"), "src_1")
    assert found == Due((), at("05-05T13:00:00"))


def test_a_schedule_without_a_next_time_is_not_checked_again() -> None:
    assert due(Schedule(NEVER, UTC), at("05-05T10:00:00"), at("05-05T10:00:00"), "src_1") == Due((), None)


@given(
    st.sampled_from(["* * * * *", "*/5 * * * *", "@hourly", "@daily"]),
    st.sampled_from(list(Missed)),
    st.integers(0, 90),
    st.integers(0, 3 * 3_600),
    st.integers(1, 40),
)
def test_no_time_fires_twice_and_no_current_time_is_lost(
    cron: str, missed: Missed, jitter: int, start: int, step: int
) -> None:
    """A node that checks at least once a minute, and when the next time is due, reports each time once and in order."""
    schedule = read({"cron": cron, "jitter": f"{jitter}s", "missed": missed.value})
    begin = at("05-05T22:00:00") + start * SECOND
    seen: list[int] = []
    next_at, now = first_at(schedule, begin, "src_1"), begin
    for _ in range(60):
        now += step * SECOND
        if next_at is not None and next_at <= now:
            found = due(schedule, next_at, now, "src_1")
            seen += found.instants
            next_at = found.next_at
    ticks = [each for each in islice(schedule.after(begin), 60) if tick_at(schedule, each, "src_1") <= now]
    assert seen == ticks
