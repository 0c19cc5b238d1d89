"""Trigger events as received from their source and as seen by patterns and templates."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from assent.core.canonical import Json
from assent.core.patterns.expressions import Attribute, Attributes, Kind, Subject
from assent.core.timestamps import SECOND, iso

SPEC_VERSION = "1.0"
WINDOW = 600 * SECOND
"""How long identical bodies count as the same event, if the sender does not provide an ID."""
VIEW = (
    "repo", "branch", "ref", "sha", "before", "actor", "actortype", "action", "conclusion", "paths", "labels",
    "title", "url", "attempt", "tags",
)  # fmt: skip
"""Fields that are extracted from every provider's body, if present."""
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


class Trust(StrEnum):
    UNTRUSTED = "untrusted"
    """Outsiders may have written parts of the event, such as titles, branch names or commit messages."""
    TRUSTED = "trusted"


class EventState(StrEnum):
    RECEIVED = "received"
    MATCHED = "matched"
    UNMATCHED = "unmatched"
    FAILED = "failed"
    """The triggers could not be evaluated. To retry, replay the event or have the sender deliver it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """An event as received from its source, verified but not stored yet."""

    type: str
    key: str
    """Deduplicates the events of a source: a repeated delivery has the same key."""
    data: Json
    """The complete body as received."""
    view: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The fields of VIEW that the event has."""
    subject: str | None = None
    occurred_at: int | None = None
    verified: str = "none"
    """How the event was verified: hmac-sha256, standard-webhooks, bearer, path, local, or none."""
    trust: Trust = Trust.UNTRUSTED
    delivery_id: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Only headers on the source kind's allowlist, which never includes credentials or signatures."""
    marks: tuple[str, ...] = ()
    """The IDs of the runs whose marks the event contains. In a stored event, the run that caused it comes first."""
    window: int | None = None
    """How long the key is used for deduplication, in microseconds. None means as long as the event is stored."""

    @property
    def mark(self) -> str | None:
        return self.marks[0] if self.marks else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerEvent:
    """A stored event; `depth` is the number of runs that led to it."""

    id: str
    project: str
    source_id: str
    source: str
    """The name of the source when the event arrived."""
    arrived: Arrived
    state: EventState = EventState.RECEIVED
    duplicates: int = 0
    replay_of: str | None = None
    replay_for: str | None = None
    """The ID of the only trigger to evaluate, if a replay is limited to one."""
    causation_id: str | None = None
    """The run that caused the event, or the event that it replays."""
    correlation_id: str
    """The first event of the chain that contains this event."""
    depth: int = 0
    received_at: int
    handled_at: int | None = None
    attempts: int = 0
    error: str | None = None
    trace: Json = None
    """Why each trigger matched or did not match when the event was processed."""

    @property
    def type(self) -> str:
        return self.arrived.type


def seen(event: TriggerEvent) -> dict[str, Json]:
    """Return the fields that patterns and templates can use."""
    arrived = event.arrived
    return {
        # Listed first, so that a forged view cannot replace the fields below.
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
    """Return the event as a CloudEvents 1.0 envelope with Assent's extensions, omitting attributes without a value."""
    arrived = event.arrived
    found = {
        "specversion": SPEC_VERSION,
        "id": event.id,
        "source": f"/sources/{event.source}",
        "type": arrived.type,
        "subject": arrived.subject,
        # CloudEvents consumers expect a time, so the time of receipt is the default.
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
