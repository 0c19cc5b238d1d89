"""API for trigger events: traces, outcomes, replays, dry runs and proposed triggers."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from fastapi import Request

from assent.breakpoints.api.listing import MAX_LIMIT, documented, page_limit, single_filters
from assent.contracts import triggers as shapes
from assent.contracts.shape import json_of
from assent.core.access import Principal
from assent.core.errors import InvalidRequest
from assent.core.timestamps import iso
from assent.core.triggers_json import spelt, unspelt
from assent.db.transaction import Transaction
from assent.http.endpoint import PeopleReader, RuleWriter, Sent, Services, With, router
from assent.http.query import CURSOR, EVENT_ID, LIMIT, known_event_id
from assent.runs.api import run_body
from assent.triggers.api.firings import firing_body
from assent.triggers.api.triggers import as_the_api_names_it, load_processes
from assent.triggers.event import EventState, TriggerEvent, envelope
from assent.triggers.model import Trigger, told
from assent.triggers.usecases.dispatch import Trial, TriggeringService, WholeEvent
from assent.triggers.usecases.sources import SourceService
from assent.triggers.usecases.triggers import TriggerService

trigger_events = router("trigger events")
_SOURCE_ID = "src_"
_PARAMETERS: dict[str, dict[str, Any]] = {
    "source": {"type": "string", "description": "Name or ID of the source to filter by."},
    "type": {"type": "string", "description": "Event type to filter by, such as `github.push`."},
    "state": {
        "type": "string",
        "enum": [each.value for each in EventState],
        "description": "Event state to filter by.",
    },
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 50, "description": LIMIT},
    "cursor": {"type": "string", "pattern": f"^{EVENT_ID.pattern}$", "description": CURSOR},
}


@trigger_events.get(
    "/trigger-events",
    response_model_exclude_none=True,
    openapi_extra=documented(_PARAMETERS),
    summary="Lists trigger events, newest first",
)
async def list_trigger_events(request: Request, who: PeopleReader, services: With) -> shapes.TriggerEventPage:
    given = single_filters(request, _PARAMETERS)
    if given.get("state", "matched") not in set(EventState):
        raise InvalidRequest.at("query state", f"must be one of {', '.join(EventState)}")
    cursor = given.pop("cursor", None)
    if cursor is not None and not EVENT_ID.fullmatch(cursor):
        raise InvalidRequest.at("query cursor", "is not a valid cursor")
    limit = page_limit(given.pop("limit", None))

    def use_case(tx: Transaction) -> Sequence[TriggerEvent]:
        filters = _of_source(tx, given, who, services)
        return services[TriggeringService].events(tx, filters, by=who, before=cursor, limit=limit + 1)

    found = await services.database.read(use_case)
    # An extra row was read to determine whether there is another page.
    more = found[limit - 1].id if len(found) > limit else None
    items = [event_body(each) for each in found[:limit]]
    return shapes.TriggerEventPage.of({"items": items, "nextCursor": more})


def _of_source(tx: Transaction, given: dict[str, str], who: Principal, services: Services) -> dict[str, str]:
    """Replace a source name with its ID. IDs are not looked up, so that events from removed sources can be found."""
    filters = dict(given)
    named = filters.pop("source", None)
    if named is None:
        return filters
    known = named if named.startswith(_SOURCE_ID) else services[SourceService].known(tx, named, by=who).id
    return filters | {"source_id": known}


@trigger_events.post(
    "/trigger-events/test",
    response_model_exclude_none=True,
    summary="Tests an event against all triggers, one trigger or a draft (dry run)",
)
async def test_trigger_event(body: Sent[shapes.TestTriggers], who: PeopleReader, services: With) -> shapes.Trials:
    if (body.event_id is None) == (body.event is None):
        raise InvalidRequest.at("/", "must contain either eventId or event")
    await load_processes(services)
    draft, only = _against(body, services)

    def use_case(tx: Transaction) -> Sequence[Trial]:
        if body.event_id is not None:
            event = services[TriggeringService].event(tx, known_event_id(body.event_id), by=who).event
        else:
            event = services[TriggeringService].supposed(tx, body.event or {}, by=who)
        return services[TriggeringService].try_out(tx, by=who, event=event, drafts=draft, only=only)

    with as_the_api_names_it():
        found = await services.database.read(use_case)
    return shapes.Trials.of({"items": [_trial(each) for each in found]})


def _against(body: shapes.TestTriggers, services: Services) -> tuple[list[Trigger] | None, str | None]:
    if isinstance(body.trigger, shapes.CreateTrigger):
        said = unspelt(json_of(body.trigger))
        with as_the_api_names_it():
            return [services[TriggerService].check(said)], None
    return None, body.trigger


def _trial(trial: Trial) -> dict[str, Any]:
    found = told(trial.trace)
    return {
        "trigger": trial.trigger.name,
        "matched": trial.trace.matched,
        "would": trial.would,
        "findings": found["findings"],
        "inputs": trial.inputs,
        "problem": trial.problem or trial.trace.problem,
    }


@trigger_events.get(
    "/trigger-events/{event_id:event}",
    response_model_exclude_none=True,
    summary="Gets an event with the result of each trigger and the runs that it started",
)
async def show_trigger_event(event_id: str, who: PeopleReader, services: With) -> shapes.TriggerEvent:
    found = await services.database.read(partial(services[TriggeringService].event, event_id=event_id, by=who))
    return shapes.TriggerEvent.of(whole_body(found))


@trigger_events.post(
    "/trigger-events/{event_id:event}/replay",
    status_code=201,
    response_model_exclude_none=True,
    summary="Replays an event as a new event",
)
async def replay_trigger_event(
    event_id: str, body: Sent[shapes.ReplayEvent], who: RuleWriter, services: With
) -> shapes.TriggerEventSummary:
    def use_case(tx: Transaction) -> TriggerEvent:
        return services[TriggeringService].replay(tx, event_id, by=who, trigger=body.trigger)

    return shapes.TriggerEventSummary.of(event_body(await services.database.write(use_case)))


@trigger_events.get(
    "/trigger-events/{event_id:event}/sketch",
    response_model_exclude_none=True,
    summary="Proposes a trigger for an event without saving it",
)
async def sketch_trigger(event_id: str, who: PeopleReader, services: With) -> shapes.TriggerBody:
    await load_processes(services)
    found = await services.database.read(partial(services[TriggeringService].sketch, event_id=event_id, by=who))
    return shapes.TriggerBody.of(spelt(found))


def event_body(event: TriggerEvent) -> dict[str, Any]:
    arrived = event.arrived
    return {
        "id": event.id,
        "type": arrived.type,
        "subject": arrived.subject,
        "source": event.source,
        "sourceId": event.source_id,
        "state": event.state.value,
        "duplicates": event.duplicates,
        "trust": arrived.trust.value,
        "verified": arrived.verified,
        "depth": event.depth,
        "replayOf": event.replay_of,
        "error": event.error,
        "receivedAt": iso(event.received_at),
        "handledAt": iso(event.handled_at) if event.handled_at is not None else None,
        "view": dict(arrived.view),
    }


def whole_body(found: WholeEvent) -> dict[str, Any]:
    event = found.event
    return {
        **event_body(event),
        "attempts": event.attempts,
        "causationId": event.causation_id,
        "correlationId": event.correlation_id,
        "envelope": envelope(event),
        "headers": dict(event.arrived.headers),
        "trace": event.trace,
        "firings": [firing_body(each) for each in found.firings],
        "runs": [run_body(each) for each in found.runs.values()],
        "chain": [event_body(each) for each in found.chain],
    }
