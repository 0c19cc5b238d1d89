"""Receipts for programs that act on approvals: parses, checks and consumes them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

import msgspec

from assent.contracts.receipts import ReceiptKey, ReceiptKeys, ReceiptUse
from assent.core import receipts as domain
from assent.core.canonical import strict_loads
from assent.core.draft import draft
from assent.core.receipts import Keys, Receipt, loads, parse, read_keys
from assent.core.timestamps import SECOND
from assent.sdk.errors import InvalidReceipt, InvalidRequest, MalformedJson, ReceiptMismatch, UnexpectedAnswer
from assent.sdk.files import ContextFile
from assent.sdk.protocol import Expected, Flow, Pace, address, performed, reading, sending, with_files, writing

__all__ = [
    "Expected",
    "Keys",
    "Receipt",
    "ReceiptKey",
    "ReceiptKeys",
    "ReceiptUse",
    "accepting",
    "check",
    "consuming",
    "content_digest",
    "fetching",
    "fetching_keys",
    "listing_keys",
    "loads",
    "parse",
    "pinned",
    "read_keys",
    "refuse_unchecked",
    "rotating_key",
    "trusted",
]

VARIABLE = "ASSENT_RECEIPT_KEY"


def check(receipt: Receipt, keys: Keys, *, now: float, **expected: Unpack[Expected]) -> None:
    """Raise unless one of the keys signed the receipt, it has not expired, and it matches the expected values.

    `now` is in seconds, like `time.time()`. Only the server knows whether the receipt has been used before.
    """
    domain.check(receipt, keys, now=round(now * SECOND), **expected)


def content_digest(body: Mapping[str, Any], files: Sequence[ContextFile] = (), *, project: str) -> str:
    """Return the content hash that the server computes for a breakpoint with this body and these files.

    Compute it from what is about to run, and compare it with the hash in the receipt.
    """
    entries = [file.entry() for file in files]
    try:
        # Convert to JSON and back, to get the values that the server reads.
        sent = strict_loads(json.dumps(with_files(body, entries), ensure_ascii=False, allow_nan=False).encode())
        return draft(sent).digest(project)
    except (KeyError, TypeError, AttributeError, ValueError, MalformedJson) as error:
        msg = f"Cannot compute the content hash: this is not a valid breakpoint ({error})."
        raise InvalidRequest(msg) from error


def pinned(environment: Mapping[str, str]) -> Keys | None:
    """Return the keys in ASSENT_RECEIPT_KEY, or None if it is not set; raise if it contains anything else."""
    text = environment.get(VARIABLE, "")
    return read_keys(text) if text.strip() else None


def refuse_unchecked(environment: Mapping[str, str]) -> None:
    """Raise if a key is pinned, because an answer given without a server has no receipt."""
    if pinned(environment) is not None:
        msg = f"{VARIABLE} pins a receipt key, but local answers do not have receipts. Set ASSENT_URL to use a server."
        raise InvalidReceipt(msg)


def trusted(keys: Iterable[ReceiptKey]) -> dict[str, bytes]:
    """Return the public keys by ID, without revoked keys."""
    found: dict[str, bytes] = {}
    for key in keys:
        if key.state != "revoked":
            read = read_keys(key.public_key)
            # Receipts name their key by ID, so a false ID could pass one key off as another.
            if set(read) != {key.key_id}:
                msg = f"The key ID {key.key_id[:40]} does not match its public key."
                raise InvalidReceipt(msg)
            found |= read
    return found


def fetching(breakpoint_id: str, *, pace: Pace, patience: float) -> Flow[Receipt]:
    """Fetch the receipt of an approval; `check` verifies its signature."""
    request = reading(address(breakpoint_id, "receipt"))
    raw = yield from performed(request, msgspec.Raw, pace=pace, patience=patience)
    receipt = loads(bytes(raw))
    if receipt.approval.breakpoint_id != breakpoint_id:
        msg = f"The server returned the receipt for {receipt.approval.breakpoint_id} instead of {breakpoint_id}."
        raise ReceiptMismatch(msg)
    return receipt


def listing_keys(*, pace: Pace, patience: float) -> Flow[ReceiptKeys]:
    return (yield from performed(reading("/api/receipts/keys"), ReceiptKeys, pace=pace, patience=patience))


def fetching_keys(*, pace: Pace, patience: float) -> Flow[Keys]:
    """Fetch the project's keys from the server, which must be trusted. With `pinned` keys, this is not necessary."""
    page = yield from listing_keys(pace=pace, patience=patience)
    return trusted(page.items)


def rotating_key(*, revoke: bool, pace: Pace, patience: float) -> Flow[ReceiptKeys]:
    request = writing("/api/receipts/keys/rotate", {"revoke": revoke})
    return (yield from performed(request, ReceiptKeys, pace=pace, patience=patience))


def consuming(receipt: Receipt, *, key: str, pace: Pace, patience: float) -> Flow[ReceiptUse]:
    """Consume a receipt. If a response is lost, a repeated request with the same idempotency key is the same use."""
    request = sending("/api/receipts/consume", {"receipt": receipt.body()}, key=key)
    use = yield from performed(request, ReceiptUse, pace=pace, patience=patience)
    told = (use.breakpoint_id, use.nonce)
    # A replayed response about another receipt must not count as a use of this one.
    if told != (receipt.approval.breakpoint_id, receipt.approval.nonce):
        msg = "The server's response is about a different receipt. Do not act on this receipt."
        raise UnexpectedAnswer(msg)
    return use


def accepting(
    receipt: Receipt,
    *,
    keys: Keys | None,
    now: float,
    key: str,
    pace: Pace,
    patience: float,
    **expected: Unpack[Expected],
) -> Flow[ReceiptUse]:
    """Check a receipt with the given keys, or otherwise the server's, against the expected values; then consume it."""
    if keys is None:
        keys = yield from fetching_keys(pace=pace, patience=patience)
    check(receipt, keys, now=now, **expected)
    return (yield from consuming(receipt, key=key, pace=pace, patience=patience))
