"""The content of messages to people, before a channel formats it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from assent.core.breakpoint import Breakpoint, Event


class Purpose(StrEnum):
    """Why a message is sent."""

    ASK = "ask"
    REMIND = "remind"
    ESCALATE = "escalate"
    TELL = "tell"
    """An update that does not ask for anything, sent only to webhooks."""
    CLOSE = "close"
    """The breakpoint has ended, and earlier messages must no longer look open."""


@dataclass(frozen=True, slots=True)
class Addressee:
    """The recipient of a message: a person, or the fixed destination in the channel's settings."""

    name: str = ""
    """The person's name in Assent; empty for a fixed destination (a room, an endpoint or a Jira project)."""
    display_name: str = ""
    email: str | None = None
    identity: str | None = None
    """The person's linked account on the channel, such as `T01:U02` in Slack."""
    zone: str | None = None
    """The time zone in the person's preferences; None for UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One message to one recipient; every attempt sends the same note with the same ID."""

    id: str
    purpose: Purpose
    to: Addressee
    breakpoint: Breakpoint
    event: Event
    """The event behind the message: the creation, a reminder, an escalation or the end."""
    review_url: str
    """The page on which a signed-in person answers; opening it does not approve or reject anything."""
    answer_url: str
    """The URL to which the channel's service posts answers; the channel verifies them."""
    attempt: int = 1
    """If above 1, an earlier attempt may have arrived without confirmation; if possible, check before resending."""
    thread: Mapping[str, str] | None = None
    """The trace of the first message to this recipient about this breakpoint."""
    unconfirmed: tuple[str, ...] = ()
    """The IDs of earlier notes that may have arrived without confirmation; their messages must be closed too."""
    may_be_told: bool = True
    """Whether the recipient may still be notified; if not, existing messages are updated, but no new one is sent."""
    at: int = 0
    """When this attempt started, in microseconds."""
    digest: "Digest | None" = None
    """The digest that listed the breakpoint, in its current state; set only when an item of a digest is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """One message that lists several breakpoints, because there were too many messages to send one by one."""

    id: str
    to: Addressee
    waiting: tuple[Breakpoint, ...]
    """The first of the pending breakpoints; some may have ended by the time a digest is sent again."""
    total: int
    """The number of pending breakpoints, including those above."""
    ended: int
    """The number of breakpoints that were in earlier messages and have since ended."""
    inbox_url: str
    urls: Mapping[str, str]
    """The Review links of the listed breakpoints, by breakpoint ID."""
    deliveries: Mapping[str, str] = field(default_factory=dict[str, str])
    """The delivery IDs of the listed breakpoints, by breakpoint ID; answers refer to them."""
    attempt: int = 1
    at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A message about a person's own account. It does not concern a breakpoint and requires no answer."""

    id: str
    to: Addressee
    title: str
    text: str
    link: str
    link_label: str
