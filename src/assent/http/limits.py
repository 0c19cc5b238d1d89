"""Token buckets: how much one principal may do in a minute."""

import math
from collections.abc import Callable

from assent.domain.errors import RateLimited
from assent.domain.instants import SECOND


class RateLimit:
    """A bucket per key that fills steadily; in memory, per node."""

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
        level = min(float(limit), level + max(0.0, now - since) * limit / 60)
        if level < 1:
            wait = (1 - level) * 60 / limit
            msg = f"More than {limit} {what} per minute. Try again in {max(1, math.ceil(wait))} s."
            raise RateLimited(msg, retry_after=wait, limit=limit)
        if len(self._buckets) > 100_000:  # noqa: PLR2004  # a bound on memory, not a behaviour
            # The oldest goes: clearing them all would give everybody a fresh start.
            del self._buckets[next(iter(self._buckets))]
        self._buckets[key] = (level - 1, now)
