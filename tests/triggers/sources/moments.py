"""The current time in the source tests."""

from datetime import UTC, datetime

NOW = 1_800_000_000_000_000


def moment(at: int) -> datetime:
    return datetime.fromtimestamp(at // 1_000_000, tz=UTC)
