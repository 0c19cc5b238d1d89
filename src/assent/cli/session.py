"""A server as a command reaches it: by ASSENT_URL and ASSENT_TOKEN, telling the person when it has to wait for it."""

import time
from collections.abc import Callable
from typing import TypeVar

from assent.cli import output
from assent.sdk.client import Assent
from assent.sdk.protocol import Flow, bounded

Item = TypeVar("Item")

LARGEST_PAGE = 200
"""How many rows the server gives at most at a time."""

# A person sits before the screen: a restart is bridged, a server that is not there is told at once.
SHORT_PATIENCE = 1.0
LONG_PATIENCE = 120.0
PATIENCE_HELP = "How long to retry while the server is unreachable"


class _Told:
    """Trouble is mentioned once, not at every attempt."""

    def __init__(self) -> None:
        self._told = False

    def __call__(self, because: str) -> None:
        if not self._told and because != "the server responded early":
            self._told = True
            output.remark(f"Retrying: {output.visible(because)} …", style="yellow")


def trouble_teller(*, patience: float) -> Callable[[str], None] | None:
    """Return what tells the person once that the server is tried again; None where it is not tried for long."""
    return _Told() if patience > SHORT_PATIENCE else None


def session(*, patience: float = SHORT_PATIENCE) -> Assent:
    return Assent(patience=patience, on_trouble=trouble_teller(patience=patience))


class Budget:
    """The time that `--timeout` leaves for a whole command, connecting and retries included."""

    def __init__(self, seconds: float | None) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        return None if self._until is None else max(0.0, self._until - time.monotonic())

    def perform(self, assent: Assent, flow: Flow[Item]) -> Item:
        """Perform a call within what is left."""
        return assent.perform(bounded(flow, pace=assent.calls.pace, seconds=self.left))


def gathered(
    read: Callable[[int, str | None], tuple[list[Item], str | None]], limit: int
) -> tuple[list[Item], str | None]:
    """Read as many pages as the limit takes; return the items, and where it goes on if there are more."""
    items: list[Item] = []
    cursor: str | None = None
    while True:
        page, cursor = read(min(LARGEST_PAGE, limit - len(items)), cursor)
        items += page
        if cursor is None or len(items) >= limit:
            return items, cursor
