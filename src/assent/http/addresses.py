"""What may stand in an address or a filter."""

import re

from assent.domain.breakpoint import Status
from assent.domain.errors import NotFound

STATUSES = tuple(status.value for status in Status)
_ID = re.compile(r"bp_[0-9a-z]{26}")


def known_id(breakpoint_id: str) -> str:
    """Anything that cannot be an id is not there; the database need not be asked."""
    if not _ID.fullmatch(breakpoint_id):
        msg = f"There is no breakpoint {breakpoint_id[:60]!r} in this project."
        raise NotFound(msg)
    return breakpoint_id
