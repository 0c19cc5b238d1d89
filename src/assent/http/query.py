"""Parses IDs in paths, and filter parameters."""

import re

from assent.core.breakpoint import Status
from assent.core.errors import NotFound

CURSOR = "The `nextCursor` value from the previous page. All other parameters must stay the same."
LIMIT = "Maximum number of results."

STATUSES = tuple(status.value for status in Status)
DELIVERY_ID = re.compile(r"dlv_[0-9a-z]{26}")
EVENT_ID = re.compile(r"evt_[0-9a-z]{1,60}")
FIRING_ID = re.compile(r"fir_[0-9a-z]{1,60}")
RUN_ID = re.compile(r"run_[0-9a-z]{1,60}")
_ID = re.compile(r"bp_[0-9a-z]{26}")
_ORIGIN = re.compile(r"[a-z]+://[^/?#@]+(?=[/?#]|$)", re.IGNORECASE)


def known_id(breakpoint_id: str) -> str:
    """Raise NotFound for text that cannot be an ID, without querying the database."""
    if not _ID.fullmatch(breakpoint_id):
        msg = f"Breakpoint {breakpoint_id[:60]!r} not found in this project."
        raise NotFound(msg)
    return breakpoint_id


def known_delivery_id(delivery_id: str) -> str:
    if not DELIVERY_ID.fullmatch(delivery_id):
        msg = f"Delivery {delivery_id[:60]!r} not found in this project."
        raise NotFound(msg)
    return delivery_id


def known_run_id(run_id: str) -> str:
    if not RUN_ID.fullmatch(run_id):
        msg = f"Run {run_id[:80]!r} not found. Run IDs look like run_01k9…"
        raise NotFound(msg)
    return run_id


def known_event_id(event_id: str) -> str:
    if not EVENT_ID.fullmatch(event_id):
        msg = f"Event {event_id[:80]!r} not found. Event IDs look like evt_01k9…"
        raise NotFound(msg)
    return event_id


def known_firing_id(firing_id: str) -> str:
    if not FIRING_ID.fullmatch(firing_id):
        msg = f"Firing {firing_id[:80]!r} not found. Firing IDs look like fir_01k9…"
        raise NotFound(msg)
    return firing_id


def without_path(url: str) -> str:
    """Return the origin of a URL, with … for the rest, because the path or query of a webhook can be secret."""
    origin = _ORIGIN.match(url)
    if origin is None:
        return "…"
    return origin[0] if url[origin.end() :] in {"", "/"} else f"{origin[0]}/…"
