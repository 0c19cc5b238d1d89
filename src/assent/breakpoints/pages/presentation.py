"""How pages and messages describe a breakpoint: its headline, deadline, outcome and history."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from assent.breakpoints.store.reading import Summary, Whole
from assent.core import headlines
from assent.core.access import TIMEOUT
from assent.core.breakpoint import NEVER, Event
from assent.core.chain import stubbed
from assent.core.headlines import Headline
from assent.web.filters import MAX_HEADLINE, SOON, person


def ended_by(actor: str | None) -> str:
    """Return the text after a breakpoint's outcome, such as “by ann” or “at the deadline”."""
    return "at the deadline" if actor == str(TIMEOUT) else f"by {person(actor)}"


def headline(row: Summary) -> str:
    """Return a breakpoint's headline on one line."""
    return headlines.cut(heading(row).text, MAX_HEADLINE)


def heading(row: Summary, payload: str | None = None) -> Headline:
    """Return a breakpoint's headline; for a list row, pass the payload if it was read separately."""
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


def told(event: Event) -> str:
    """Describe a history event as a sentence without its subject, the actor."""
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


FILTERS: dict[str, Callable[..., str]] = {"ended_by": ended_by, "headline": headline, "outcome": outcome, "told": told}
"""Template filters by name."""
