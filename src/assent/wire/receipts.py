"""Receipts, and the keys that sign them."""

from typing import Annotated, Any, Literal

from pydantic import Field

from assent.wire.words import Sha256, Strict


class ApproverView(Strict):
    by: str
    via: str
    at: str
    expert: str | None = None
    override: bool | None = None


class UseView(Strict):
    at: str
    by: str


class ReceiptView(Strict):
    """A receipt: the signature is over everything else, in canonical form. Fields that are not there are not null."""

    version: Literal[1]
    breakpoint_id: str
    project: str
    gate: str
    agent_id: str
    digest: Sha256
    event: Sha256
    nonce: Sha256
    decision: Literal["approved"]
    decided_at: str
    approvers: Annotated[list[ApproverView], Field(min_length=1)]
    option: str | None = None
    answers: dict[str, Any] | None = None
    edits: dict[str, Any] | None = None
    issued_at: str
    expires_at: str
    key_id: str
    used: UseView | None = None
    signature: str


class ConsumeReceipt(Strict):
    receipt: dict[str, Any]


class ReceiptUse(Strict):
    breakpoint_id: str
    nonce: str
    used_at: str
    used_by: str


class ReceiptKeyView(Strict):
    key_id: str
    public_key: str
    state: Literal["current", "retired", "revoked"]
    project: str
    created_at: str
    created_by: str
    retired_at: str | None = None
    revoked_at: str | None = None


class ReceiptKeyPage(Strict):
    items: list[ReceiptKeyView]


class RotateReceiptKey(Strict):
    revoke: bool = False
