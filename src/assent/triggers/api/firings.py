"""API for firings (trigger matches that start runs). Dead firings can be retried or discarded."""

from functools import partial
from typing import Any

from fastapi import Request

from assent.breakpoints.api.listing import MAX_LIMIT, documented, page_limit, single_filters
from assent.contracts import triggers as shapes
from assent.core.errors import InvalidRequest
from assent.core.timestamps import iso
from assent.db.transaction import Transaction
from assent.http.endpoint import NO_FIELDS, PeopleReader, RuleWriter, With, router
from assent.http.query import CURSOR, EVENT_ID, FIRING_ID, LIMIT, known_firing_id
from assent.triggers.model import FiringState
from assent.triggers.store.firings import Firing
from assent.triggers.usecases.dispatch import TriggeringService
from assent.triggers.usecases.triggers import TriggerService

firings = router("firings")
_PARAMETERS: dict[str, dict[str, Any]] = {
    "state": {
        "type": "string",
        "enum": [each.value for each in FiringState],
        "description": "Firing state to filter by.",
    },
    "trigger": {"type": "string", "description": "Name or ID of the trigger to filter by."},
    "eventId": {"type": "string", "pattern": f"^{EVENT_ID.pattern}$", "description": "Event ID to filter by."},
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 50, "description": LIMIT},
    "cursor": {"type": "string", "pattern": f"^{FIRING_ID.pattern}$", "description": CURSOR},
}


@firings.get(
    "/firings",
    response_model_exclude_none=True,
    openapi_extra=documented(_PARAMETERS),
    summary="Lists firings, newest first",
)
async def list_firings(request: Request, who: PeopleReader, services: With) -> shapes.FiringPage:
    given = _filters(request)
    limit, cursor, named = page_limit(given.pop("limit", None)), given.pop("cursor", None), given.pop("trigger", None)

    def use_case(tx: Transaction) -> tuple[list[Firing], dict[tuple[str, str | None], int]]:
        of = {"trigger_id": services[TriggerService].known(tx, named, by=who).id} if named is not None else {}
        found = services[TriggeringService].firings(tx, given | of, by=who, before=cursor, limit=limit + 1)
        # Read the counts in the same transaction, so that they match the list.
        return list(found), dict(services[TriggeringService].counts(tx, by=who))

    found, counts = await services.database.read(use_case)
    counted = sorted(counts.items(), key=str)
    return shapes.FiringPage.of(
        {
            "items": [firing_body(each) for each in found[:limit]],
            "nextCursor": found[limit - 1].id if len(found) > limit else None,
            "counts": [{"state": state, "because": why, "count": count} for (state, why), count in counted],
        }
    )


def _filters(request: Request) -> dict[str, str]:
    given = single_filters(request, _PARAMETERS)
    if given.get("state", "held") not in set(FiringState):
        raise InvalidRequest.at("query state", f"must be one of {', '.join(FiringState)}")
    if "cursor" in given and not FIRING_ID.fullmatch(given["cursor"]):
        raise InvalidRequest.at("query cursor", "is not a valid cursor")
    if "eventId" in given:
        if not EVENT_ID.fullmatch(given["eventId"]):
            raise InvalidRequest.at("query eventId", "is not an event ID; event IDs look like evt_01k9…")
        given["event_id"] = given.pop("eventId")
    return given


@firings.post(
    "/firings/{firing_id}/retry",
    dependencies=NO_FIELDS,
    response_model_exclude_none=True,
    summary="Retries a dead firing",
)
async def retry_firing(firing_id: str, who: RuleWriter, services: With) -> shapes.Firing:
    use_case = partial(services[TriggeringService].retry, firing_id=known_firing_id(firing_id), by=who)
    return shapes.Firing.of(firing_body(await services.database.write(use_case)))


@firings.post(
    "/firings/{firing_id}/discard",
    dependencies=NO_FIELDS,
    response_model_exclude_none=True,
    summary="Discards a dead or held firing",
)
async def discard_firing(firing_id: str, who: RuleWriter, services: With) -> shapes.Firing:
    use_case = partial(services[TriggeringService].discard, firing_id=known_firing_id(firing_id), by=who)
    return shapes.Firing.of(firing_body(await services.database.write(use_case)))


def firing_body(firing: Firing) -> dict[str, Any]:
    return {
        "id": firing.id,
        "eventId": firing.event_id,
        "triggerId": firing.trigger_id,
        "trigger": firing.trigger_name,
        "triggerVersion": firing.trigger_version,
        "state": firing.state.value,
        "because": firing.because.value if firing.because is not None else None,
        "gathered": list(firing.gathered),
        "beyond": firing.beyond,
        "breakpointId": firing.breakpoint_id,
        "runId": firing.run_id,
        "attempts": firing.attempts,
        "nextAt": iso(firing.next_at) if firing.next_at is not None else None,
        "error": firing.error,
        "createdAt": iso(firing.created_at),
        "updatedAt": iso(firing.updated_at),
    }
