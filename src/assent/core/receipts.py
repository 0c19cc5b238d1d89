"""Receipts: approvals that are signed with Ed25519 and can be verified offline.

The signature covers a fixed prefix and the canonical JSON (RFC 8785) of all other fields.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from assent.core.access import Kind
from assent.core.breakpoint import Breakpoint, Response, Status
from assent.core.canonical import Json, canonical, is_array, is_object, sha256, strict_loads
from assent.core.errors import InvalidReceipt, MalformedJson, NoReceipt, ReceiptExpired, ReceiptMismatch, ReceiptUsed
from assent.core.importing import VIA
from assent.core.strategies import Decision
from assent.core.timestamps import SECOND, from_iso, iso

VERSION = 1
KEY_BYTES = 32
SIGNATURE_BYTES = 64
LARGEST = 2 * 1024 * 1024
MAY_BE_AHEAD = 300 * SECOND
"""Maximum number of microseconds by which the verifier's clock may be behind the signer's."""
# Prevents signatures of other kinds of messages from being accepted for receipts.
_PREFIX = b"assent-receipt/1\n"
_HEX = re.compile(r"[0-9a-f]{64}")
_KEY_ID = re.compile(r"rkey_[0-9a-f]{16}")
_BREAKPOINT_ID = re.compile(r"bp_[0-9a-z]{26}")

Keys: TypeAlias = Mapping[str, bytes]
"""Trusted public keys by ID."""


@dataclass(frozen=True, slots=True)
class Approver:
    """A person or rule that approved, and the channel that was used."""

    by: str
    via: str
    at: int
    expert: str | None = None
    override: bool = False

    def body(self) -> dict[str, Json]:
        optional = {"expert": self.expert, "override": self.override or None}
        return {"by": self.by, "via": self.via, "at": iso(self.at)} | _given(optional)


@dataclass(frozen=True, slots=True)
class Use:
    """The use of a receipt: when it was used, and by which caller."""

    at: int
    by: str

    def body(self) -> dict[str, Json]:
        return {"at": iso(self.at), "by": self.by}


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """The approval that a receipt proves. If several receipts are issued for an approval, this part is identical."""

    breakpoint_id: str
    project: str
    gate: str
    agent_id: str
    digest: str
    event: str
    """Hash of the release event, which identifies it in the audit chain."""
    nonce: str
    decided_at: int
    approvers: tuple[Approver, ...]
    option: str | None = None
    answers: Mapping[str, Json] | None = field(default=None, hash=False)
    edits: Mapping[str, Json] | None = field(default=None, hash=False)
    decision: str = Decision.APPROVED.value

    def body(self) -> dict[str, Json]:
        optional = {"option": self.option, "answers": self.answers, "edits": self.edits}
        return {
            "breakpointId": self.breakpoint_id,
            "project": self.project,
            "gate": self.gate,
            "agentId": self.agent_id,
            "digest": self.digest,
            "event": self.event,
            "nonce": self.nonce,
            "decision": self.decision,
            "decidedAt": iso(self.decided_at),
            "approvers": [each.body() for each in self.approvers],
        } | _given(optional)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A signed approval with an expiration time. `used` is set if it was used before this copy was issued."""

    approval: Approval
    issued_at: int
    expires_at: int
    key_id: str
    used: Use | None = None
    signature: bytes = b""

    def statement(self) -> dict[str, Json]:
        """The signed content."""
        return {
            "version": VERSION,
            **self.approval.body(),
            "issuedAt": iso(self.issued_at),
            "expiresAt": iso(self.expires_at),
            "keyId": self.key_id,
        } | _given({"used": self.used.body() if self.used else None})

    def body(self) -> dict[str, Json]:
        return self.statement() | {"signature": spelt(self.signature)}

    def text(self) -> str:
        """The receipt as one line of ASCII JSON. The canonical form would write 1e16 as an oversized integer."""
        return json.dumps(self.body(), ensure_ascii=True, allow_nan=False, separators=(",", ":"))

    def signed_bytes(self) -> bytes:
        return _PREFIX + canonical(self.statement())


def approval_of(current: Breakpoint, responses: Sequence[Response], *, purged: bool) -> Approval:
    """Return the approval to certify; raise NoReceipt if the breakpoint was not approved, or was purged or imported."""
    if current.status is not Status.RELEASED or current.decision is not Decision.APPROVED:
        what = current.decision or current.status
        standing = {"status": current.status.value, "decision": current.decision.value if current.decision else None}
        raise NoReceipt(f"{current.id} is {what}. Only approved breakpoints have a receipt.", standing=standing)
    if purged:
        raise NoReceipt(f"The content of {current.id} was purged, including its receipt.")
    assert current.ended_at is not None, "released breakpoints have an end time"
    assert current.ended_by is not None, "released breakpoints have an actor"
    result = current.result or {}
    if result.get("via") == VIA:
        raise NoReceipt(f"{current.id} was imported, so its approver is unknown, and it does not have a receipt.")
    by_rule = Approver(str(current.ended_by), Kind.RULE.value, current.ended_at)
    by_people = tuple(
        Approver(f"{Kind.PERSON}:{each.person}", each.via, each.at, each.seat, each.override)
        for each in responses
        if each.approved
    )
    return Approval(
        breakpoint_id=current.id,
        project=current.project,
        gate=current.gate,
        agent_id=current.agent_id,
        digest=current.digest,
        event=current.head,
        nonce=nonce(current.id, current.head),
        decided_at=current.ended_at,
        approvers=(by_rule,) if current.ended_by.kind is Kind.RULE else by_people,
        option=result.get("option"),
        answers=result.get("answers"),
        edits=result.get("edits"),
    )


def nonce(breakpoint_id: str, event: str) -> str:
    """Return the nonce, which is the same in all receipts for an approval. It does not have to be secret."""
    return sha256(f"assent-receipt-nonce/1\n{breakpoint_id}\n{event}".encode())


def sign(receipt: Receipt, seed: bytes) -> Receipt:
    return replace(receipt, signature=Ed25519PrivateKey.from_private_bytes(seed).sign(receipt.signed_bytes()))


def public_key(seed: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def key_id(public: bytes) -> str:
    """Return the ID of a public key, which is a part of the key's hash."""
    return "rkey_" + sha256(b"assent-receipt-key/1\n" + public)[:16]


def read_keys(text: str) -> dict[str, bytes]:
    """Parse Base64-encoded public keys that are separated by commas or whitespace."""
    found = [_bytes(each, KEY_BYTES) for each in text.replace(",", " ").split()]
    keys = [each for each in found if each is not None]
    if not keys or len(keys) != len(found):
        raise InvalidReceipt(
            "This is not a public key for receipts. It must be 32 bytes in base64, as printed by assent receipt keys."
        )
    return {key_id(each): each for each in keys}


def loads(text: bytes) -> Receipt:
    """Parse a receipt strictly; reject everything that two programs could interpret differently."""
    if len(text) > LARGEST:
        raise InvalidReceipt("The receipt is too large.")
    try:
        return parse(strict_loads(text))
    except MalformedJson as error:
        raise InvalidReceipt(f"This is not a receipt: {error.message}") from error


def parse(value: Json) -> Receipt:
    """Build a receipt from a JSON value; reject unknown fields, missing fields and wrong types."""
    if not is_object(value):
        raise InvalidReceipt("A receipt must be a JSON object.")
    version = value.get("version")
    # isinstance would accept true, which equals 1.
    if type(version) is not int or version != VERSION:
        raise InvalidReceipt("This receipt's version is unknown. Use a newer version of Assent to verify it.")
    fields = _Fields(value)
    receipt = Receipt(
        approval=_approval(fields),
        issued_at=fields.moment("issuedAt"),
        expires_at=fields.moment("expiresAt"),
        key_id=fields.text("keyId", _KEY_ID),
        used=_use(fields.maybe_object("used")),
        signature=_signature(fields),
    )
    # Reject unknown fields, including in nested objects, and values that would be serialized differently.
    if receipt.body() != value:
        unknown = ", ".join(sorted(set(value) - set(receipt.body())))
        raise InvalidReceipt(
            f"Unknown receipt fields: {unknown}." if unknown else "The receipt is not in canonical form."
        )
    return receipt


def check(  # noqa: PLR0913  # everything that a receipt can be checked against
    receipt: Receipt,
    keys: Keys,
    *,
    now: int,
    project: str | None = None,
    gate: str | None = None,
    agent_id: str | None = None,
    digest: str | None = None,
) -> None:
    """Raise an error unless the receipt is trusted, unused, unexpired and for the expected action."""
    # Checked first, because nothing in an unsigned receipt can be trusted.
    _check_signature(receipt, keys)
    approval = receipt.approval
    expected = {"project": project, "gate": gate, "agent": agent_id, "digest": digest}
    said = {"project": approval.project, "gate": approval.gate, "agent": approval.agent_id, "digest": approval.digest}
    for name, value in expected.items():
        if value is not None and value != said[name]:
            msg = f"This receipt is for the {name} {said[name]}, not for {value}."
            raise ReceiptMismatch(msg, field=name, expected=value, found=said[name])
    if receipt.used is not None:
        raise already_used(receipt.approval, receipt.used)
    if receipt.issued_at > now + MAY_BE_AHEAD:
        raise InvalidReceipt("This receipt was issued in the future. Check this machine's clock.")
    check_time(receipt, now)


def check_time(receipt: Receipt, now: int) -> None:
    if now >= receipt.expires_at:
        told = {"decidedAt": iso(receipt.approval.decided_at), "expiresAt": iso(receipt.expires_at)}
        used = {"used": receipt.used.body()} if receipt.used else {}
        msg = (
            f"The receipt for {receipt.approval.breakpoint_id} expired at {told['expiresAt']}. Create a new breakpoint."
        )
        raise ReceiptExpired(msg, **told, **used)


def already_used(approval: Approval, use: Use) -> ReceiptUsed:
    msg = f"The receipt for {approval.breakpoint_id} was used at {iso(use.at)} by {use.by}. Create a new breakpoint."
    return ReceiptUsed(msg, usedAt=iso(use.at), usedBy=use.by)


def _check_signature(receipt: Receipt, keys: Keys) -> None:
    public = keys.get(receipt.key_id)
    # The caller chooses the IDs of its keys, so make sure that the ID matches the key.
    if public is None or key_id(public) != receipt.key_id:
        msg = f"This receipt is signed with the key {receipt.key_id}, which is not trusted here."
        raise InvalidReceipt(msg, keyId=receipt.key_id)
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(receipt.signature, receipt.signed_bytes())
    except (InvalidSignature, ValueError) as error:
        raise InvalidReceipt("Invalid signature: the receipt was modified, or it is from another server.") from error
    times = (receipt.approval.decided_at, receipt.issued_at, receipt.expires_at)
    if not times[0] <= times[1] < times[2]:
        raise InvalidReceipt("The times in this receipt are out of order.")


class _Fields:
    """Reads the fields of a receipt with the expected types."""

    def __init__(self, value: Mapping[str, Json]) -> None:
        self._value = value

    def text(self, name: str, pattern: re.Pattern[str] | None = None) -> str:
        found = self._value.get(name)
        if not isinstance(found, str) or (pattern is not None and not pattern.fullmatch(found)):
            raise InvalidReceipt(f"This receipt's {name} field is missing or not valid.")
        return found

    def maybe_text(self, name: str) -> str | None:
        return self.text(name) if name in self._value else None

    def maybe_object(self, name: str) -> dict[str, Json] | None:
        found = self._value.get(name)
        if name not in self._value:
            return None
        if not is_object(found):
            raise InvalidReceipt(f"This receipt's {name} field is not an object.")
        return found

    def maybe_true(self, name: str) -> bool:
        # False must be omitted, so that every receipt has a single form.
        if name in self._value and self._value[name] is not True:
            raise InvalidReceipt(f"This receipt's {name} field is not true.")
        return name in self._value

    def objects(self, name: str) -> list["_Fields"]:
        found = self._value.get(name)
        if not is_array(found) or not found or not all(is_object(each) for each in found):
            raise InvalidReceipt(f"This receipt's {name} field is missing.")
        return [_Fields(each) for each in found]

    def moment(self, name: str) -> int:
        text = self.text(name)
        with suppress(ValueError, OverflowError):
            at = from_iso(text)
            if iso(at) == text:  # reject other notations of the same time
                return at
        raise InvalidReceipt(f"This receipt's {name} field is not a valid time.")


def _approval(fields: _Fields) -> Approval:
    return Approval(
        breakpoint_id=fields.text("breakpointId", _BREAKPOINT_ID),
        project=fields.text("project"),
        gate=fields.text("gate"),
        agent_id=fields.text("agentId"),
        digest=fields.text("digest", _HEX),
        event=fields.text("event", _HEX),
        nonce=fields.text("nonce", _HEX),
        # Version 1 certifies only approvals.
        decision=fields.text("decision", re.compile(Decision.APPROVED.value)),
        decided_at=fields.moment("decidedAt"),
        approvers=tuple(_approver(each) for each in fields.objects("approvers")),
        option=fields.maybe_text("option"),
        answers=fields.maybe_object("answers"),
        edits=fields.maybe_object("edits"),
    )


def _approver(fields: _Fields) -> Approver:
    expert, override = fields.maybe_text("expert"), fields.maybe_true("override")
    return Approver(fields.text("by"), fields.text("via"), fields.moment("at"), expert, override)


def _use(value: Mapping[str, Json] | None) -> Use | None:
    if value is None:
        return None
    fields = _Fields(value)
    return Use(fields.moment("at"), fields.text("by"))


def _signature(fields: _Fields) -> bytes:
    found = _bytes(fields.text("signature"), SIGNATURE_BYTES)
    if found is None:
        raise InvalidReceipt("This receipt's signature is not 64 bytes in base64.")
    return found


def _bytes(text: str, length: int) -> bytes | None:
    """Decode Base64, accepting only the canonical encoding of a value."""
    try:
        found = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return found if len(found) == length and spelt(found) == text else None


def spelt(value: bytes) -> str:
    """Encode a public key or a signature in Base64."""
    return base64.b64encode(value).decode()


def _given(optional: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in optional.items() if value is not None}
