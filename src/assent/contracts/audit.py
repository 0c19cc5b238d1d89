"""Shapes of events, checkpoints and proofs."""

from typing import Any

from assent.contracts.shape import Shape


class Checkpoint(Shape, frozen=True, kw_only=True):
    """A signed checkpoint. The other fields are parsed from `note`, the signed text with its signature."""

    number: int
    size: int
    root: str
    at: str
    key_id: str
    note: str
    """Text of the checkpoint, including its signature."""


class CheckpointPage(Shape, frozen=True, kw_only=True):
    items: list[Checkpoint]
    next_before: int | None = None


class AuditEvent(Shape, frozen=True, kw_only=True):
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


class AuditEventPage(Shape, frozen=True, kw_only=True):
    items: list[AuditEvent]
    next_cursor: str | None = None


class CheckpointKey(Shape, frozen=True, kw_only=True):
    key_id: str
    origin: str
    public_key: str
    verifier_key: str
    """Public key in the format that signed-note tools expect."""
    created_at: str
    created_by: str
    retired_at: str | None = None


class CheckpointKeyPage(Shape, frozen=True, kw_only=True):
    items: list[CheckpointKey]


class IncludedEvent(Shape, frozen=True, kw_only=True):
    """An event with its inclusion proof: `path` contains the hashes from the event to the root, in base64."""

    seq: int
    position: int
    hash: str
    path: list[str]


class Inclusion(Shape, frozen=True, kw_only=True):
    id: str
    checkpoint: Checkpoint
    """Checkpoint that the proofs refer to."""
    events: list[IncludedEvent]
    """Events with their inclusion proofs."""
    waiting: int
    """Number of events that are not yet covered by a checkpoint."""


class Consistency(Shape, frozen=True, kw_only=True):
    first: Checkpoint
    second: Checkpoint
    path: list[str]
