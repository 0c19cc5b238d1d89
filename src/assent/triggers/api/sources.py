"""API for sources, their status, and schedules' upcoming times."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import Path, Request, Response

from assent.breakpoints.api.listing import documented, single_filters
from assent.contracts import triggers as shapes
from assent.contracts.shape import given
from assent.core.access import Permission, Principal
from assent.core.errors import InvalidRequest
from assent.core.timestamps import SECOND, iso
from assent.db.transaction import Transaction
from assent.http.endpoint import Manager, PeopleReader, Sent, Services, With, router
from assent.triggers.store.sources import StoredSource
from assent.triggers.usecases.scheduler import instants
from assent.triggers.usecases.sources import SourceService
from assent.triggers.usecases.webhooks import Ingress

sources = router("sources")
SourceId = Annotated[shapes.TriggerName, Path(description="ID or name of the source.")]
MOST_INSTANTS = 100
_COUNT: dict[str, dict[str, Any]] = {
    "count": {
        "type": "integer",
        "minimum": 1,
        "maximum": MOST_INSTANTS,
        "default": 5,
        "description": "Number of upcoming times to list for each schedule.",
    },
}


@sources.get("/sources", response_model_exclude_none=True, summary="Lists this project's sources")
async def list_sources(who: PeopleReader, services: With) -> shapes.Sources:
    found = await services.database.read(partial(services[SourceService].listed, by=who))
    return shapes.Sources(items=[_view(each, who, services) for each in found])


@sources.post("/sources", status_code=201, response_model_exclude_none=True, summary="Creates a source")
async def create_source(body: Sent[shapes.CreateSource], who: Manager, services: With) -> shapes.Source:
    def use_case(tx: Transaction) -> StoredSource:
        return services[SourceService].create(tx, body.name, body.kind, body.settings, by=who, enabled=body.enabled)

    return _view(await services.database.write(use_case), who, services)


@sources.get("/sources/{source_id}", response_model_exclude_none=True, summary="Gets a source")
async def show_source(source_id: SourceId, who: PeopleReader, services: With) -> shapes.Source:
    return _view(await _known(services, source_id, who), who, services)


@sources.patch("/sources/{source_id}", response_model_exclude_none=True, summary="Updates a source")
async def change_source(
    source_id: SourceId, body: Sent[shapes.ChangeSource], who: Manager, services: With
) -> shapes.Source:
    changes = given(body)
    for name, value in changes.items():
        if value is None:
            raise InvalidRequest.at(f"/{name}", "cannot be null")

    def use_case(tx: Transaction) -> StoredSource:
        return services[SourceService].change(
            tx, services[SourceService].known(tx, source_id, by=who).id, changes, by=who
        )

    changed = await services.database.write(use_case)
    services[Ingress].forget()
    return _view(changed, who, services)


@sources.delete("/sources/{source_id}", status_code=204, summary="Removes a source but keeps its events")
async def remove_source(source_id: SourceId, who: Manager, services: With) -> Response:
    def use_case(tx: Transaction) -> None:
        services[SourceService].remove(tx, services[SourceService].known(tx, source_id, by=who).id, by=who)

    await services.database.write(use_case)
    services[Ingress].forget()
    return Response(status_code=204)


@sources.get(
    "/schedules",
    response_model_exclude_none=True,
    openapi_extra=documented(_COUNT),
    summary="Lists when this project's schedules will fire next",
)
async def list_schedules(request: Request, who: PeopleReader, services: With) -> shapes.Schedules:
    count = _count(single_filters(request, _COUNT).get("count"))
    found = await services.database.read(partial(services[SourceService].listed, by=who))
    now = services.clock.now()
    schedules = [each for each in found if each.kind == "schedule"]
    return shapes.Schedules.of({"items": [schedule_body(each, now, count) for each in schedules]})


def _count(text: str | None) -> int:
    if text is None:
        return 5
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= MOST_INSTANTS):  # noqa: PLR2004
        raise InvalidRequest.at("query count", f"must be a whole number from 1 to {MOST_INSTANTS}")
    return int(text)


def schedule_body(stored: StoredSource, now: int, count: int) -> dict[str, Any]:
    """Describe a schedule and its upcoming times, each with the UTC offset in effect at that time."""
    zone = str(stored.settings.get("timezone", "UTC"))
    found, problem = _instants(stored, zone, now, count)
    return {
        "sourceId": stored.id,
        "source": stored.name,
        "cron": str(stored.settings.get("cron", "")),
        "timezone": zone,
        "enabled": stored.enabled,
        "problem": problem or stored.problem,
        "next": found,
    }


def _instants(stored: StoredSource, zone: str, now: int, count: int) -> tuple[list[str], str | None]:
    if not stored.enabled:
        return [], None
    try:
        found = instants(stored.settings, now, count)
    except InvalidRequest as error:
        # For example, the time zone is not available on this machine.
        return [], error.message
    return [datetime.fromtimestamp(each // SECOND, ZoneInfo(zone)).isoformat() for each in found], None


async def _known(services: Services, source_id: str, who: Principal) -> StoredSource:
    return await services.database.read(lambda tx: services[SourceService].known(tx, source_id, by=who))


def _view(stored: StoredSource, who: Principal, services: Services) -> shapes.Source:
    return shapes.Source.of(source_body(stored, who, services))


def source_body(stored: StoredSource, who: Principal, services: Services) -> dict[str, Any]:
    """Describe a source. Only admins can see its settings. Secrets are included only as references."""
    manages = who.may(Permission.MANAGE)
    now = services.clock.now()
    return {
        "id": stored.id,
        "name": stored.name,
        "kind": stored.kind,
        "settings": dict(stored.settings) if manages else None,
        "enabled": stored.enabled,
        "origin": stored.origin,
        "address": services[SourceService].address(stored, services.settings.base_url) or None,
        "problem": services[SourceService].problem(stored) if manages else None,
        "heardAt": _at(stored.heard_at),
        "age": max(0, now - stored.heard_at) // SECOND if stored.heard_at is not None else None,
        "refused": stored.refused,
        "refusedAt": _at(stored.refused_at),
        "lastRefusal": stored.last_refusal,
        "silent": _silent(stored, now),
        "silentAt": _at(stored.silent_at),
        "alarmId": stored.alarm_id,
        "nextAt": _at(stored.next_at),
        "createdBy": stored.created_by,
        "createdAt": iso(stored.created_at),
        "updatedBy": stored.updated_by,
        "updatedAt": iso(stored.updated_at),
    }


def _silent(stored: StoredSource, now: int) -> bool:
    """Return whether a source is silent. Raising an alarm (once per silent period) clears `silent_at`."""
    return stored.silent_at <= now if stored.silent_at is not None else stored.alarm_id is not None


def _at(at: int | None) -> str | None:
    return None if at is None else iso(at)
