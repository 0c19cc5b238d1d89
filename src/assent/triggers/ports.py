"""Ports for triggers: sources that send requests, and sources that are watched."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from assent.kernel.ports import Incoming
from assent.triggers.event import Arrived


class Hook(Protocol):
    """A source that sends requests to Assent."""

    def take(self, incoming: Incoming, *, key: str | None) -> Sequence[Arrived]:
        """Verify the raw bytes and then parse them, or raise Unauthenticated or InvalidRequest.

        `key` is the last part of /hooks/{source}/{key}, for senders that cannot sign.
        """
        ...


class Watcher(Protocol):
    """A source on this machine that Assent watches for events."""

    async def watch(self, desk: "WatchDesk") -> None:
        """Run until cancelled. If it cannot continue, raise OSError or ValueError with a user-facing message."""
        ...


class WatchDesk(Protocol):
    """The methods that a watched source can call."""

    source_id: str

    async def watching(self) -> None:
        """Report that the source is being watched and no longer misses events. This clears any earlier problem."""
        ...

    async def tell(self, arrived: Sequence[Arrived], memory: object = None) -> None:
        """Store these events and, in the same transaction, what the source must remember after a restart.

        Raise Conflict and store nothing if another node has stored newer memory in the meantime.
        """
        ...

    async def memory(self) -> Any:  # noqa: ANN401  # the type depends on the source
        """Return the most recently stored memory, or None initially."""
        ...

    async def written_by(self, paths: Sequence[str]) -> Mapping[str, str]:
        """Map each path to the run that declared that it writes this path."""
        ...

    def now(self) -> int: ...
