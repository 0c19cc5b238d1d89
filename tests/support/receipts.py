"""Verify a receipt without Assent's code, as described in the documentation."""

import base64
import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def holds(text: bytes, public_key: str, *, at: datetime) -> bool:
    """Return whether a receipt is signed with this key and still valid."""
    receipt: dict[str, Any] = json.loads(text)
    signature = base64.b64decode(receipt.pop("signature"))
    key = base64.b64decode(public_key)
    if receipt["keyId"] != "rkey_" + hashlib.sha256(b"assent-receipt-key/1\n" + key).hexdigest()[:16]:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, b"assent-receipt/1\n" + rfc8785.dumps(receipt))
    except InvalidSignature:
        return False
    good = receipt["version"] == 1 and receipt["decision"] == "approved" and "used" not in receipt
    return good and at.astimezone(UTC) < datetime.fromisoformat(receipt["expiresAt"])
