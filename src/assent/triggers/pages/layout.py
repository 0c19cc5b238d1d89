"""The trigger pages' layout, state names and form errors."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from assent.core.errors import AssentError, InvalidRequest, NotFound
from assent.http.problems import STATUS
from assent.triggers.model import Because, FiringState
from assent.web.admin import words
from assent.web.site import Visit, large_page

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
    "removed": "Removed. Past events and runs remain in the history.",
    "suspended": "Suspended. Events are queued, and no runs start.",
    "resumed": "Resumed. Held firings are now being processed, oldest first.",
    "replayed": "Replayed. The event is being matched against the current triggers.",
    "retried": "Retrying now.",
    "discarded": "Discarded. The firing will not start a run.",
    "on": "Enabled.",
    "off": "Disabled. Events are rejected until you enable the source again.",
}
WHY = {
    Because.DEBOUNCE: "waiting for a quiet period",
    Because.SUSPENDED: "the trigger is suspended",
    Because.APPROVAL: "waiting for approval",
    Because.ROOM: "waiting for a free slot",
    Because.RETRY: "could not be started yet and will be retried",
    Because.ONCE: "already fired for the same key",
    Because.BUSY: "the limit on concurrent runs was reached",
    Because.REPLACED: "replaced by a newer event",
    Because.MERGED: "merged with a later event",
    Because.LOOP: "possible loop: the chain of runs is too long",
    Because.NOT_APPROVED: "not approved",
    Because.DISCARDED: "discarded by a person",
}
"""Why a firing is held or was skipped."""
MEANS = {
    FiringState.HELD: "waiting",
    FiringState.STARTED: "started a run",
    FiringState.SKIPPED: "did not start a run",
    FiringState.DEAD: "failed, no more retries",
}
MAX_FILTER = 200
_ID = re.compile(r"[0-9A-Za-z_.-]{1,80}", re.ASCII)


def known_id(visit: Visit, name: str, what: str) -> str:
    """Return the ID from the path. If it is invalid, raise NotFound without querying the database."""
    found: str = visit.request.path_params[name]
    if not _ID.fullmatch(found):
        msg = f"{what.capitalize()} {found[:60]!r} not found in this project."
        raise NotFound(msg)
    return found


async def trigger_page(
    template: str,
    place: str,
    *,
    visit: Visit,
    error: AssentError | None = None,
    **values: Any,  # noqa: ANN401 # any template variables
) -> Response:
    """Render a trigger page. After an error, include the submitted values and the reason."""
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
    """An error in a submitted form, and the control that caused it."""

    text: str
    control: str | None = None


def pointer_of(error: AssentError) -> tuple[str, str]:
    """Return the error's JSON pointer and message."""
    found: Sequence[Mapping[str, str]] = dict(error.details).get("errors") or ()  # type: ignore[assignment]
    return (found[0]["pointer"], found[0]["detail"]) if found else ("", error.message)


def said(error: AssentError) -> str:
    return words(error)


def text_filter(visit: Visit, name: str) -> str:
    """Return a list filter; an empty string means that it is not set."""
    value = visit.request.query_params.get(name, "").strip()
    if len(value) > MAX_FILTER or "\x00" in value:
        raise InvalidRequest.at(name, f"must have at most {MAX_FILTER} characters and must not contain NUL")
    return value


def cursor(visit: Visit, ids: re.Pattern[str]) -> str:
    value = visit.request.query_params.get("cursor", "")
    if value and not ids.fullmatch(value):
        raise InvalidRequest.at("cursor", "is not a cursor from this list")
    return value
