"""What happened outside: an event as its source tells it, and as patterns and templates see it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from assent.domain.canonical import Json
from assent.domain.expressions import Attribute, Attributes, Kind, Subject
from assent.domain.instants import SECOND, iso

SPEC_VERSION = "1.0"
WINDOW = 600 * SECOND
"""How long equal bytes are taken for the same event, where the sender gives it no name."""
VIEW = (
    "repo", "branch", "ref", "sha", "before", "actor", "actortype", "action", "conclusion", "paths", "labels",
    "title", "url", "attempt", "tags",
)  # fmt: skip
"""What is read out of every provider's body, where it has such a thing."""
EVENT_ATTRIBUTES: Final[Attributes] = {
    **{name: Attribute(kind=Kind.TEXT) for name in VIEW if name not in {"paths", "labels", "tags", "attempt"}},
    "paths": Attribute(kind=Kind.LIST),
    "labels": Attribute(kind=Kind.LIST),
    "tags": Attribute(kind=Kind.LIST),
    "attempt": Attribute(kind=Kind.NUMBER),
    "source": Attribute(kind=Kind.TEXT),
    "type": Attribute(kind=Kind.TEXT),
    "subject": Attribute(kind=Kind.TEXT),
    "trust": Attribute(kind=Kind.TEXT, choices=("untrusted", "trusted")),
    "verified": Attribute(kind=Kind.TEXT),
    "depth": Attribute(kind=Kind.NUMBER),
    "data": Attribute(kind=Kind.OBJECT),
}
MARK = "assent-run:"
"""What a run leaves on whatever it writes, followed by its id: an event that carries it is the run's own doing."""


class Trust(StrEnum):
    UNTRUSTED = "untrusted"
    """Strangers may have written parts of it: titles, branch names, commit messages."""
    TRUSTED = "trusted"


class EventState(StrEnum):
    RECEIVED = "received"
    MATCHED = "matched"
    UNMATCHED = "unmatched"
    FAILED = "failed"
    """It could not be held against the triggers; it is tried again by hand, or when its sender sends it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """An event as its source tells it, verified; not stored yet."""

    type: str
    key: str
    """The same when the sender says it again: it counts once for its source."""
    data: Json
    """The whole body as it was sent."""
    view: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The names of VIEW that it has."""
    subject: str | None = None
    occurred_at: int | None = None
    verified: str = "none"
    """How it was made sure that the source sent it: hmac-sha256, standard-webhooks, bearer, path, local."""
    trust: Trust = Trust.UNTRUSTED
    delivery_id: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Only those that the kind of source lists: never credentials or signatures."""
    marks: tuple[str, ...] = ()
    """The ids of the runs whose marks it carries, the one whose doing it is first once it is kept."""
    window: int | None = None
    """Microseconds for which the key counts; None is for as long as the event is kept."""

    @property
    def mark(self) -> str | None:
        return self.marks[0] if self.marks else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerEvent:
    """An event as it is kept. Its `depth` counts how many runs lie between it and the outside world."""

    id: str
    project: str
    source_id: str
    source: str
    """The source's name when it came."""
    arrived: Arrived
    state: EventState = EventState.RECEIVED
    duplicates: int = 0
    replay_of: str | None = None
    replay_for: str | None = None
    """The id of the only trigger it is held against, where somebody has named one."""
    causation_id: str | None = None
    """The run whose doing it is, or the event that it repeats."""
    correlation_id: str
    """The first event of the chain that this one belongs to."""
    depth: int = 0
    received_at: int
    handled_at: int | None = None
    attempts: int = 0
    error: str | None = None
    trace: Json = None
    """Why each trigger did or did not match, as it was when the event was looked at."""

    @property
    def type(self) -> str:
        return self.arrived.type


def seen(event: TriggerEvent) -> dict[str, Json]:
    """Return what patterns and templates may name."""
    arrived = event.arrived
    return {
        **arrived.view,
        "source": event.source,
        "type": arrived.type,
        "subject": arrived.subject,
        "trust": arrived.trust.value,
        "verified": arrived.verified,
        "depth": event.depth,
        "data": arrived.data,
    }


def subject_of(event: TriggerEvent) -> Subject:
    return Subject(event.type, seen(event))


def envelope(event: TriggerEvent) -> dict[str, Any]:
    """Return it as CloudEvents 1.0 with our extensions; what has no value is left out."""
    arrived = event.arrived
    found = {
        "specversion": SPEC_VERSION,
        "id": event.id,
        "source": f"/sources/{event.source}",
        "type": arrived.type,
        "subject": arrived.subject,
        "time": iso(arrived.occurred_at if arrived.occurred_at is not None else event.received_at),
        "datacontenttype": "application/json",
        "deliveryid": arrived.delivery_id,
        "dedupkey": arrived.key,
        "verified": arrived.verified,
        "trust": arrived.trust.value,
        "actor": arrived.view.get("actor"),
        "actortype": arrived.view.get("actortype"),
        "correlationid": event.correlation_id,
        "causationid": event.causation_id,
        "depth": event.depth,
        "receivedat": iso(event.received_at),
        "data": arrived.data,
    }
    return {name: value for name, value in found.items() if value is not None}
