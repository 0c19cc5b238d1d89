"""The undo window: an answer submitted on a page takes effect a few seconds later, and can be undone until then."""

from dataclasses import dataclass

from assent.core.terms import Answer
from assent.core.timestamps import SECOND

MARGIN = 2 * SECOND
"""A window ends at least this long before the deadline, because a node may apply the answer slightly late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAnswer:
    """An answer that passed every check and takes effect when it is due, unless the reviewer undoes it."""

    breakpoint_id: str
    person_id: str
    project: str
    answer: Answer
    override: bool
    via: str
    batch: str | None
    due_at: int
    created_at: int


@dataclass(frozen=True, slots=True)
class PendingAnswer:
    """An answer in its undo window, as shown to reviewers."""

    person: str
    approved: bool
    due_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsentAnswer:
    """An answer that never took effect, with the reason. It is shown to the reviewer until they dismiss it."""

    id: str
    breakpoint_id: str
    person_id: str
    project: str
    approved: bool
    comment: str | None
    why: str
    at: int


def window_end(now: int, *, seconds: int, deadline: int) -> int | None:
    """Return when the undo window of an answer submitted at `now` ends, or None if the deadline is too close."""
    end = min(now + seconds * SECOND, deadline - MARGIN)
    return end if end > now else None
