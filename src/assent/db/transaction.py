"""The open transaction that a use case works with; it creates each feature's stores on first use."""

from collections.abc import Mapping
from typing import Any, TypeVar

from assent.core.access import TIMEOUT, Principal
from assent.core.breakpoint import Outline
from assent.kernel.ports import Clock, Ended, Hint, Ids, Jobs, Session

StoreT = TypeVar("StoreT", bound="Store")


class Store:
    """The SQL of one noun, in one transaction: `tx[Channels].get(channel_id)`."""

    def __init__(self, tx: "Transaction") -> None:
        self._session = tx.session

    def clear(self) -> None:
        """Discard what was read, because this use case's changes were undone or another use case begins."""


class Transaction:
    """Use cases never commit: the database commits when a use case returns."""

    def __init__(self, session: Session, clock: Clock, ids: Ids, jobs: Jobs) -> None:
        self.session = session
        self.hints: list[Hint] = []
        self.by: Principal | None = None
        """The principal that admin events are recorded for; None means the system."""
        self._clock = clock
        self._ids = ids
        self._jobs = jobs
        self._stores: dict[type[Store], Any] = {}

    def __getitem__(self, kind: type[StoreT]) -> StoreT:
        """Return this transaction's store of the given kind, creating it on first use."""
        found: StoreT | None = self._stores.get(kind)
        if found is None:
            found = self._stores[kind] = kind(self)
        return found

    def clear(self) -> None:
        """Discard what the stores have read, because a new use case begins."""
        for store in self._stores.values():
            store.clear()

    def now(self) -> int:
        return self._clock.now()

    def new_id(self, prefix: str) -> str:
        return self._ids.new(prefix, self._clock.now())

    def id_at(self, prefix: str, at: int) -> str:
        """Return an ID as it would have been created at that time, for use as a position in the order of IDs."""
        return self._ids.new(prefix, at)

    def changed(self, breakpoint_: Outline, *, quietly: bool = False) -> None:
        """After the commit, wake clients that wait for this breakpoint, or `quietly` only inboxes that show it."""
        events, self.session.recorded = self.session.recorded, 0
        self.hints.append(
            Hint(
                breakpoint_.project,
                breakpoint_.id,
                breakpoint_.status,
                breakpoint_.version,
                events,
                _end(breakpoint_) if breakpoint_.ended_at is not None else None,
                quietly,
            )
        )

    def enqueue(self, job: str, *, key: str, payload: Mapping[str, Any], delay: float = 0) -> None:
        """Queue a job that a worker runs only after the commit; the same key is queued only once."""
        self.session.dirty = True
        self._jobs.put(self.session.alchemy(), job, key=key, payload=payload, delay=delay)

    def open_jobs(self, job: str) -> frozenset[str]:
        """Return the keys of unfinished jobs with this name."""
        return self._jobs.open(self.session.alchemy(), job)

    def acting(self, by: Principal) -> None:
        """Record the admin events of this use case as actions of this principal."""
        self.by = by


def _end(ended: Outline) -> Ended:
    assert ended.ended_at is not None, "ended breakpoints have an end time"
    assert ended.ended_by is not None, "ended breakpoints have an actor"
    return Ended(
        decision=ended.decision.value if ended.decision else None,
        by=ended.ended_by.kind.value,
        after=ended.ended_at - ended.created_at,
        late=ended.ended_at - ended.due_at if ended.ended_by == TIMEOUT else None,
    )
