"""Time that nobody sets."""

import time

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady() -> int:
    """Microseconds that nobody sets: they go on while the machine sleeps, whatever its own clock says."""
    return time.clock_gettime_ns(_STEADY) // 1000


class SystemClock:
    """The machine's time when the node started, and what has passed since: whoever sets the clock moves no deadline."""

    def __init__(self) -> None:
        self._offset = time.time_ns() // 1000 - steady()

    def now(self) -> int:
        return steady() + self._offset
