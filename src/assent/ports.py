"""What the middle of the house needs from its edges, as protocols."""

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
    """Microseconds since 1970; on PostgreSQL, the database's own time."""

    def now(self) -> int: ...


class Ids(Protocol):
    """New ids that sort by time."""

    def new(self, prefix: str, at: int) -> str: ...


@dataclass(frozen=True, slots=True)
class Ended:
    """How a breakpoint ended, for whoever counts; times in microseconds."""

    decision: str | None
    by: str
    after: int
    late: int | None
    """How long after its deadline, where the deadline ended it."""


@dataclass(frozen=True, slots=True)
class Hint:
    """Something happened to a breakpoint; whoever cares reads it again."""

    project: str
    breakpoint_id: str
    status: Status
    version: int
    events: int = 0
    ended: Ended | None = None
    quiet: bool = False
    """Only inboxes care: whoever waits for an answer sleeps on."""


class Jobs(Protocol):
    """Work to be done after the commit, by whichever worker is free."""

    def put(self, connection: object, name: str, *, key: str, payload: Mapping[str, Any], delay: float = 0) -> None:
        """Queue a job inside the transaction of this connection; the same key is queued once."""
        ...

    def open(self, connection: object, name: str) -> frozenset[str]:
        """Return the keys of the jobs of this name that wait or are being done; not of those that come later."""
        ...


class Presence(Protocol):
    """Which workers are alive."""

    async def beat(self, worker: str) -> frozenset[str]:
        """Say that this one is, and return all that are."""
        ...

    async def leave(self, worker: str) -> None: ...


class Session(Protocol):
    """One connection inside one transaction; statements carry `:name` parameters."""

    dialect: str
    dirty: bool
    recorded: int
    """How many events the use case has written."""
    news: bool
    """Whether it has left something for whoever looks after triggers."""

    def alchemy(self) -> object:
        """Return this very connection as SQLAlchemy knows connections: DBOS asks for one."""
        ...

    def all(self, statement: str, params: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Return every row."""
        ...

    def change(self, statement: str, params: Mapping[str, Any]) -> int:
        """Write, and return how many rows it touched."""
        ...

    def write(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows whose count nobody needs; may be sent later, but before the commit."""
        ...

    def each(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> Sequence[Sequence[Sequence[Any]]]:
        """Write every row with a statement of its own, and return what each gave back; sent together if possible."""
        ...


class Database(Protocol[Tx_co]):
    """Runs use cases: each is a plain function of a transaction."""

    dialect: str
    damaged: bool
    """Whether the database has reported that its file is damaged."""

    async def write(self, use_case: Callable[[Tx_co], Result], *, locks: str = "") -> Result:
        """Run on a database thread, commit (perhaps together with others), then return.

        A use case names the row it will lock, so that all nodes take the locks of a batch in one order.
        """
        ...

    async def read(self, use_case: Callable[[Tx_co], Result]) -> Result:
        """Run on a reader thread against one consistent state."""
        ...

    async def fetch(self, statement: str, params: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Run one short key look-up on the fastest path there is."""
        ...

    async def fetch_page(self, statement: str, params: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Run one query that may take a while."""
        ...

    def watch(self, on_batch: Callable[[int, float], None], on_news: Callable[[], None] | None = None) -> None:
        """Tell of every commit how many use cases shared it, and how many seconds it took; and of news for triggers."""
        ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Waiters(Protocol):
    """Wakes whoever waits for a breakpoint; a hint is never the truth, only a reason to look."""

    def wake(self, hints: Sequence[Hint]) -> None: ...


@dataclass(frozen=True, slots=True)
class Taken:
    """A run that was taken up, with all that its replay needs."""

    run: Run
    steps: Mapping[str, Step]
    said: frozenset[tuple[str, str]]
    """Which lines the process itself has caused before, by their kind and place."""
    times: Mapping[str, int]
    """What time it was told, and where."""
    files: Sequence[RunFile]


@dataclass(frozen=True, slots=True)
class Comment:
    n: int
    """Which of all comments on its breakpoint it is, counted from 1."""
    id: str
    author: str
    comment: str
    at: int


class RunDesk(Protocol):
    """Where whoever goes on with a run reads and writes it; raises when the run is not theirs any more."""

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
    """A process as this node knows it; with a problem instead of a function where its file cannot be loaded."""

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
        """Say why a process could not be run with these inputs; None if it could.

        Where they are not complete, templates stand for values that nobody knows yet.
        """
        ...


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request to a channel's address, or what came in over its own connection; nothing of it is believed yet."""

    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    at: int


@dataclass(frozen=True, slots=True)
class Posted:
    """A message that has arrived, and the trace by which it is found again: Slack's channel and ts, Jira's key."""

    trace: Mapping[str, str]
    status: int | None = None
    said: Incoming | None = None
    """What the receiver said in the same breath, for whoever takes answers: taken before the message is recorded."""


class Wish(StrEnum):
    """What somebody on a channel wants."""

    ANSWER = "answer"
    FORM = "form"
    """To be shown what has to be filled in first."""
    COMMENT = "comment"
    NOTHING = "nothing"
    """A greeting, a check of the address: only to be replied to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """Something that was said on a channel, verified to come from there."""

    key: str
    """The same when the sender says it again: it counts once."""
    wish: Wish
    identity: str = ""
    """Who said it, as the channel knows them."""
    delivery_id: str | None = None
    """Which message of ours it answers; else the breakpoint is named."""
    breakpoint_id: str | None = None
    trace: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the answered message must have left as its trace: a label that anybody can move proves nothing."""
    comment: str | None = None
    said: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the channel itself needs to make an answer of it, or to reply."""


@dataclass(frozen=True, slots=True)
class Told:
    """What came of something that was heard, in words for whoever said it; nobody else is shown them."""

    done: bool
    message: str
    breakpoint: Breakpoint | None = None
    problems: Mapping[str, str] = field(default_factory=dict[str, str])
    """What was wrong with which field, as JSON pointers into the answer: `/answers/budget`, `/comment`."""
    error: AssentError | None = None
    """Why it was not taken, for a program that said it; also when it says the same again, and nobody is told twice."""
    again: bool = False
    """Whether it was heard before: its sender was told then."""


class Channel(Protocol):
    """A way to reach people. Raises outbound's Transient or Permanent where a message does not arrive."""

    async def send(self, note: Note) -> Posted: ...

    async def close(self, note: Note) -> Posted | None:
        """Make an earlier message say how it ended; None where there is nothing to do."""
        ...

    async def digest(self, digest: Digest) -> Posted: ...

    async def check(self) -> str:
        """Try the settings without telling anybody anything, and say in a line what was found."""
        ...


@runtime_checkable
class Notifier(Protocol):
    """A channel that reaches one person with a message about their own account."""

    async def notify(self, notice: Notice) -> Posted: ...


class Ears(Protocol):
    """A channel that people answer on."""

    def hear(self, incoming: Incoming) -> Sequence[Heard]:
        """Verify and read what came in; raises domain errors Unauthenticated or InvalidRequest."""
        ...

    def answer(self, heard: Heard, current: Breakpoint) -> Answer | None:
        """Read the answer, now that the question is known; None if a form has to be filled in first."""
        ...

    async def reply(self, heard: Heard, told: Told) -> Mapping[str, Any] | None:
        """Tell whoever said it what came of it; return what the request itself is to be answered with."""
        ...


class Listening(Protocol):
    """A channel that keeps a connection of its own, or asks again and again, instead of being called."""

    async def listen(self, take: Callable[[Incoming], Awaitable[Mapping[str, Any] | None]]) -> None:
        """Run until cancelled, and come back by itself after every failure; `take` is how a request would end."""
        ...

    def heard_at(self) -> int | None:
        """When the other side last gave a sign of life, in microseconds of this machine's steady time."""
        ...


class Hook(Protocol):
    """A source that calls us over HTTP."""

    def take(self, incoming: Incoming, *, key: str | None) -> Sequence[Arrived]:
        """Verify the raw bytes, then read them; raises domain errors Unauthenticated or InvalidRequest.

        `key` is the last part of /hooks/{source}/{key}, for senders that cannot sign.
        """
        ...


class Watcher(Protocol):
    """A source on this machine that is watched."""

    async def watch(self, desk: "WatchDesk") -> None:
        """Run until cancelled; raise OSError or ValueError, whose text people read, when it cannot go on."""
        ...


class WatchDesk(Protocol):
    """What a watched source is given."""

    source_id: str

    async def watching(self) -> None:
        """Say that from now on nothing is missed; a problem that was noted is over."""
        ...

    async def tell(self, arrived: Sequence[Arrived], memory: object = None) -> None:
        """Store these, and in the same transaction what must be known after a restart.

        Raises Conflict, and stores nothing, if another node has told and remembered something in the meantime.
        """
        ...

    async def memory(self) -> Any:  # noqa: ANN401  # whatever it told last
        """Return what was told last; None at first."""
        ...

    async def written_by(self, paths: Sequence[str]) -> Mapping[str, str]:
        """Return the runs that said that they write these files, by path."""
        ...

    def now(self) -> int: ...
