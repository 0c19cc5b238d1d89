"""Receipts, and the keys that sign them."""

from typing import Annotated, Any, Literal

from pydantic import Field

from assent.wire.words import Sha256, Strict


class ApproverView(Strict):
    by: str
    """`person:…` or `rule:…`."""
    via: str
    at: str
    expert: str | None = None
    override: bool | None = None


class UseView(Strict):
    at: str
    by: str


class ReceiptView(Strict):
    """A receipt. The signature covers all other fields in canonical form. Absent fields are omitted, not null."""

    version: Literal[1]
    breakpoint_id: str
    project: str
    gate: str
    agent_id: str
    digest: Sha256
    event: Sha256
    """Hash of the audit log event that released the breakpoint."""
    nonce: Sha256
    """Unique per approval."""
    decision: Literal["approved"]
    decided_at: str
    approvers: Annotated[list[ApproverView], Field(min_length=1)]
    option: str | None = None
    answers: dict[str, Any] | None = None
    edits: dict[str, Any] | None = None
    issued_at: str
    expires_at: str
    """When the receipt expires."""
    key_id: str
    used: UseView | None = None
    """Set if the receipt has already been consumed and is therefore invalid."""
    signature: str
    """Ed25519 in base64, over `assent-receipt/1`, a line feed, and the canonical JSON (RFC 8785) of all other fields.
    """


class ConsumeReceipt(Strict):
    receipt: dict[str, Any]
    """The receipt as fetched."""


class ReceiptUse(Strict):
    breakpoint_id: str
    nonce: str
    used_at: str
    used_by: str


class ReceiptKeyView(Strict):
    key_id: str
    public_key: str
    """32 bytes in base64."""
    state: Literal["current", "retired", "revoked"]
    """Receipts signed with a `retired` key are valid. Receipts signed with a `revoked` key are not."""
    project: str
    created_at: str
    created_by: str
    retired_at: str | None = None
    revoked_at: str | None = None


class ReceiptKeyPage(Strict):
    items: list[ReceiptKeyView]


class RotateReceiptKey(Strict):
    revoke: bool = False
    """Whether to revoke all older keys."""
