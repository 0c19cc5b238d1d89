"""What others wrote, made safe to look at: pure functions from values to text for the templates.

Nothing here returns HTML: the templates escape all of it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assent.domain.audit import stubbed
from assent.domain.breakpoint import NEVER, Event
from assent.domain.instants import SECOND, iso
from assent.store.reading import Summary

MAX_HEADLINE = 200
MINUTE, HOUR, DAY = 60, 3600, 24 * 3600
JUST_NOW = 5
SOON = 10 * MINUTE * SECOND


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
        named = {"timeout": "the deadline", "undo": "Assent", "project-removed": "Assent (project removed)"}
        return named.get(name, f"Assent ({name})")
    return f"the {kind} {name}".strip()


def headline(row: Summary) -> str:
    """Return the one line that stands for a breakpoint."""
    return one_line(row.title or row.question or row.gate, row.gate)


def one_line(text: str, otherwise: str) -> str:
    line = " ".join(text.split()) or otherwise
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
        "reminded": f"reminded {_named(metadata.get('to'))}",
        "escalated": f"escalated it to {_named(metadata.get('to'))}",
        "delegated": f"asked {metadata.get('to', 'somebody')}, since {metadata.get('from', 'somebody')} is away",
        "answer-dropped": _told_drop(metadata),
    }
    return sentences.get(event.type, event.type)


def _told_drop(metadata: Mapping[str, Any]) -> str:
    approved = metadata.get("approved")
    kind = "answer" if approved is None else "approval" if approved else "rejection"
    return f"did not send the {kind} by {metadata.get('person', 'a reviewer')}: {metadata.get('why', '')}"


def _named(names: Any) -> str:  # noqa: ANN401  # whatever an event says
    return ", ".join(str(each).removeprefix("person:") for each in names or ()) or "nobody"


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
    if metadata.get("afterResetBy"):
        said += f", after reset by {metadata['afterResetBy']}"
    return f"{said} (via {metadata.get('via', 'api')})"
