"""API endpoints for receipts and the keys that sign them."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import Header, Response

from assent.breakpoints.api.breakpoints import once_of
from assent.contracts import receipts as wire
from assent.core.receipts import parse, spelt
from assent.core.timestamps import iso
from assent.http.endpoint import JSON, REPEATED, Manager, Sent, Who, With, router
from assent.http.query import known_id
from assent.policy.store.receipts import StoredKey
from assent.policy.usecases.receipts import ReceiptService

receipts = router("receipts")
Key = Annotated[str | None, Header(alias="Idempotency-Key", pattern=r"^[!-~]{1,255}$", description=REPEATED)]


@receipts.get(
    "/breakpoints/{breakpoint_id}/receipt",
    response_model=wire.Receipt,
    summary="Gets the receipt for an approved breakpoint",
)
async def get_receipt(breakpoint_id: str, who: Who, services: With) -> Response:
    # Use a write transaction, because issuing the first receipt creates the project's key.
    use_case = partial(services[ReceiptService].issue, breakpoint_id=known_id(breakpoint_id), by=who)
    receipt = await services.database.write(use_case)
    return Response(receipt.text(), headers={"Cache-Control": "no-store"}, media_type=JSON)


@receipts.post("/receipts/consume", summary="Consumes a receipt; a receipt can be consumed only once")
async def consume_receipt(
    body: Sent[wire.ConsumeReceipt], who: Who, services: With, idempotency_key: Key = None
) -> wire.ReceiptUse:
    receipt = parse(body.receipt)
    once = once_of(idempotency_key, body.receipt, "consume")
    use_case = partial(services[ReceiptService].consume, receipt=receipt, by=who, once=once)
    use = await services.database.write(use_case, locks=receipt.approval.breakpoint_id)
    told = {"breakpointId": receipt.approval.breakpoint_id, "nonce": receipt.approval.nonce}
    return wire.ReceiptUse.of(told | {"usedAt": iso(use.at), "usedBy": use.by})


@receipts.get(
    "/receipts/keys",
    response_model_exclude_none=True,
    summary="Lists the public keys for verifying receipts, newest first",
)
async def list_receipt_keys(who: Who, services: With) -> wire.ReceiptKeys:
    return _page(await services.database.write(partial(services[ReceiptService].keys, by=who)))


@receipts.post(
    "/receipts/keys/rotate",
    response_model_exclude_none=True,
    summary="Rotates the receipt key; older keys remain valid unless you revoke them",
)
async def rotate_receipt_key(body: Sent[wire.RotateReceiptKey], who: Manager, services: With) -> wire.ReceiptKeys:
    use_case = partial(services[ReceiptService].rotate, by=who, revoke=body.revoke)
    return _page(await services.database.write(use_case))


def _page(found: Sequence[StoredKey]) -> wire.ReceiptKeys:
    return wire.ReceiptKeys.of({"items": [key_body(each) for each in found]})


def key_body(key: StoredKey) -> dict[str, Any]:
    return {
        "keyId": key.key_id,
        "publicKey": spelt(key.public),
        "state": key.state,
        "project": key.project,
        "createdAt": iso(key.created_at),
        "createdBy": key.created_by,
        "retiredAt": iso(key.retired_at) if key.retired_at is not None else None,
        "revokedAt": iso(key.revoked_at) if key.revoked_at is not None else None,
    }
