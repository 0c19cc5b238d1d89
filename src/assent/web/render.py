"""Template filters: pure functions that format values as text.

They do not return HTML, so templates escape the results.
"""

import json
import re
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from assent.domain import headlines
from assent.domain.access import TIMEOUT
from assent.domain.audit import stubbed
from assent.domain.breakpoint import NEVER, Event
from assent.domain.headlines import Headline
from assent.domain.instants import SECOND
from assent.domain.plurals import plural
from assent.store.reading import Summary, Whole

MAX_HEADLINE = 200
MINUTE, HOUR, DAY = 60, 3600, 24 * 3600
JUST_NOW = 5
SOON = 10 * MINUTE * SECOND
TONES = 8
"""Number of avatar colors; the style sheet calls them `tone-0` and so on."""
_WORD = re.compile(r"[^\W_]+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Imported template macros do not see the page's variables, so the time zone is a context variable.
_zone: ContextVar[tzinfo] = ContextVar("time zone of the page that is rendered", default=UTC)


def pretty(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


@contextmanager
def times_in(name: str | None) -> Generator[None, None, None]:
    """Format times in this time zone; in UTC if it is missing or unknown."""
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
    """Format the distance between a time and now with one unit."""
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
    """Return the number of a name's color, which is the same on every page and server."""
    return zlib.crc32(name.encode()) % TONES


def ended_by(actor: str | None) -> str:
    """Return the text after a breakpoint's outcome, such as “by ann” or “at the deadline”."""
    return "at the deadline" if actor == str(TIMEOUT) else f"by {person(actor)}"


def headline(row: Summary) -> str:
    """Return a breakpoint's headline in one line."""
    return headlines.cut(heading(row).text, MAX_HEADLINE)


def heading(row: Summary, payload: str | None = None) -> Headline:
    """Return the headline of a breakpoint; for a row of a list, pass the payload if it was read separately."""
    known = row.payload if isinstance(row, Whole) else payload
    return headlines.headline(row.title, row.gate, json.loads(known) if known else {"question": row.question})


def outcome(row: Summary) -> str:
    return row.decision or row.status


@dataclass(frozen=True, slots=True)
class Deadline:
    at: int
    soon: bool


def deadline(row: Summary, now: int) -> Deadline | None:
    return Deadline(row.due_at, row.due_at - now < SOON) if row.due_at != NEVER else None


def file_size(count: int) -> str:
    if count < 1024:  # noqa: PLR2004  # bytes in a KiB
        return plural(count, "byte")
    return f"{count / 1024:.0f} KiB" if count < 1024 * 1024 else f"{count / 1024 / 1024:.1f} MiB"


def told(event: Event) -> str:
    """Describe an event of the history as a sentence without its subject, which is the actor."""
    metadata = event.metadata
    if event.type == "responded":
        return "answered" if stubbed(metadata) else _told_response(metadata)
    sentences = {
        "created": "created this",
        "commented": "commented",
        "released": f"{metadata.get('decision', 'decided')} this",
        "warned": f"received a warning: {metadata.get('warning', '')}",
        "expired": "marked this as expired",
        "cancelled": "cancelled this",
        "purged": "deleted the content",
        "claimed": "claimed this",
        "unclaimed": "unclaimed this",
        "assigned": f"assigned this to {metadata.get('to', 'someone')}",
        "reminded": f"reminded {_named(metadata.get('to'))}",
        "escalated": f"escalated this to {_named(metadata.get('to'))}",
        "delegated": f"asked {metadata.get('to', 'someone')} because {metadata.get('from', 'someone')} is away",
        "answer-dropped": _told_drop(metadata),
    }
    return sentences.get(event.type, event.type)


def _told_drop(metadata: Mapping[str, Any]) -> str:
    approved = metadata.get("approved")
    kind = "answer" if approved is None else "approval" if approved else "rejection"
    return f"did not send {metadata.get('person', 'a reviewer')}’s {kind}: {metadata.get('why', '')}"


def _named(names: Any) -> str:  # noqa: ANN401  # metadata is arbitrary JSON
    return ", ".join(str(each).removeprefix("person:") for each in names or ()) or "no one"


def _told_response(metadata: Mapping[str, Any]) -> str:
    said = "submitted an approval" if metadata.get("approved") else "submitted a rejection"
    if metadata.get("option"):
        said += f" with “{metadata['option']}”"
    if metadata.get("expert"):
        said += f" for {metadata['expert']}"
    if metadata.get("inPlaceOf"):
        said += f" in place of {', '.join(metadata['inPlaceOf'])}"
    if metadata.get("override"):
        said += ", overriding as an admin"
    if metadata.get("afterResetBy"):
        said += f", flagged “access reset by {metadata['afterResetBy']}”"
    return f"{said} (via {metadata.get('via', 'api')})"
