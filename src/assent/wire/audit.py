"""The JSON shapes of checkpoints and proofs; no behaviour."""

from typing import Any

from assent.wire.words import Strict


class CheckpointView(Strict):
    """A signed checkpoint. `note` is the signed text with its signature; the other fields are parsed from it."""

    number: int
    size: int
    root: str
    at: str
    key_id: str
    note: str
    """Signed text, including its signature."""


class CheckpointPage(Strict):
    items: list[CheckpointView]
    next_before: int | None = None


class AuditEventView(Strict):
    """An event of a breakpoint, or an admin event, which has `adminChain` and `subject` instead."""

    at: str
    breakpoint_id: str | None = None
    admin_chain: str | None = None
    seq: int
    type: str
    actor: str
    subject: str | None = None
    gate: str | None = None
    agent_id: str | None = None
    title: str | None = None
    metadata: dict[str, Any]
    previous: str
    hash: str


class AuditEventPage(Strict):
    items: list[AuditEventView]
    next_cursor: str | None = None


class CheckpointKeyView(Strict):
    key_id: str
    origin: str
    public_key: str
    verifier_key: str
    """Key in the format that signed-note tools use."""
    created_at: str
    created_by: str
    retired_at: str | None = None


class CheckpointKeyPage(Strict):
    items: list[CheckpointKeyView]


class IncludedEvent(Strict):
    """An event with its inclusion proof: `path` contains the hashes from the event to the root, in base64."""

    seq: int
    position: int
    hash: str
    path: list[str]


class InclusionView(Strict):
    id: str
    checkpoint: CheckpointView
    events: list[IncludedEvent]
    waiting: int
    """Number of events that no checkpoint covers yet."""


class ConsistencyView(Strict):
    first: CheckpointView
    second: CheckpointView
    path: list[str]
