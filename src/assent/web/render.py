"""What others wrote, made safe to look at: pure functions from values to text for the templates.

Nothing here returns HTML: the templates escape all of it.
"""

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assent.domain.audit import stubbed
from assent.domain.breakpoint import NEVER, Event
from assent.domain.instants import SECOND, iso
from assent.store.reading import Summary

MAX_HEADLINE = 200
MAX_MARKS = 4
MINUTE, HOUR, DAY = 60, 3600, 24 * 3600
JUST_NOW = 5
SOON = 10 * MINUTE * SECOND

# What a reader cannot see, or what changes how the rest is seen: controls, direction and format marks, fillers, tags,
# variation selectors, private use, surrogates. The tab and the line feed stay what they are.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ud800-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd"
    "\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
)
# A few marks on a letter are how a language is written; a heap of them covers the lines around.
_MARK = (
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f]"
)
_HEAP = re.compile(f"({_MARK}{{{MAX_MARKS}}})({_MARK}+)")
_EMOJI_STYLE, _JOINER, _KEYCAP = "\ufe0f", "\u200d", "\u20e3"
_SKIN_TONES = range(0x1F3FB, 0x1F400)


def visible(text: object) -> str:
    """Write out each character that hides or misleads, so that what is read is what is there."""
    return _HEAP.sub(_unheaped, _UNSEEN.sub(_written_out, str(text).replace("\r\n", "\n")))


def _unheaped(found: re.Match[str]) -> str:
    return found.group(1) + "".join(f"⟦U+{ord(mark):04X}⟧" for mark in found.group(2))


def _written_out(found: re.Match[str]) -> str:
    mark = found.group()
    before = found.string[found.start() - 1 : found.start()] if found.start() else ""
    after = found.string[found.end() : found.end() + 1]
    if mark == _EMOJI_STYLE and (_is_emoji(before) or after == _KEYCAP):
        return mark
    if mark == _JOINER and (_is_emoji(before) or before == _EMOJI_STYLE) and _is_emoji(after):
        return mark
    return f"⟦U+{ord(mark):04X}⟧"


def _is_emoji(mark: str) -> bool:
    return bool(mark) and (
        unicodedata.category(mark) == "So"
        or (unicodedata.category(mark) == "Sm" and mark >= "←")
        or mark in "‼⁉〰"
        or ord(mark) in _SKIN_TONES
    )


def pretty(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def exact(at: int) -> str:
    text = iso(at)
    return f"{text[:10]} {text[11:19]} UTC"


def relative(at: int, now: int) -> str:
    """Say how far away a moment is, in one unit."""
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
    """Name an actor as people speak of one."""
    kind, _, name = (actor or "").partition(":")
    if kind == "person":
        return name
    if kind == "system":
        return {"timeout": "the deadline", "undo": "Assent"}.get(name, f"Assent ({name})")
    return f"the {kind} {name}".strip()


def headline(row: Summary) -> str:
    """Return the one line that stands for a breakpoint."""
    text = row.title or row.question or row.gate
    line = " ".join(text.split()) or row.gate
    return line if len(line) <= MAX_HEADLINE else line[: MAX_HEADLINE - 1] + "…"


def outcome(row: Summary) -> str:
    return row.decision or row.status


@dataclass(frozen=True, slots=True)
class Deadline:
    at: int
    soon: bool


def deadline(row: Summary, now: int) -> Deadline | None:
    return Deadline(row.due_at, row.due_at - now < SOON) if row.due_at != NEVER else None


def file_size(count: int) -> str:
    if count < 1024:  # noqa: PLR2004  # a KiB
        return f"{count} byte{'' if count == 1 else 's'}"
    return f"{count / 1024:.0f} KiB" if count < 1024 * 1024 else f"{count / 1024 / 1024:.1f} MiB"


def told(event: Event) -> str:
    """Tell one event of the history as a sentence without its subject."""
    metadata = event.metadata
    if event.type == "responded":
        return "answered" if stubbed(metadata) else _told_response(metadata)
    sentences = {
        "created": "raised it",
        "commented": "commented",
        "released": f"{metadata.get('decision', 'released')} it",
        "warned": f"was warned: {metadata.get('warning', '')}",
        "expired": "let it expire",
        "cancelled": "cancelled it",
        "purged": "removed the content",
        "claimed": "took it",
        "unclaimed": "let it go",
        "assigned": f"assigned it to {metadata.get('to', 'somebody')}",
        "answer-dropped": f"did not send {metadata.get('person', 'somebody')}’s answer: {metadata.get('why', '')}",
    }
    return sentences.get(event.type, event.type)


def _told_response(metadata: Mapping[str, Any]) -> str:
    said = "answered yes" if metadata.get("approved") else "answered no"
    if metadata.get("option"):
        said += f" with “{metadata['option']}”"
    if metadata.get("expert"):
        said += f" for {metadata['expert']}"
    if metadata.get("inPlaceOf"):
        said += f" in place of {', '.join(metadata['inPlaceOf'])}"
    if metadata.get("override"):
        said += ", overriding as an admin"
    return f"{said} (via {metadata.get('via', 'api')})"
