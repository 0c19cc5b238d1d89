"""The undo window: an answer given on a page counts only some seconds later, and can be taken back until then."""

from dataclasses import dataclass

from assent.domain.instants import SECOND
from assent.domain.terms import Answer

MARGIN = 2 * SECOND
"""So long before the deadline a window ends at the latest: whoever gives the answer then may be a little late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAnswer:
    """An answer that was checked, and is given when it is due, unless its person takes it back."""

    breakpoint_id: str
    person_id: str
    project: str
    answer: Answer
    override: bool
    via: str
    batch: str | None
    due_at: int
    created_at: int


def window_end(now: int, *, seconds: int, deadline: int) -> int | None:
    """Return until when an answer can be taken back, or None when there is no time for that."""
    end = min(now + seconds * SECOND, deadline - MARGIN)
    return end if end > now else None
