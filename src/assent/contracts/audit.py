"""JSON models of events, checkpoints and proofs."""

from typing import Any

from assent.contracts.words import Strict


class CheckpointView(Strict):
    """A signed checkpoint. The other fields are parsed from `note`, the signed text with its signature."""

    number: int
    size: int
    root: str
    at: str
    key_id: str
    note: str
    """Text of the checkpoint, including its signature."""


class CheckpointPage(Strict):
    items: list[CheckpointView]
    next_before: int | None = None


class AuditEventView(Strict):
    """A breakpoint event, or an admin event, which has `adminChain` and `subject` instead of `breakpointId`."""

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
    """Public key in the format that signed-note tools expect."""
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
    """Checkpoint that the proofs refer to."""
    events: list[IncludedEvent]
    """Events with their inclusion proofs."""
    waiting: int
    """Number of events that are not yet covered by a checkpoint."""


class ConsistencyView(Strict):
    first: CheckpointView
    second: CheckpointView
    path: list[str]
