"""What a message to people is made of, before any channel has given it a form."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from assent.domain.breakpoint import Breakpoint, Event


class Purpose(StrEnum):
    """Why a message is sent."""

    ASK = "ask"
    REMIND = "remind"
    ESCALATE = "escalate"
    TELL = "tell"
    """Something happened that the receiver follows, but nothing is asked: only webhooks want it."""
    CLOSE = "close"
    """It has ended: whatever was shown before must not look open any more."""


@dataclass(frozen=True, slots=True)
class Addressee:
    """Whom a message is for: a person, or the place that the channel's settings name."""

    name: str = ""
    """The person's name with us; empty for the channel's own place (a room, an endpoint, a Jira project)."""
    display_name: str = ""
    email: str | None = None
    identity: str | None = None
    """The person as the channel knows them, once they have linked the two: `T01:U02` in Slack."""
    zone: str | None = None
    """The time zone of the person's preferences; None for UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One message to one addressee. At every attempt it is the same note, with the same id."""

    id: str
    purpose: Purpose
    to: Addressee
    breakpoint: Breakpoint
    event: Event
    """What it tells of: the creation, a reminder, an escalation, the end."""
    review_url: str
    """Where a person who is signed in answers; opening it decides nothing."""
    answer_url: str
    """Where the channel's own side sends what it hears: POST, verified by the channel."""
    attempt: int = 1
    """Above 1 an earlier attempt may have arrived without our knowing: look before sending again where one can."""
    thread: Mapping[str, str] | None = None
    """What the first message to this addressee about this breakpoint left as its trace."""
    unconfirmed: tuple[str, ...] = ()
    """The ids of earlier notes that may have arrived without a reply: what closes looks for their messages too."""
    may_be_told: bool = True
    """Whether the addressee may still read about it; otherwise earlier messages are changed, and none is added."""
    at: int = 0
    """When this attempt was begun, in microseconds."""
    digest: "Digest | None" = None
    """The digest that told of it, as it stands now; only for what closes an item of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """One message in place of many: too much happened to tell it one by one."""

    id: str
    to: Addressee
    waiting: tuple[Breakpoint, ...]
    """The first of what waits for an answer; of a digest that is told again, some may have ended."""
    total: int
    """How many wait in all, those above included."""
    ended: int
    """How many that were told of before have ended since."""
    inbox_url: str
    urls: Mapping[str, str]
    """The Review link of each that is named."""
    deliveries: Mapping[str, str] = field(default_factory=dict[str, str])
    """The delivery of each that is named: an answer to an item names it."""
    attempt: int = 1
    at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A message about a person's own account; it asks nothing and belongs to no breakpoint."""

    id: str
    to: Addressee
    title: str
    text: str
    link: str
    link_label: str
