"""Receipts for whoever acts on an approval: read strictly, checked against what is about to run, used once."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Unpack

import msgspec

from assent.domain import receipts as domain
from assent.domain.canonical import strict_loads
from assent.domain.draft import draft
from assent.domain.instants import SECOND
from assent.domain.receipts import Keys, Receipt, loads, parse, read_keys
from assent.sdk.errors import InvalidReceipt, InvalidRequest, MalformedJson, ReceiptMismatch, UnexpectedAnswer
from assent.sdk.files import ContextFile
from assent.sdk.protocol import Expected, Flow, Pace, address, performed, reading, sending, with_files, writing
from assent.sdk.values import Value

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


class ReceiptKey(Value, frozen=True, kw_only=True):
    """A public key of a project; receipts by a retired one are still good, by a revoked one never."""

    key_id: str
    public_key: str
    state: Literal["current", "retired", "revoked"]
    project: str
    created_at: str
    created_by: str
    retired_at: str | None = None
    revoked_at: str | None = None


class ReceiptKeys(Value, frozen=True, kw_only=True):
    items: list[ReceiptKey]


class ReceiptUse(Value, frozen=True, kw_only=True):
    """That a receipt was used now, for the first time."""

    breakpoint_id: str
    nonce: str
    used_at: str
    used_by: str


def check(receipt: Receipt, keys: Keys, *, now: float, **expected: Unpack[Expected]) -> None:
    """Raise unless one of the keys signed it, it has not expired, and it is about what was expected.

    `now` is in seconds, as `time.time()` tells them. Whether it was used before, only the server knows.
    """
    domain.check(receipt, keys, now=round(now * SECOND), **expected)


def content_digest(body: Mapping[str, Any], files: Sequence[ContextFile] = (), *, project: str) -> str:
    """Return the digest that the server gives to a breakpoint raised with this body and these files.

    Compute it from what is about to run, and compare it with the one in the receipt.
    """
    entries = [file.entry() for file in files]
    try:
        # As the server reads it, whatever Python had it as.
        sent = strict_loads(json.dumps(with_files(body, entries), ensure_ascii=False, allow_nan=False).encode())
        return draft(sent).digest(project)
    except (KeyError, TypeError, AttributeError, ValueError, MalformedJson) as error:
        msg = f"Cannot compute the content hash: this is not a valid breakpoint ({error})."
        raise InvalidRequest(msg) from error


def pinned(environment: Mapping[str, str]) -> Keys | None:
    """Return the keys that ASSENT_RECEIPT_KEY names, or None when it is not set; a text that is no key is refused."""
    text = environment.get(VARIABLE, "")
    return read_keys(text) if text.strip() else None


def refuse_unchecked(environment: Mapping[str, str]) -> None:
    """Raise where a key is pinned: an answer that was given without a server has no receipt."""
    if pinned(environment) is not None:
        msg = f"{VARIABLE} pins a receipt key, but local answers do not have receipts. Set ASSENT_URL to use a server."
        raise InvalidReceipt(msg)


def trusted(keys: Iterable[ReceiptKey]) -> dict[str, bytes]:
    """Return the public keys by their ids, without those that were revoked."""
    found: dict[str, bytes] = {}
    for key in keys:
        if key.state != "revoked":
            read = read_keys(key.public_key)
            if set(read) != {key.key_id}:
                msg = f"The key ID {key.key_id[:40]} does not match its public key."
                raise InvalidReceipt(msg)
            found |= read
    return found


def fetching(breakpoint_id: str, *, pace: Pace, patience: float) -> Flow[Receipt]:
    """Fetch the receipt of an approval; the signature is for `check` to look at."""
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
    """Fetch the keys of the project, on the server's word; `pinned` ones need no such trust."""
    page = yield from listing_keys(pace=pace, patience=patience)
    return trusted(page.items)


def rotating_key(*, revoke: bool, pace: Pace, patience: float) -> Flow[ReceiptKeys]:
    request = writing("/api/receipts/keys/rotate", {"revoke": revoke})
    return (yield from performed(request, ReceiptKeys, pace=pace, patience=patience))


def consuming(receipt: Receipt, *, key: str, pace: Pace, patience: float) -> Flow[ReceiptUse]:
    """Use it; the same idempotency key again is the same use, so a lost answer loses nothing."""
    request = sending("/api/receipts/consume", {"receipt": receipt.body()}, key=key)
    use = yield from performed(request, ReceiptUse, pace=pace, patience=patience)
    told = (use.breakpoint_id, use.nonce)
    if told != (receipt.approval.breakpoint_id, receipt.approval.nonce):
        msg = "The server's response is about a different receipt. Do not act on this receipt."
        raise UnexpectedAnswer(msg)
    return use


def accepting(  # what a flow is given, and what is to be checked
    receipt: Receipt,
    *,
    keys: Keys | None,
    now: float,
    key: str,
    pace: Pace,
    patience: float,
    **expected: Unpack[Expected],
) -> Flow[ReceiptUse]:
    """Check a receipt with these keys, or else the server's, against what is about to be done; then use it."""
    if keys is None:
        keys = yield from fetching_keys(pace=pace, patience=patience)
    check(receipt, keys, now=now, **expected)
    return (yield from consuming(receipt, key=key, pace=pace, patience=patience))
