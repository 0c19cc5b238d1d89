"""Shapes of receipts and receipt keys."""

from typing import Annotated, Any, Literal

from assent.contracts.shape import Limits, Shape
from assent.contracts.words import Sha256


class Approver(Shape, frozen=True, kw_only=True):
    by: str
    """Approver, in the form `person:…` or `rule:…`."""
    via: str
    at: str
    expert: str | None = None
    override: bool | None = None


class Use(Shape, frozen=True, kw_only=True):
    at: str
    by: str


class Receipt(Shape, frozen=True, kw_only=True):
    """A receipt. The signature covers all other fields in canonical form. Fields without a value are omitted."""

    version: Literal[1]
    """Version of the receipt format."""
    breakpoint_id: str
    project: str
    gate: str
    agent_id: str
    digest: Sha256
    event: Sha256
    """Hash of the event in the audit log that released the breakpoint."""
    nonce: Sha256
    """Value that is unique to the approval."""
    decision: Literal["approved"]
    """Decision. This is always `approved`."""
    decided_at: str
    approvers: Annotated[list[Approver], Limits(min_length=1)]
    """People and rules that approved the breakpoint."""
    option: str | None = None
    answers: dict[str, Any] | None = None
    edits: dict[str, Any] | None = None
    issued_at: str
    expires_at: str
    """Time at which the receipt expires."""
    key_id: str
    used: Use | None = None
    """Details of the receipt's use. Set if the receipt has been consumed and is therefore invalid."""
    signature: str
    """Base64-encoded Ed25519 signature over `assent-receipt/1`, a line feed and the canonical JSON (RFC 8785) of all
    other fields.
    """


class ConsumeReceipt(Shape, frozen=True, kw_only=True):
    receipt: dict[str, Any]
    """The receipt, exactly as the server returned it."""


class ReceiptUse(Shape, frozen=True, kw_only=True):
    breakpoint_id: str
    nonce: str
    used_at: str
    used_by: str


class ReceiptKey(Shape, frozen=True, kw_only=True):
    key_id: str
    public_key: str
    """32-byte public key, Base64-encoded."""
    state: Literal["current", "retired", "revoked"]
    """State of the key. Receipts that were signed with a `retired` key are valid, but those signed with a `revoked` key
    are not.
    """
    project: str
    created_at: str
    created_by: str
    retired_at: str | None = None
    revoked_at: str | None = None


class ReceiptKeys(Shape, frozen=True, kw_only=True):
    items: list[ReceiptKey]


class RotateReceiptKey(Shape, frozen=True, kw_only=True):
    revoke: bool = False
    """Whether to revoke all older keys."""
