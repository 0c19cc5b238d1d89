"""Notification preferences: a person's channels and quiet hours, and their deputy while they are away."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from assent.core.canonical import Json, is_array, is_object
from assent.core.errors import InvalidRequest
from assent.core.timestamps import SECOND, from_iso, iso

MOST_CHANNELS = 20
LONGEST_NAME = 100
LONGEST_CHAIN = 3
"""The maximum length of a chain of deputies; the last deputy is notified even if that person is also away."""
THEMES = ("light", "dark")
"""The themes that a person can choose instead of their system's theme."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
# In ASCII mode, because `\d` would also match digits from other scripts.
_CLOCK = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d", re.ASCII)
_LATEST = 253_000_000_000 * SECOND  # shortly before the year 10000, which datetime does not support


@dataclass(frozen=True, slots=True)
class QuietHours:
    """A daily period in local time; it spans midnight if the end is before the start."""

    begin: time
    end: time
    zone: str


@dataclass(frozen=True, slots=True)
class Away:
    """An absence in microseconds; without `begins_at` it has already begun, and without `ends_at` it does not end."""

    deputy: str
    begins_at: int | None = None
    ends_at: int | None = None


@dataclass(frozen=True, slots=True)
class Preferences:
    channels: tuple[str, ...] = ()
    """Channel names in order of preference; if empty, the route's channels are used."""
    quiet: QuietHours | None = None
    away: Away | None = None

    @property
    def zone(self) -> str | None:
        """The time zone for times in messages, if the person has set one."""
        return self.quiet.zone if self.quiet else None


NONE = Preferences()


def quiet_until(preferences: Preferences, at: int) -> int | None:
    """Return when the current quiet hours end, or None outside quiet hours."""
    if preferences.quiet is None or not 0 <= at < _LATEST:
        return None
    quiet = preferences.quiet
    try:
        zone = ZoneInfo(quiet.zone)
    except (OSError, ValueError, KeyError):
        return None  # unknown time zone: better to notify the person at night than never
    today = (_EPOCH + timedelta(microseconds=at)).astimezone(zone).date()
    over = _DAY if quiet.end <= quiet.begin else timedelta()
    # Quiet hours that span midnight may have begun yesterday.
    for day in (today - _DAY, today):
        end = _instant(datetime.combine(day + over, quiet.end), zone)
        if _instant(datetime.combine(day, quiet.begin), zone) <= at < end:
            return end
    return None


def deputy(preferences: Preferences, at: int) -> str | None:
    """Return the name of the deputy if the person is away at this moment."""
    away = preferences.away
    if away is None or (away.begins_at is not None and at < away.begins_at):
        return None
    return away.deputy if away.ends_at is None or at < away.ends_at else None


def _instant(local: datetime, zone: tzinfo) -> int:
    # If a local time occurs twice, use the first. If it is skipped, move it forward by the length of the gap.
    return (local.replace(tzinfo=zone) - _EPOCH) // timedelta(microseconds=1)


def read(body: Mapping[str, Json]) -> Preferences:
    """Parse preferences, or raise InvalidRequest with a pointer to the invalid field."""
    _refuse_unknown(body, ("channels", "quiet", "away"), "")
    return Preferences(_channels(body.get("channels")), _quiet(body.get("quiet")), _away(body.get("away")))


def written(preferences: Preferences) -> dict[str, Json]:
    """Return the preferences in the form that `read` accepts."""
    quiet, away = preferences.quiet, preferences.away
    return {
        "channels": list(preferences.channels),
        "quiet": quiet and {"from": f"{quiet.begin:%H:%M}", "to": f"{quiet.end:%H:%M}", "timezone": quiet.zone},
        "away": away and {"deputy": away.deputy, "from": _shown(away.begins_at), "until": _shown(away.ends_at)},
    }


def _shown(at: int | None) -> str | None:
    return None if at is None else iso(at)


def _channels(given: Json) -> tuple[str, ...]:
    listed: Json = [] if given is None else given
    if not is_array(listed) or len(listed) > MOST_CHANNELS:
        raise InvalidRequest.at("/channels", f"must be a list of at most {MOST_CHANNELS} channel names")
    return tuple(dict.fromkeys(_name(each, f"/channels/{n}") for n, each in enumerate(listed)))


def _quiet(given: Json) -> QuietHours | None:
    if given is None:
        return None
    body = _object(given, "/quiet", ("from", "to", "timezone"))
    begin, end = _clock(body.get("from"), "/quiet/from"), _clock(body.get("to"), "/quiet/to")
    if begin == end:
        raise InvalidRequest.at("/quiet/to", "must differ from the start")
    return QuietHours(begin, end, time_zone(body.get("timezone"), "/quiet/timezone"))


def time_zone(given: Json, pointer: str) -> str:
    """Return the name of a time zone, or raise InvalidRequest if this machine does not know it."""
    name = _name(given, pointer)
    try:
        # KeyError for unknown names, ValueError for paths such as ../etc, OSError for folders such as Europe
        ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        raise InvalidRequest.at(pointer, "must be a time zone, for example Europe/Berlin or UTC") from error
    return name


def theme(given: str) -> str | None:
    """Return the chosen theme, or None for the system's theme."""
    if given in {"", "system"}:
        return None
    if given not in THEMES:
        raise InvalidRequest.at("/theme", f"must be system, {' or '.join(THEMES)}")
    return given


def _away(given: Json) -> Away | None:
    if given is None:
        return None
    body = _object(given, "/away", ("deputy", "from", "until"))
    begins, ends = _moment(body.get("from"), "/away/from"), _moment(body.get("until"), "/away/until")
    if begins is not None and ends is not None and ends <= begins:
        raise InvalidRequest.at("/away/until", "must be later than the start")
    return Away(_name(body.get("deputy"), "/away/deputy"), begins, ends)


def _object(given: Json, pointer: str, known: Sequence[str]) -> Mapping[str, Json]:
    if not is_object(given):
        raise InvalidRequest.at(pointer, f"must be an object with {', '.join(known)}")
    _refuse_unknown(given, known, pointer)
    return given


def _refuse_unknown(body: Mapping[str, Json], known: Sequence[str], pointer: str) -> None:
    unknown = next((name for name in body if name not in known), None)
    if unknown is not None:
        raise InvalidRequest.at(f"{pointer}/{unknown}", f"is not a known field. Use one of {', '.join(known)}")


def _name(given: Json, pointer: str) -> str:
    if not isinstance(given, str) or not 1 <= len(given) <= LONGEST_NAME:
        raise InvalidRequest.at(pointer, f"must be a name of 1 to {LONGEST_NAME} characters")
    return given


def _clock(given: Json, pointer: str) -> time:
    if not isinstance(given, str) or _CLOCK.fullmatch(given) is None:
        raise InvalidRequest.at(pointer, "must be a time, for example 22:00")
    return time.fromisoformat(given)


def _moment(given: Json, pointer: str) -> int | None:
    if given is None:
        return None
    try:
        at = from_iso(given if isinstance(given, str) else "")
        iso(at)  # converting to UTC can move the year out of range
    except (ValueError, OverflowError) as error:
        raise InvalidRequest.at(pointer, "must be a time, for example 2027-01-31T18:00:00Z") from error
    return at
