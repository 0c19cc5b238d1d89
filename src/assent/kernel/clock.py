"""A clock that is not affected by changes to the system time."""

import time

# Only Linux has CLOCK_BOOTTIME, which keeps running while the machine sleeps.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady() -> int:
    """Return the time, in microseconds, of a clock that cannot be set and keeps running while the machine sleeps."""
    return time.clock_gettime_ns(_STEADY) // 1000


class SystemClock:
    """The system time at startup plus the elapsed time, so that setting the system clock does not move deadlines."""

    def __init__(self) -> None:
        self._offset = time.time_ns() // 1000 - steady()

    def now(self) -> int:
        return steady() + self._offset
