"""What the pages about triggers share: their places, words for states, and what is wrong at which field."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from assent.domain.errors import AssentError, InvalidRequest, NotFound
from assent.domain.triggers import Because, FiringState
from assent.http.problems import STATUS
from assent.web.admin.frame import words
from assent.web.frame import Visit, large_page

PLACES = (
    ("triggers", "Triggers"),
    ("events", "Events"),
    ("firings", "Firings"),
    ("sources", "Sources"),
    ("schedule", "Schedule"),
)
DONE = {
    "created": "Created.",
    "saved": "Saved.",
    "removed": "Removed. What it started stays explained.",
    "suspended": "Suspended: events queue, and nothing runs.",
    "resumed": "Resumed: what was held goes on, the oldest first.",
    "replayed": "Replayed: it is held against the triggers as they stand now.",
    "retried": "It is tried again at once.",
    "discarded": "Let go: it will not start anything.",
    "on": "It is switched on.",
    "off": "It is switched off. Whatever it sends is refused until it is on again.",
}
WHY = {
    Because.DEBOUNCE: "waits until there is quiet",
    Because.SUSPENDED: "the trigger is suspended",
    Because.APPROVAL: "waits for an approval",
    Because.ROOM: "waits until there is room",
    Because.RETRY: "could not be started yet and is tried again",
    Because.ONCE: "it had fired for the same key before",
    Because.BUSY: "as many as it allows were running",
    Because.REPLACED: "a newer event took its place",
    Because.MERGED: "went on together with a later event",
    Because.LOOP: "looks like a loop: too many runs lie between it and the outside world",
    Because.NOT_APPROVED: "was not approved",
    Because.DISCARDED: "somebody let it go",
}
"""Why a firing is held or was skipped."""
MEANS = {
    FiringState.HELD: "waits",
    FiringState.STARTED: "started a run",
    FiringState.SKIPPED: "started nothing",
    FiringState.DEAD: "given up",
}
MAX_FILTER = 200
_ID = re.compile(r"[0-9A-Za-z_.-]{1,80}", re.ASCII)


def known_id(visit: Visit, name: str, what: str) -> str:
    """Anything that cannot be an id is not there; the database need not be asked."""
    found: str = visit.request.path_params[name]
    if not _ID.fullmatch(found):
        msg = f"There is no {what} {found[:60]!r} in this project."
        raise NotFound(msg)
    return found


async def trigger_page(
    template: str,
    place: str,
    *,
    visit: Visit,
    error: AssentError | None = None,
    **values: Any,  # noqa: ANN401
) -> Response:
    """Render a page about triggers; after a form that failed, with what was typed and why."""
    return await large_page(
        template,
        status=STATUS[type(error)] if error else 200,
        visit=visit,
        now=visit.site.clock.now(),
        place=place,
        sections=PLACES,
        done=DONE.get(visit.request.query_params.get("done", "")) if not error else None,
        why=WHY,
        **values,
    )


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with what was typed, and at which control."""

    text: str
    control: str | None = None


def pointer_of(error: AssentError) -> tuple[str, str]:
    """Return the place of what is wrong in what was sent, and the words about it."""
    found: Sequence[Mapping[str, str]] = dict(error.details).get("errors") or ()  # type: ignore[assignment]
    return (found[0]["pointer"], found[0]["detail"]) if found else ("", error.message)


def said(error: AssentError) -> str:
    return words(error)


def text_filter(visit: Visit, name: str) -> str:
    """Read a filter of a list; one that was left empty is none."""
    value = visit.request.query_params.get(name, "").strip()
    if len(value) > MAX_FILTER or "\x00" in value:
        raise InvalidRequest.at(name, f"must have at most {MAX_FILTER} characters and no NUL")
    return value


def cursor(visit: Visit, ids: re.Pattern[str]) -> str:
    value = visit.request.query_params.get("cursor", "")
    if value and not ids.fullmatch(value):
        raise InvalidRequest.at("cursor", "is not one that this list gave")
    return value


def plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
