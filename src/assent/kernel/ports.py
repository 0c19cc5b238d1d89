"""Ports: the protocols that services use and adapters implement."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from assent.core.breakpoint import Status

Result = TypeVar("Result")
Tx_co = TypeVar("Tx_co", covariant=True)


class Clock(Protocol):
    """The time in microseconds since 1970; on PostgreSQL, the database's own time."""

    def now(self) -> int: ...


class Ids(Protocol):
    """Creates IDs that sort by time."""

    def new(self, prefix: str, at: int) -> str: ...


@dataclass(frozen=True, slots=True)
class Ended:
    """How a breakpoint ended, for metrics; times in microseconds."""

    decision: str | None
    by: str
    after: int
    late: int | None
    """How long after its deadline the breakpoint ended, if it ended because of the deadline."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A signal that a breakpoint has changed; interested clients then read the breakpoint again."""

    project: str
    breakpoint_id: str
    status: Status
    version: int
    events: int = 0
    ended: Ended | None = None
    quiet: bool = False
    """Whether the change matters only to inboxes and does not wake clients that wait for an answer."""


class Jobs(Protocol):
    """A queue of jobs, each of which any worker can run after the commit."""

    def put(self, connection: object, name: str, *, key: str, payload: Mapping[str, Any], delay: float = 0) -> None:
        """Enqueue a job in this connection's transaction; each key is queued only once."""
        ...

    def open(self, connection: object, name: str) -> frozenset[str]:
        """Return the keys of all jobs with this name that are queued or running at this moment."""
        ...


class Presence(Protocol):
    """Tracks which workers are alive."""

    async def beat(self, worker: str) -> frozenset[str]:
        """Record that this worker is alive, and return all live workers."""
        ...

    async def leave(self, worker: str) -> None: ...


class Session(Protocol):
    """One connection in one transaction; statements have `:name` parameters."""

    dialect: str
    dirty: bool
    recorded: int
    """How many events the use case has recorded."""
    news: bool
    """Whether the use case has created work for triggers."""

    def alchemy(self) -> object:
        """Return this connection as a SQLAlchemy connection, which DBOS requires."""
        ...

    def all(self, statement: str, params: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Return every row."""
        ...

    def change(self, statement: str, params: Mapping[str, Any]) -> int:
        """Execute a write, and return the number of affected rows."""
        ...

    def write(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows without returning their number; they may be sent later, but before the commit."""
        ...

    def each(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> Sequence[Sequence[Sequence[Any]]]:
        """Execute a statement for every row and return the result of each, sent together if possible."""
        ...


class Database(Protocol[Tx_co]):
    """Runs use cases, which are plain functions that receive a transaction."""

    dialect: str
    damaged: bool
    """Whether the database has reported that its file is damaged."""

    async def write(self, use_case: Callable[[Tx_co], Result], *, locks: str = "") -> Result:
        """Run on a database thread, commit (perhaps together with others), then return the result.

        `locks` names the row that a use case will lock, so that all nodes lock the rows of a batch in the same order.
        """
        ...

    async def read(self, use_case: Callable[[Tx_co], Result]) -> Result:
        """Run on a reader thread with one consistent snapshot."""
        ...

    async def fetch(self, statement: str, params: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Run one short lookup by key on the fastest path."""
        ...

    async def fetch_page(self, statement: str, params: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Run one query that may take a while."""
        ...

    def watch(self, on_batch: Callable[[int, float], None], on_news: Callable[[], None] | None = None) -> None:
        """Call `on_batch` after every commit and `on_news` when triggers have work.

        `on_batch` gets the number of use cases that shared the commit, and how many seconds it took.
        """
        ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Waiters(Protocol):
    """Wakes clients that wait for a breakpoint; they must read it again, because a hint does not contain its state."""

    def wake(self, hints: Sequence[Hint]) -> None: ...


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request to a channel's URL, or a message on the channel's own connection, before it is verified."""

    headers: Mapping[str, str]
    """The names are lowercase."""
    body: bytes
    at: int
