"""Timestamps as integers, in microseconds since 1970, and as RFC 3339 text."""

from datetime import UTC, datetime, timedelta

SECOND = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # isoformat of a naive datetime is ten times as fast as strftime


def iso(at: int) -> str:
    """Format a timestamp as RFC 3339 with microseconds. The fixed width makes the text sort by time."""
    return (_NAIVE_EPOCH + timedelta(microseconds=at)).isoformat(timespec="microseconds") + "Z"


def from_iso(text: str) -> int:
    """Parse RFC 3339 text. A time without an offset is in UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


LAST = "~"
"""Sorts after every ID, so that use cases that skip locked rows run last in a batch of commits."""
