"""Ports for delivery: the capabilities of channels, and the messages that they receive."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from assent.core.breakpoint import Breakpoint
from assent.core.errors import AssentError
from assent.core.terms import Answer
from assent.delivery.message import Digest, Note, Notice
from assent.kernel.ports import Incoming


@dataclass(frozen=True, slots=True)
class Posted:
    """A delivered message, and the trace by which it can be found again: Slack's channel and ts, Jira's key."""

    trace: Mapping[str, str]
    status: int | None = None
    said: Incoming | None = None
    """An answer in the receiver's response; it is processed before the message is recorded as sent."""


class Wish(StrEnum):
    """The sender's intent in a channel message."""

    ANSWER = "answer"
    FORM = "form"
    """Show the form that must be filled in first."""
    COMMENT = "comment"
    NOTHING = "nothing"
    """A greeting or URL check that only needs a reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A verified message from a channel."""

    key: str
    """Identifies duplicates: a message has the same key each time the sender repeats it."""
    wish: Wish
    identity: str = ""
    """The sender's account on the channel."""
    delivery_id: str | None = None
    """The delivery that the message answers; if None, `breakpoint_id` identifies the breakpoint."""
    breakpoint_id: str | None = None
    trace: Mapping[str, str] = field(default_factory=dict[str, str])
    """The trace that the answered message must have; a label is not proof, because anyone can move it."""
    comment: str | None = None
    said: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Data that the channel needs to create an answer or to reply."""


@dataclass(frozen=True, slots=True)
class Told:
    """The result of a channel message, worded for its sender; no one else sees it."""

    done: bool
    message: str
    breakpoint: Breakpoint | None = None
    problems: Mapping[str, str] = field(default_factory=dict[str, str])
    """Errors by the JSON pointer of the field in the answer: `/answers/budget`, `/comment`."""
    error: AssentError | None = None
    """Why the message was rejected, for senders that are programs. It is also set for duplicates, although people do
    not receive a second reply."""
    again: bool = False
    """Whether the message is a duplicate; its sender has already received a reply."""


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
        """Run until cancelled, recovering from every failure; `take` processes a message like a request."""
        ...

    def heard_at(self) -> int | None:
        """Return when the other side was last known to be alive, in microseconds of this machine's monotonic clock."""
        ...
