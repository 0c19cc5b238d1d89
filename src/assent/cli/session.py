"""A server as a command reaches it: by ASSENT_URL and ASSENT_TOKEN, telling the person when it has to wait for it."""

from collections.abc import Callable
from typing import TypeVar

from assent.cli import output
from assent.sdk.client import Assent

Item = TypeVar("Item")

LARGEST_PAGE = 200
"""How many rows the server gives at most at a time."""

# A person sits before the screen: a restart is bridged, a server that is not there is told at once.
SHORT_PATIENCE = 1.0
LONG_PATIENCE = 120.0


class _Told:
    """Trouble is mentioned once, not at every attempt."""

    def __init__(self) -> None:
        self._told = False

    def __call__(self, because: str) -> None:
        if not self._told and because != "the server answers early":
            self._told = True
            output.remark(f"Trying again: {output.visible(because)} …", style="yellow")


def trouble_teller(*, patience: float) -> Callable[[str], None] | None:
    """Return what tells the person once that the server is tried again; None where it is not tried for long."""
    return _Told() if patience > SHORT_PATIENCE else None


def session(*, patience: float = SHORT_PATIENCE) -> Assent:
    return Assent(patience=patience, on_trouble=trouble_teller(patience=patience))


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
