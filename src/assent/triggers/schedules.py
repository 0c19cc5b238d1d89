"""Schedules: cron expressions with a time zone, daylight saving time, jitter, and missed ticks."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from hashlib import sha256
from itertools import takewhile
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from assent.core.durations import whole_seconds
from assent.core.errors import InvalidRequest
from assent.core.timestamps import SECOND

NAMES = frozenset({"cron", "timezone", "jitter", "missed", "max_age"})
FIELDS = 5
DAY = 24 * 3600 * SECOND
MAX_AGE = "7d"
MOST_TICKS = 1_000
"""The maximum number of missed ticks to catch up on. The newest ticks are used."""
LONGEST_JITTER = 24 * 3600
ON_TIME = 60 * SECOND
"""A tick that is delayed by more than this counts as missed, because no node was running."""
LONGEST = 200
SHORT = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ANY_DAY = datetime(2024, 1, 1, tzinfo=UTC)


class Missed(StrEnum):
    """How to handle scheduled times that passed while no node was running."""

    LAST = "last"
    SKIP = "skip"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Schedule:
    cron: str
    zone: tzinfo
    jitter: int = 0
    """Maximum delay of a tick in seconds, so that schedules do not all fire in the same second."""
    missed: Missed = Missed.LAST
    max_age: int = 7 * DAY
    """Maximum age of a missed time in microseconds; used only for `all`."""

    def after(self, at: int) -> Iterator[int]:
        """Yield the scheduled times after `at`, in order and without duplicates when the clocks change."""
        last = at
        for moment in CronSim(self.cron, _moment(at, self.zone)):
            found = _instant(moment)
            # A search that starts between two occurrences of the same local time finds the earlier one again.
            if found > last:
                last = found
                yield found


@dataclass(frozen=True, slots=True)
class Due:
    """The scheduled times that are due, and when to check again."""

    instants: tuple[int, ...]
    next_at: int | None


def read(settings: Mapping[str, Any]) -> Schedule:
    """Parse the settings of a schedule, or raise InvalidRequest with the location of the error."""
    schedule = Schedule(
        cron=_cron(settings.get("cron")),
        zone=_zone(settings.get("timezone", "UTC")),
        jitter=_length("jitter", settings.get("jitter", "0s"), most=LONGEST_JITTER),
        missed=_missed(settings.get("missed", Missed.LAST.value)),
        max_age=_length("max_age", settings.get("max_age", MAX_AGE), most=366 * 24 * 3600) * SECOND,
    )
    # CronSim accepts dates that never occur.
    if next(schedule.after(_instant(_ANY_DAY)), None) is None:
        raise InvalidRequest.at("/settings/cron", "never matches, because the date does not exist")
    return schedule


def _cron(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST:
        raise InvalidRequest.at("/settings/cron", "must be a cron expression, for example 30 2 * * 1-5")
    line = SHORT.get(value.strip().lower(), value.strip())
    if line.startswith("@every"):
        hint = "use */15 * * * * for every 15 minutes, 0 */2 * * * for every 2 hours"
        raise InvalidRequest.at(
            "/settings/cron", f"@every is not supported, because its times would shift with every restart; {hint}"
        )
    if line.startswith("@"):
        raise InvalidRequest.at("/settings/cron", f"{value.strip()} is not one of {', '.join(SHORT)}")
    if len(line.split()) != FIELDS:
        msg = "must have five fields: minute, hour, day of the month, month, day of the week"
        raise InvalidRequest.at("/settings/cron", msg)
    try:
        CronSim(line, _ANY_DAY)
    except CronSimError as error:
        raise InvalidRequest.at("/settings/cron", f"is not a valid cron expression: {str(error).lower()}") from error
    return line


def _zone(value: object) -> tzinfo:
    wrong = InvalidRequest.at("/settings/timezone", "must be a time zone, for example Europe/Paris or UTC")
    if not isinstance(value, str) or len(value) > LONGEST:
        raise wrong
    try:
        return ZoneInfo(value.strip())
    except (ValueError, OSError, ZoneInfoNotFoundError) as error:
        raise wrong from error


def _length(name: str, value: object, *, most: int) -> int:
    try:
        found = whole_seconds(value) if isinstance(value, str) else -1
    except ValueError:
        found = -1
    if not 0 <= found <= most:
        msg = f"must be a duration, for example 30s, 2m or 1h, and at most {most // 3600}h"
        raise InvalidRequest.at(f"/settings/{name}", msg)
    return found


def _missed(value: object) -> Missed:
    if not isinstance(value, str) or value not in list(Missed):
        raise InvalidRequest.at("/settings/missed", f"must be one of {', '.join(Missed)}")
    return Missed(value)


def tick_at(schedule: Schedule, instant: int, source_id: str) -> int:
    """Return when a scheduled time fires: the same time on every node, and always before the next scheduled time."""
    if not schedule.jitter:
        return instant
    following = next(schedule.after(instant), None)
    # A delay shorter than the interval keeps the order of the scheduled times.
    room = schedule.jitter if following is None else min(schedule.jitter, (following - instant) // SECOND - 1)
    if room <= 0:
        return instant
    # Derived from a hash instead of a random number, so that all nodes choose the same delay.
    chance = int.from_bytes(sha256(f"{source_id}:{instant}".encode()).digest()[:8])
    return instant + chance % (room + 1) * SECOND


def first_at(schedule: Schedule, now: int, source_id: str) -> int | None:
    """Return the first tick of a schedule that starts now, ignoring earlier times."""
    instant = next(schedule.after(now), None)
    return None if instant is None else tick_at(schedule, instant, source_id)


def due(schedule: Schedule, next_at: int, now: int, source_id: str) -> Due:
    """Return the scheduled times that are due. `next_at` is the expected time of the next tick."""
    first = _instant_of(schedule, next_at)
    if first is None:  # not a time of this schedule, so start over
        return Due((), first_at(schedule, now, source_id))
    oldest = first
    if schedule.missed is Missed.ALL:
        # Jitter can delay a tick past its scheduled time, and a tick that is on time always fires.
        longest = max(schedule.max_age, ON_TIME) + schedule.jitter * SECOND
        oldest = min(max(first, now - longest), now)
    found = [(each, tick_at(schedule, each, source_id)) for each in _newest(schedule, oldest, now, most=MOST_TICKS + 1)]
    told = _told(schedule, {instant: now - tick for instant, tick in found if tick <= now})
    waiting = next((tick for _, tick in found if tick > now), None)
    return Due(told, first_at(schedule, now, source_id) if waiting is None else waiting)


def _told(schedule: Schedule, ages: Mapping[int, int]) -> tuple[int, ...]:
    """Return the scheduled times to fire. Ages are measured from the ticks, so they exclude jitter."""
    on_time = [each for each, age in ages.items() if age <= ON_TIME]
    if schedule.missed is Missed.SKIP or len(on_time) == len(ages):
        return tuple(on_time)
    if schedule.missed is Missed.LAST:
        return tuple(ages)[-1:]
    return tuple(each for each, age in ages.items() if age <= max(schedule.max_age, ON_TIME))[-MOST_TICKS:]


def _instant_of(schedule: Schedule, next_at: int) -> int | None:
    """Return the scheduled time that fires at `next_at`: the last scheduled time that is not after it."""
    window = takewhile(lambda each: each <= next_at, schedule.after(next_at - schedule.jitter * SECOND - 1))
    return max(window, default=None)


def _newest(schedule: Schedule, since: int, until: int, *, most: int) -> list[int]:
    """Return the newest scheduled times in this inclusive range without iterating over all of a long range."""
    length = 3600 * SECOND
    while True:
        # Start with the last hour and double the range until it contains enough times.
        begin = max(since, until - length)
        found = deque(takewhile(lambda each: each <= until, schedule.after(begin - 1)), maxlen=most)
        if len(found) == most or begin <= since:
            return list(found)
        length *= 2


def _moment(at: int, zone: tzinfo) -> datetime:
    return (_EPOCH + timedelta(microseconds=at)).astimezone(zone)


def _instant(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
