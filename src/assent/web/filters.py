"""Template filters: pure functions that format values as text.

They do not return HTML, so templates escape the results.
"""

import json
import re
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from assent.core.plurals import plural
from assent.core.timestamps import SECOND

MAX_HEADLINE = 200
MINUTE, HOUR, DAY = 60, 3600, 24 * 3600
JUST_NOW = 5
SOON = 10 * MINUTE * SECOND
TONES = 8
"""Number of avatar colors; the style sheet calls them `tone-0` and so on."""
_WORD = re.compile(r"[^\W_]+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Imported template macros cannot see the page's variables, so the time zone is a context variable.
_zone: ContextVar[tzinfo] = ContextVar("time zone of the page being rendered", default=UTC)


def pretty(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


@contextmanager
def times_in(name: str | None) -> Generator[None, None, None]:
    """Format times in this time zone, or in UTC if it is missing or unknown."""
    try:
        zone = ZoneInfo(name) if name else UTC
    except (OSError, ValueError, KeyError):
        zone = UTC
    before = _zone.set(zone)
    try:
        yield
    finally:
        _zone.reset(before)


def exact(at: int) -> str:
    """Return the date and time in the reader's time zone, with the zone's name."""
    try:
        moment = (_EPOCH + timedelta(microseconds=at)).astimezone(_zone.get())
    except OverflowError:
        moment = _EPOCH + timedelta(microseconds=at)  # the last hours of the year 9999
    name = f"{moment:%Z}"
    return f"{moment:%Y-%m-%d %H:%M:%S} {name if name[:1].isalpha() else f'UTC{name}'}"


def relative(at: int, now: int) -> str:
    """Format the difference between a time and now in a single unit, such as `5 min ago`."""
    # static/times.js formats times in the same way, so that they do not change when the scripts start.
    seconds = abs(at - now) // SECOND
    if at <= now and seconds < JUST_NOW:
        return "just now"
    for size, limit, name in ((1, MINUTE, "s"), (MINUTE, HOUR, "min"), (HOUR, 2 * DAY, "h")):
        if seconds < limit:
            distance = f"{seconds // size} {name}"
            break
    else:
        distance = f"{seconds // DAY} days"
    return f"in {distance}" if at > now else f"{distance} ago"


def person(actor: str | None) -> str:
    """Return the display name of an actor."""
    kind, _, name = (actor or "").partition(":")
    if kind == "person":
        return name
    if kind == "system":
        named = {"timeout": "Assent (deadline)", "undo": "Assent", "project-removed": "Assent (project removed)"}
        return named.get(name, f"Assent ({name})")
    return f"{kind} {name}".strip()


def initials(name: str) -> str:
    """Return the initials of the first and last word of a name, or the first two letters of a single word."""
    words = _WORD.findall(name) or ["?"]
    letters: str = words[0][0] + words[-1][0] if len(words) > 1 else words[0][:2]
    return letters.upper()


def tone(name: str) -> int:
    """Return the color number for a name; it is the same on every page and server."""
    # Not hash(), whose results for strings differ between processes.
    return zlib.crc32(name.encode()) % TONES


def file_size(count: int) -> str:
    if count < 1024:  # noqa: PLR2004  # bytes in a KiB
        return plural(count, "byte")
    return f"{count / 1024:.0f} KiB" if count < 1024 * 1024 else f"{count / 1024 / 1024:.1f} MiB"
