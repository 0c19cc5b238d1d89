"""Triggers: which events start which runs; written, suspended, resumed, and checked without being written."""

import asyncio
import contextlib
from collections.abc import Generator, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import Path, Response

from assent.api.routing import NO_FIELDS, PeopleReader, RuleWriter, Services, With, router
from assent.domain.errors import InvalidRequest
from assent.domain.instants import iso
from assent.domain.triggers import Trigger
from assent.domain.triggers_file import written
from assent.domain.triggers_json import respelt, spelt, unspelt
from assent.store.transaction import Transaction
from assent.store.triggers import StoredTrigger
from assent.wire import triggers as shapes

triggers = router("triggers")
TriggerId = Annotated[shapes.TriggerName, Path(description="ID or name of the trigger.")]
_NEEDED = ("on", "run", "enabled")


@contextlib.contextmanager
def as_json() -> Generator[None, None, None]:
    """Say where a trigger is wrong as JSON spells the place."""
    try:
        yield
    except InvalidRequest as error:
        raise respelt(error) from None


async def load_processes(services: Services) -> None:
    """Look at the files of processes before anything is held open: one that takes long to load holds nobody up."""
    await asyncio.to_thread(services.processes.every)


@triggers.get("/triggers", response_model_exclude_none=True, summary="Lists this project's triggers")
async def list_triggers(who: PeopleReader, services: With) -> shapes.TriggerPage:
    found = await services.database.read(partial(services.triggers.listed, by=who))
    return shapes.TriggerPage(items=await _views(found, services), problems=services.reloading.told_to(who) or None)


@triggers.post("/triggers", status_code=201, response_model_exclude_none=True, summary="Creates a trigger")
async def create_trigger(body: shapes.CreateTrigger, who: RuleWriter, services: With) -> shapes.TriggerView:
    said = unspelt(body.model_dump(by_alias=True, exclude_none=True))
    await load_processes(services)
    with as_json():
        made = await services.database.write(partial(services.triggers.create, body=said, by=who))
    return await _view(made, services)


@triggers.post("/triggers/check", response_model_exclude_none=True, summary="Validates a trigger without saving it")
async def check_trigger(body: shapes.CreateTrigger, who: PeopleReader, services: With) -> shapes.TriggerBody:
    del who
    said = unspelt(body.model_dump(by_alias=True, exclude_none=True))
    with as_json():
        found = await asyncio.to_thread(services.triggers.check, said)
    return shapes.TriggerBody.model_validate(trigger_fields(found))


@triggers.get("/triggers/{trigger_id:trigger}", response_model_exclude_none=True, summary="Gets a trigger")
async def show_trigger(trigger_id: TriggerId, who: PeopleReader, services: With) -> shapes.TriggerView:
    found = await services.database.read(lambda tx: services.triggers.known(tx, trigger_id, by=who))
    return await _view(found, services)


@triggers.patch("/triggers/{trigger_id:trigger}", response_model_exclude_none=True, summary="Updates a trigger")
async def change_trigger(
    trigger_id: TriggerId, body: shapes.ChangeTrigger, who: RuleWriter, services: With
) -> shapes.TriggerView:
    said = body.model_dump(by_alias=True, exclude_unset=True)
    for name in _NEEDED:
        if name in said and said[name] is None:
            raise InvalidRequest.at(f"/{name}", "cannot be null")
    changes = unspelt(said)

    def use_case(tx: Transaction) -> StoredTrigger:
        return services.triggers.change(tx, services.triggers.known(tx, trigger_id, by=who).id, changes, by=who)

    await load_processes(services)
    with as_json():
        changed = await services.database.write(use_case)
    return await _view(changed, services)


@triggers.delete(
    "/triggers/{trigger_id:trigger}", status_code=204, summary="Removes a trigger; runs that it has started continue"
)
async def remove_trigger(trigger_id: TriggerId, who: RuleWriter, services: With) -> Response:
    def use_case(tx: Transaction) -> None:
        services.triggers.remove(tx, services.triggers.known(tx, trigger_id, by=who).id, by=who)

    await services.database.write(use_case)
    return Response(status_code=204)


@triggers.post(
    "/triggers/{trigger_id:trigger}/suspend",
    response_model_exclude_none=True,
    summary="Suspends a trigger and queues its events",
)
async def suspend_trigger(
    trigger_id: TriggerId, body: shapes.SuspendTrigger, who: RuleWriter, services: With
) -> shapes.TriggerView:
    def use_case(tx: Transaction) -> StoredTrigger:
        known = services.triggers.known(tx, trigger_id, by=who)
        return services.triggers.suspend(tx, known.id, by=who, because=body.because)

    return await _view(await services.database.write(use_case), services)


@triggers.post(
    "/triggers/{trigger_id:trigger}/resume",
    dependencies=NO_FIELDS,
    response_model_exclude_none=True,
    summary="Resumes a trigger and processes its queued events",
)
async def resume_trigger(trigger_id: TriggerId, who: RuleWriter, services: With) -> shapes.TriggerView:
    def use_case(tx: Transaction) -> StoredTrigger:
        return services.triggers.resume(tx, services.triggers.known(tx, trigger_id, by=who).id, by=who)

    return await _view(await services.database.write(use_case), services)


async def _view(stored: StoredTrigger, services: Services) -> shapes.TriggerView:
    [found] = await _views([stored], services)
    return found


async def _views(found: Sequence[StoredTrigger], services: Services) -> list[shapes.TriggerView]:
    def problems() -> list[str | None]:
        # Reading the signatures of processes takes its time.
        return [
            services.processes.problem(each.trigger.run, dict(each.trigger.inputs), complete=False) for each in found
        ]

    wrong = await asyncio.to_thread(problems)
    return [
        shapes.TriggerView.model_validate(trigger_body(each, problem))
        for each, problem in zip(found, wrong, strict=True)
    ]


def trigger_body(stored: StoredTrigger, problem: str | None) -> dict[str, Any]:
    return {
        **trigger_fields(stored.trigger),
        "id": stored.id,
        "because": stored.because,
        "problem": problem,
        "version": stored.version,
        "origin": stored.origin,
        "createdBy": stored.created_by,
        "createdAt": iso(stored.created_at),
        "updatedBy": stored.updated_by,
        "updatedAt": iso(stored.updated_at),
        "firedAt": iso(stored.fired_at) if stored.fired_at is not None else None,
        "alarmId": stored.alarm_id,
    }


def trigger_fields(trigger: Trigger) -> dict[str, Any]:
    """Return a trigger as JSON spells it."""
    return {"enabled": True} | spelt(written(trigger))
