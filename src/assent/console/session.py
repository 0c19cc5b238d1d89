"""A command's access to the server: the client, notices about retries, time limits and pagination."""

import time
from collections.abc import Callable
from typing import TypeVar

from assent.console import output
from assent.sdk.client import Assent
from assent.sdk.protocol import Flow, bounded

Item = TypeVar("Item")

LARGEST_PAGE = 200
"""The server's maximum page size."""

# Long enough for a quick restart, but short enough that a user at the terminal soon learns that the server is down.
SHORT_PATIENCE = 1.0
LONG_PATIENCE = 120.0
PATIENCE_HELP = "How long to retry while the server is unreachable"


class _Told:
    """Reports a problem once, not on every attempt."""

    def __init__(self) -> None:
        self._told = False

    def __call__(self, because: str) -> None:
        # An early response is not an outage, so it is not worth reporting.
        if not self._told and because != "the server responded early":
            self._told = True
            output.remark(f"Retrying: {output.visible(because)} …", style="yellow")


def trouble_teller(*, patience: float) -> Callable[[str], None] | None:
    """Return a callback that reports retries to the user once, or None if retries end soon."""
    return _Told() if patience > SHORT_PATIENCE else None


def session(*, patience: float = SHORT_PATIENCE) -> Assent:
    return Assent(patience=patience, on_trouble=trouble_teller(patience=patience))


class Budget:
    """The time that `--timeout` allows for an entire command, including connecting and retries."""

    def __init__(self, seconds: float | None) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        return None if self._until is None else max(0.0, self._until - time.monotonic())

    def perform(self, assent: Assent, flow: Flow[Item]) -> Item:
        """Perform a call within the remaining time."""
        return assent.perform(bounded(flow, pace=assent.calls.pace, seconds=self.left))


def gathered(
    read: Callable[[int, str | None], tuple[list[Item], str | None]], limit: int
) -> tuple[list[Item], str | None]:
    """Read pages up to the limit; return the items, and a cursor if there are more."""
    items: list[Item] = []
    cursor: str | None = None
    while True:
        # Never request more items than needed, so that the cursor continues right after the last item.
        page, cursor = read(min(LARGEST_PAGE, limit - len(items)), cursor)
        items += page
        if cursor is None or len(items) >= limit:
            return items, cursor
