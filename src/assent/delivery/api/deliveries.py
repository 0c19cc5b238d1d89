"""The deliveries API: lists messages with their recipients, attempts and errors, and retries them."""

from functools import partial
from typing import Any

from fastapi import Request, Response

from assent.breakpoints.api.listing import MAX_LIMIT, documented, page_limit, single_filters
from assent.contracts import deliveries as wire
from assent.core.access import Kind, Permission, Principal
from assent.core.errors import InvalidRequest
from assent.core.timestamps import iso
from assent.db.transaction import Transaction
from assent.delivery.store.deliveries import STATES, Attempt, Deliveries, Delivery
from assent.delivery.usecases.outbox import DeliveryService
from assent.http.endpoint import NO_FIELDS, Manager, Who, With, router
from assent.http.query import CURSOR, DELIVERY_ID, LIMIT, known_delivery_id, without_path

deliveries = router("deliveries")

_TEXT = {"type": "string", "minLength": 1, "maxLength": 1000}
_LIMIT = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 50, "description": LIMIT}
_PARAMETERS: dict[str, dict[str, Any]] = {
    "breakpointId": _TEXT | {"description": "Breakpoint ID to filter by."},
    "state": {"enum": list(STATES), "description": "Delivery state to filter by."},
    "channel": _TEXT | {"description": "Channel name to filter by."},
    "limit": _LIMIT,
    "cursor": {"type": "string", "pattern": f"^{DELIVERY_ID.pattern}$", "description": CURSOR},
}


@deliveries.get(
    "/deliveries",
    response_model_exclude_none=True,
    openapi_extra=documented(_PARAMETERS),
    summary="Lists deliveries, newest first",
)
async def list_deliveries(request: Request, who: Who, services: With, response: Response) -> wire.DeliveryPage:
    who.require(Permission.READ)
    given = _filters(request)
    limit = page_limit(given.pop("limit", None))
    after = given.pop("cursor", "")
    filters = given | _own(who)
    rows = await services.database.read(
        lambda tx: tx[Deliveries].page(who.project, filters, after=after, limit=limit + 1)
    )
    response.headers["Cache-Control"] = "no-store"
    page: dict[str, Any] = {"items": [delivery_body(each, who) for each in rows[:limit]]}
    if len(rows) > limit:
        page["nextCursor"] = rows[limit - 1].id
    return wire.DeliveryPage.of(page)


def _filters(request: Request) -> dict[str, str]:
    given = single_filters(request, _PARAMETERS)
    if given.get("state", STATES[0]) not in STATES:
        raise InvalidRequest.at("query state", f"must be one of {', '.join(STATES)}")
    if "cursor" in given and not DELIVERY_ID.fullmatch(given["cursor"]):
        raise InvalidRequest.at("query cursor", "is not a valid cursor")
    # The store's filters are column names.
    if "breakpointId" in given:
        given["breakpoint_id"] = given.pop("breakpointId")
    return given


def _own(who: Principal) -> dict[str, str]:
    """Limit agents to the deliveries of their own breakpoints; other deliveries are not found."""
    return {"created_by_id": who.id} if who.kind is Kind.AGENT else {}


@deliveries.get(
    "/deliveries/{delivery_id}", response_model_exclude_none=True, summary="Gets a delivery with all its attempts"
)
async def get_delivery(delivery_id: str, who: Who, services: With, response: Response) -> wire.DeliveryWithLog:
    who.require(Permission.READ)
    known_delivery_id(delivery_id)

    def use_case(tx: Transaction) -> wire.DeliveryWithLog:
        found = tx[Deliveries].get(delivery_id, project=who.project, **_own(who))
        log = [_attempt_body(each) for each in tx[Deliveries].attempts(delivery_id)]
        return wire.DeliveryWithLog.of(delivery_body(found, who) | {"log": log})

    response.headers["Cache-Control"] = "no-store"
    return await services.database.read(use_case)


@deliveries.post(
    "/deliveries/{delivery_id}/retry",
    dependencies=NO_FIELDS,
    response_model_exclude_none=True,
    summary="Retries a dead delivery, or resends a callback or webhook",
)
async def retry_delivery(delivery_id: str, who: Manager, services: With) -> wire.Delivery:
    use_case = partial(services[DeliveryService].retry, delivery_id=known_delivery_id(delivery_id), by=who)
    revived = await services.database.write(use_case)
    return wire.Delivery.of(delivery_body(revived, who))


def delivery_body(delivery: Delivery, who: Principal) -> dict[str, Any]:
    # The path of a callback URL may contain a secret, so only its agent and admins see it.
    whole = who.kind is Kind.AGENT or who.may(Permission.MANAGE)
    return {
        "id": delivery.id,
        "breakpointId": delivery.breakpoint_id,
        "channel": delivery.channel,
        "recipient": delivery.recipient if whole else without_path(delivery.recipient),
        "type": delivery.type,
        "seq": delivery.seq,
        "state": delivery.state,
        "attempts": delivery.attempts,
        "nextAttemptAt": iso(delivery.next_at) if delivery.state == "pending" else None,
        "lastError": delivery.last_error,
        "createdAt": iso(delivery.created_at),
        "updatedAt": iso(delivery.updated_at),
    }


def _attempt_body(attempt: Attempt) -> dict[str, Any]:
    return {
        "n": attempt.n,
        "at": iso(attempt.at),
        "worker": attempt.worker,
        "milliseconds": attempt.milliseconds,
        "status": attempt.status,
        "error": attempt.error,
    }
