"""Ports: the protocols that services use and adapters implement."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeVar, runtime_checkable

from assent.domain.breakpoint import Breakpoint, Status
from assent.domain.canonical import Json
from assent.domain.errors import AssentError
from assent.domain.notes import Digest, Note, Notice
from assent.domain.runs import Line, Run, RunFile, Step
from assent.domain.terms import Answer
from assent.domain.trigger_events import Arrived
from assent.sdk.context import Process

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
    """How long after its deadline it ended, if the deadline ended it."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A signal that a breakpoint changed; clients that are interested in it read it again."""

    project: str
    breakpoint_id: str
    status: Status
    version: int
    events: int = 0
    ended: Ended | None = None
    quiet: bool = False
    """Whether the change matters only to inboxes and does not wake clients that wait for an answer."""


class Jobs(Protocol):
    """A queue of jobs that any free worker does after the commit."""

    def put(self, connection: object, name: str, *, key: str, payload: Mapping[str, Any], delay: float = 0) -> None:
        """Enqueue a job in the transaction of this connection; a key is queued only once."""
        ...

    def open(self, connection: object, name: str) -> frozenset[str]:
        """Return the keys of all jobs with this name that are queued or running at this moment."""
        ...


class Presence(Protocol):
    """Which workers are alive."""

    async def beat(self, worker: str) -> frozenset[str]:
        """Record that this worker is alive, and return all workers that are."""
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
    """Runs use cases, each a plain function of a transaction."""

    dialect: str
    damaged: bool
    """Whether the database has reported that its file is damaged."""

    async def write(self, use_case: Callable[[Tx_co], Result], *, locks: str = "") -> Result:
        """Run on a database thread, commit (perhaps together with others), then return.

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
    """Wakes clients that wait for a breakpoint; a hint is never the truth, only a reason to read it again."""

    def wake(self, hints: Sequence[Hint]) -> None: ...


@dataclass(frozen=True, slots=True)
class Taken:
    """A claimed run, with everything that its replay needs."""

    run: Run
    steps: Mapping[str, Step]
    said: frozenset[tuple[str, str]]
    """The type and path of each line that the process itself has written to the journal."""
    times: Mapping[str, int]
    """The times that the process has read, in microseconds, by path."""
    files: Sequence[RunFile]


@dataclass(frozen=True, slots=True)
class Comment:
    n: int
    """The number of the comment on its breakpoint, counted from 1."""
    id: str
    author: str
    comment: str
    at: int


class RunDesk(Protocol):
    """Reads and writes a claimed run; raises Superseded once the claim is lost."""

    async def take(self, run_id: str, *, mine: int) -> Taken | None: ...

    async def hold(self, run: Run, lines: Sequence[Line] = ()) -> None: ...

    async def record(
        self, run: Run, step: Step, lines: Sequence[Line], files: Mapping[str, bytes] | None = None
    ) -> Step: ...

    async def ask(self, run: Run, step: Step, body: Mapping[str, Json], lines: Sequence[Line]) -> Step: ...

    async def comments(self, run: Run, step: Step) -> Sequence[Comment]: ...

    async def reply(self, run: Run, step: Step, comment: Comment, text: str | None) -> Step: ...

    async def writes(self, run: Run, paths: Sequence[str], lines: Sequence[Line]) -> None: ...

    async def leave(self, run: Run, lines: Sequence[Line]) -> bool: ...

    async def content(self, run: Run, path: str) -> bytes: ...

    def now(self) -> int: ...


@dataclass(frozen=True, slots=True)
class FoundProcess:
    """A process that this node knows; if its file cannot be loaded, it has a problem instead of a function."""

    name: str
    file: str
    version: str
    description: str = ""
    problem: str | None = None
    process: Process | None = None


class ProcessRegistry(Protocol):
    """The processes that this node can run."""

    def find(self, name: str) -> FoundProcess | None: ...

    def every(self) -> Sequence[FoundProcess]: ...

    def problem(self, name: str, inputs: Mapping[str, Json], *, complete: bool) -> str | None:
        """Return why a process cannot be run with these inputs, or None if it can.

        If they are not complete, templates represent values that are not known yet.
        """
        ...


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request to a channel's URL, or a message on its own connection; nothing in it is verified yet."""

    headers: Mapping[str, str]
    """The names are lowercase."""
    body: bytes
    at: int


@dataclass(frozen=True, slots=True)
class Posted:
    """A delivered message, and the trace by which it can be found again: Slack's channel and ts, Jira's key."""

    trace: Mapping[str, str]
    status: int | None = None
    said: Incoming | None = None
    """An answer in the receiver's response, which is processed before the message is recorded."""


class Wish(StrEnum):
    """The sender's intent in a channel message."""

    ANSWER = "answer"
    FORM = "form"
    """Show the form that must be filled in first."""
    COMMENT = "comment"
    NOTHING = "nothing"
    """A greeting or a check of the URL, which only requires a reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A verified message from a channel."""

    key: str
    """Deduplicates the message: the same key when the sender repeats it."""
    wish: Wish
    identity: str = ""
    """The sender's account on the channel."""
    delivery_id: str | None = None
    """The delivery that it answers; if None, `breakpoint_id` names the breakpoint."""
    breakpoint_id: str | None = None
    trace: Mapping[str, str] = field(default_factory=dict[str, str])
    """The trace that the answered message must have: a label that anyone can move does not prove anything."""
    comment: str | None = None
    said: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Data that the channel needs to create an answer or to reply."""


@dataclass(frozen=True, slots=True)
class Told:
    """The result of a channel message, in words for its sender; only the sender sees them."""

    done: bool
    message: str
    breakpoint: Breakpoint | None = None
    problems: Mapping[str, str] = field(default_factory=dict[str, str])
    """Errors by the JSON pointer of the field in the answer: `/answers/budget`, `/comment`."""
    error: AssentError | None = None
    """Why it was rejected, for senders that are programs; also set if the message is repeated, without another
    reply."""
    again: bool = False
    """Whether it was received before; its sender was notified then."""


class Channel(Protocol):
    """A way to reach people. Raises outbound's Transient or Permanent if a message cannot be delivered."""

    async def send(self, note: Note) -> Posted: ...

    async def close(self, note: Note) -> Posted | None:
        """Update an earlier message with the outcome; return None if there is nothing to do."""
        ...

    async def digest(self, digest: Digest) -> Posted: ...

    async def check(self) -> str:
        """Test the settings without sending a message, and return the result as one line."""
        ...


@runtime_checkable
class Notifier(Protocol):
    """A channel that can send a person a message about their own account."""

    async def notify(self, notice: Notice) -> Posted: ...


class Ears(Protocol):
    """A channel on which people can answer."""

    def hear(self, incoming: Incoming) -> Sequence[Heard]:
        """Verify and parse a request; raises the domain errors Unauthenticated or InvalidRequest."""
        ...

    def answer(self, heard: Heard, current: Breakpoint) -> Answer | None:
        """Return the answer to this breakpoint; None if a form must be filled in first."""
        ...

    async def reply(self, heard: Heard, told: Told) -> Mapping[str, Any] | None:
        """Send the result to the sender; return the body of the response to the request."""
        ...


class Listening(Protocol):
    """A channel that keeps a connection open or polls, instead of receiving requests."""

    async def listen(self, take: Callable[[Incoming], Awaitable[Mapping[str, Any] | None]]) -> None:
        """Run until cancelled, recovering from every failure; `take` processes a message as it would a request."""
        ...

    def heard_at(self) -> int | None:
        """When the other side was last known to be alive, in microseconds of this machine's monotonic clock."""
        ...


class Hook(Protocol):
    """A source that sends requests to Assent."""

    def take(self, incoming: Incoming, *, key: str | None) -> Sequence[Arrived]:
        """Verify the raw bytes, then parse them; raises the domain errors Unauthenticated or InvalidRequest.

        `key` is the last part of /hooks/{source}/{key}, for senders that cannot sign.
        """
        ...


class Watcher(Protocol):
    """A source on this machine that is watched for events."""

    async def watch(self, desk: "WatchDesk") -> None:
        """Run until cancelled; if it cannot continue, raise OSError or ValueError, whose text is shown to people."""
        ...


class WatchDesk(Protocol):
    """The methods that a watched source can call."""

    source_id: str

    async def watching(self) -> None:
        """Report that no event is missed from now on, which clears an earlier problem."""
        ...

    async def tell(self, arrived: Sequence[Arrived], memory: object = None) -> None:
        """Store these events and, in the same transaction, what the source must remember after a restart.

        Raises Conflict, and stores nothing, if another node has stored a newer memory in the meantime.
        """
        ...

    async def memory(self) -> Any:  # noqa: ANN401  # the type depends on the source
        """Return the last stored memory; None at first."""
        ...

    async def written_by(self, paths: Sequence[str]) -> Mapping[str, str]:
        """Return the runs that announced that they write these files, by path."""
        ...

    def now(self) -> int: ...
