"""Token buckets that limit the number of requests per minute."""

import math
from collections.abc import Callable

from assent.core.errors import RateLimited
from assent.core.timestamps import SECOND


class RateLimit:
    """A bucket for each key, which is refilled continuously; it exists only in the memory of this node."""

    def __init__(self, per_minute: int, now: Callable[[], int]) -> None:
        self._per_minute = per_minute
        self._now = now
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, key: str, *, per_minute: int | None = None, what: str = "requests") -> None:
        limit = self._per_minute if per_minute is None else per_minute
        if limit <= 0:
            return
        now = self._now() / SECOND
        level, since = self._buckets.get(key, (float(limit), now))
        # If the clock was set back, the level of the bucket does not change.
        level = min(float(limit), level + max(0.0, now - since) * limit / 60)
        if level < 1:
            wait = (1 - level) * 60 / limit
            msg = f"More than {limit} {what} per minute. Try again in {max(1, math.ceil(wait))} s."
            raise RateLimited(msg, retry_after=wait, limit=limit)
        if len(self._buckets) > 100_000:  # noqa: PLR2004  # limits memory, not requests
            # Remove only the oldest bucket, because removing all of them would reset every limit.
            del self._buckets[next(iter(self._buckets))]
        self._buckets[key] = (level - 1, now)
